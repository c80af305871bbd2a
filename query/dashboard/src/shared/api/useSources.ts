import { keepPreviousData, useQuery } from '@tanstack/vue-query';
import { computed } from 'vue';
import { every } from './answers';
import { api } from './client';
import type { Period } from './types';

/** As many as the server names at once. */
export const mostSources = 1_000;

/** Sources by number of events, the largest first. */
export function useSources(window: () => { period: Period; tz: string }) {
  return useQuery({
    queryKey: computed(() => ['sources', window().period, window().tz]),
    queryFn: async ({ signal }) => {
      const { period, tz } = window();
      const { data } = await api.GET('/funnel/sources', { params: { query: { period, tz, limit: mostSources } }, signal });
      return data!;
    },
    placeholderData: keepPreviousData,
    refetchInterval: every,
  });
}
