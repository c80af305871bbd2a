import { computed } from 'vue';
import type { ComputedRef } from 'vue';
import { useRoute, useRouter } from 'vue-router';
import { browserZone, isZone } from '../format/zone';
import { countSet, readAddress, unset, writeAddress } from './fields';
import type { Fields, Values } from './fields';

interface Address<F extends Fields> {
  values: ComputedRef<Values<F>>;
  /** What the address says that cannot be, in sentences. */
  wrong: ComputedRef<string[]>;
  /** How many filters are set. */
  set: ComputedRef<number>;
  /** Replaces the address: going back leaves the page, and does not undo filters one by one. */
  change: (some: Partial<Values<F>>) => void;
  /** The same for what is listed: the list begins again, since a cursor holds for one list alone. */
  filter: (some: Partial<Values<F>>) => void;
  /** Unsets all filters. */
  clear: () => void;
  /** Pushes one, for what is a place of its own, such as the next page of a list. */
  go: (some: Partial<Values<F>>) => void;
}

/** The state of a page that its address holds, so that a link shows others what one sees. */
export function useAddress<F extends Fields>(fields: F): Address<F> {
  const route = useRoute();
  const router = useRouter();
  // A page that is left must not read the address of the next one.
  const { name } = route;
  const read = computed<ReturnType<typeof readAddress<F>>>((before) =>
    before && route.name !== name ? before : readAddress(fields, route.query),
  );
  const query = (some: Partial<Values<F>>) => ({ query: writeAddress(fields, { ...read.value.values, ...some }) });
  const change = (some: Partial<Values<F>>) => void router.replace(query(some));
  const filter = (some: Partial<Values<F>>) => change('cursor' in fields ? { ...some, cursor: '' } : some);
  return {
    values: computed(() => read.value.values),
    wrong: computed(() => read.value.wrong),
    set: computed(() => countSet(fields, read.value.values)),
    change,
    filter,
    clear: () => filter(unset(fields)),
    go: (some) => void router.push(query(some)),
  };
}

/** The zone that all times of a page are in: that of its address, or the browser's. */
export function useZone(): ComputedRef<string> {
  const route = useRoute();
  return computed(() => {
    const asked = route.query.tz;
    return typeof asked === 'string' && isZone(asked) ? asked : browserZone();
  });
}
