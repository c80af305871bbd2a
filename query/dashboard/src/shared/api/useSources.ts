import { keepPreviousData, useQuery } from '@tanstack/vue-query';
import { computed } from 'vue';
import { every } from './answers';
import { api, given } from './client';
import type { Period } from './types';

interface SourcesQuery {
  period: Period;
  tz: string;
  /** Words that names have in them; empty for all sources. */
  q?: string;
  /** How many at most. */
  limit: number;
  cursor?: string;
}

/** Sources by number of events, the largest first; the server searches among all of them. */
export function useSources(wanted: () => SourcesQuery, enabled: () => boolean = () => true) {
  return useQuery({
    queryKey: computed(() => ['sources', wanted()]),
    queryFn: async ({ signal }) => {
      const { q, cursor, ...rest } = wanted();
      const { data } = await api.GET('/funnel/sources', { params: { query: { ...rest, ...given({ q, cursor }) } }, signal });
      return data!;
    },
    placeholderData: keepPreviousData,
    refetchInterval: every,
    enabled: computed(enabled),
  });
}
