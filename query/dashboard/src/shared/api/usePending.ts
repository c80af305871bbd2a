import { useQuery } from '@tanstack/vue-query';
import { computed } from 'vue';
import { can, token } from './access';
import { api, ProblemError } from './client';

/** A place behind all changes: the answer costs nothing. */
const end = btoa('9999-01-01T00:00:00Z|00000000-0000-0000-0000-000000000000-1');

/** Whether the server answers for the items of all uploads; a setting switches that off. True until it has said no. */
export function usePendingOffered() {
  const { data } = useQuery({
    queryKey: ['offered', 'pending', token],
    queryFn: async ({ signal }) => {
      try {
        await api.GET('/pending', { params: { query: { pageSize: 1, after: end } }, signal });
        return true;
      } catch (error) {
        if (error instanceof ProblemError && error.problem.status === 404) return false;
        throw error;
      }
    },
    staleTime: Infinity,
    enabled: computed(() => can('uploads')),
    meta: { kept: false },
  });
  return computed(() => data.value !== false);
}
