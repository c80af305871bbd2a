import { computed } from 'vue';
import type { WritableComputedRef } from 'vue';
import { useRoute, useRouter } from 'vue-router';
import type { FunnelQuery } from '../shared/api/types';
import { browserZone } from '../shared/format/zone';
import { addressOf, filtersFrom } from './filters';

/** The filters of the page, kept in its address. */
export function useFilters(): WritableComputedRef<FunnelQuery> {
  const route = useRoute();
  const router = useRouter();
  const zone = browserZone();
  return computed({
    get: () => filtersFrom(route.query, zone),
    // Replaced, not pushed: going back should leave the page, not undo filters one by one.
    set: (filters) => void router.replace({ query: addressOf(filters, zone) }),
  });
}
