import { useQueries } from '@tanstack/vue-query';
import { computed, ref, toValue, watch } from 'vue';
import type { ComputedRef, MaybeRefOrGetter } from 'vue';
import { keptFor } from './rows';
import type { GridRows, Sight } from './rows';

export interface WalkPage<T> {
  items: readonly T[];
  /** The cursor of what is behind; absent from the last page. */
  next?: string;
}

interface Walk<T> {
  /** Names the list: another one begins anew. */
  key: MaybeRefOrGetter<readonly unknown[]>;
  read: (after: string, signal: AbortSignal) => Promise<WalkPage<T>>;
  sight: MaybeRefOrGetter<Sight>;
  /** How often the beginning is read again while nothing behind it is in sight, in milliseconds. */
  every: number;
}

interface Step {
  after: string;
  /** How many rows it has; undefined: it has not come yet. */
  count?: number;
}

/** A page without rows whose end is its beginning: there are none yet. */
const waiting = (step: Step, page: WalkPage<unknown>) => page.items.length === 0 && page.next === step.after;

/**
 * Reads a list whose pages each have the cursor of the next one. Of pages out of sight only their cursors and sizes are
 * kept. A page that is read again and ends elsewhere has those behind it read again.
 */
export function useWalk<T>({ key, read, sight, every }: Walk<T>): GridRows<T> & { ended: ComputedRef<boolean> } {
  const steps = ref<Step[]>([{ after: '' }]);
  watch(
    () => JSON.stringify(toValue(key)),
    () => (steps.value = [{ after: '' }]),
  );

  /** The pages in sight, each with the index of its first row. */
  const inSight = computed(() => {
    const { from, to } = toValue(sight);
    let first = 0;
    const found: { step: Step; place: number; first: number }[] = [];
    for (const [place, step] of steps.value.entries()) {
      const behind = first + (step.count ?? 1);
      // One page more than is seen, so that the next rows are there when they come into sight.
      if (behind > from - 1 && first <= to + 20) found.push({ step, place, first });
      first = behind;
    }
    return found;
  });
  const atTop = computed(() => toValue(sight).from < 50);

  const results = useQueries({
    queries: computed(() =>
      inSight.value.map(({ step, place }) => ({
        queryKey: [...toValue(key), step.after],
        queryFn: ({ signal }: { signal: AbortSignal }) => read(step.after, signal),
        staleTime: place === 0 ? 0 : Infinity,
        gcTime: keptFor,
        meta: { kept: false },
        structuralSharing: false, // it would round the exact numbers that a page may have
        refetchInterval: ({ state }: { state: { data?: WalkPage<T> } }) => {
          if (state.data && waiting(step, state.data)) return 1_000;
          return place === 0 && atTop.value ? every : false;
        },
      })),
    ),
  });

  const pages = computed(() =>
    inSight.value.map((page, i) => ({ ...page, data: (results.value[i] as { data?: WalkPage<T> } | undefined)?.data })),
  );
  watch(
    pages,
    (all) => {
      for (const { place, step, data } of all) {
        if (!data || steps.value[place]?.after !== step.after) continue;
        const wanted = data.next && !waiting(step, data) ? data.next : undefined;
        const behind = steps.value[place + 1]?.after;
        if (steps.value[place]!.count === data.items.length && behind === wanted) continue;
        const kept = behind === wanted ? steps.value.slice(place + 1) : wanted ? [{ after: wanted }] : [];
        steps.value = [...steps.value.slice(0, place), { after: step.after, count: data.items.length }, ...kept];
        return; // the change brings us here again
      }
    },
    { immediate: true },
  );

  const ended = computed(() => steps.value.every((step) => step.count !== undefined));
  return {
    // A page that has not come yet is one row, in whose place the grid says so.
    count: computed(() => steps.value.reduce((sum, step) => sum + (step.count ?? 1), 0)),
    at(index) {
      const page = pages.value.find(({ first, step }) => index >= first && index < first + (step.count ?? 1));
      return page?.data?.items[index - page.first];
    },
    loaded: computed(() => pages.value.flatMap(({ data }) => [...(data?.items ?? [])])),
    error: computed(() => (results.value.find((result) => result.error)?.error as Error | undefined) ?? null),
    ended,
  };
}
