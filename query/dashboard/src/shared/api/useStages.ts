import { useQuery } from '@tanstack/vue-query';
import { computed } from 'vue';
import { api } from './client';

/** The names of the pipeline's stages, in its order. They change only with the server's settings. */
export function useStages() {
  const { data } = useQuery({
    queryKey: ['stages'],
    queryFn: async ({ signal }) => {
      const { data } = await api.GET('/funnel', { params: { query: { period: 'today' } }, signal });
      return (data!.stages ?? []).map((stage) => stage.name);
    },
    staleTime: 5 * 60_000,
  });
  return computed(() => data.value ?? []);
}
