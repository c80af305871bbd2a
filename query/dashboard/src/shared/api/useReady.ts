import { useQuery } from '@tanstack/vue-query';
import { api, beside } from './client';
import type { Schema } from './types';

/** It also says whether counts are current, which nobody should believe for long when they are not. */
const often = 5_000;

/** Which dependencies of the server are up. A server that is not ready says so with the same document. */
export function useReady() {
  return useQuery({
    queryKey: ['ready'],
    queryFn: async ({ signal }) => {
      const { data, error } = await api.GET('/ready', { ...beside, signal });
      return (data ?? error) as Schema<'Readiness'>;
    },
    refetchInterval: often,
  });
}
