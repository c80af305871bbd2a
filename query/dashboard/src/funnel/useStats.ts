import { keepPreviousData, useQuery } from '@tanstack/vue-query';
import { computed } from 'vue';
import { every } from '../shared/api/answers';
import { api, given } from '../shared/api/client';
import type { FunnelQuery } from '../shared/api/types';

/** How many sources, topics and the like the page asks for: there may be very many. */
const limit = 50;

/** The statistics of a query, for as long as the component lives. */
export function useStats(query: () => FunnelQuery) {
  return useQuery({
    queryKey: computed(() => ['stats', query()]),
    queryFn: async ({ signal }) => {
      const { data } = await api.GET('/stats', { params: { query: { ...given({ ...query() }), limit } }, signal });
      return data!;
    },
    placeholderData: keepPreviousData,
    refetchInterval: every,
  });
}
