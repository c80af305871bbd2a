import { endpoint } from '../shared/api/address';
import { token } from '../shared/api/access';
import type { FunnelQuery, Stats } from '../shared/api/types';
import { useLive } from '../shared/live/useLive';
import { useRevalidated } from '../shared/live/useRevalidated';
import type { Revalidated } from '../shared/live/useRevalidated';

/** How many sources, topics and the like the page asks for: there may be very many. */
const names = '50';

/** The statistics of a query, for as long as the component lives. */
export function useStats(query: () => FunnelQuery): Revalidated<Stats> {
  const { health } = useLive();
  return useRevalidated<Stats>(
    () => endpoint('api/v1/stats', { ...query(), limit: names }),
    () => [health.value, token.value],
  );
}
