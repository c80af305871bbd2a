import { useQueries } from '@tanstack/vue-query';
import { computed, toValue } from 'vue';
import type { MaybeRefOrGetter } from 'vue';
import { keptFor } from '../shared/grid/rows';
import type { GridRows, Sight } from '../shared/grid/rows';
import { useSlowly } from '../shared/ui/useSlowly';
import { readItems } from './items';
import type { ItemsQuery } from './items';
import { behindRow } from './upload';
import type { Item } from './upload';

/** How many rows are read at once. */
const size = 100;

/** The rows of a file from one on: an item or null each, where a row is rejected. */
async function read(job: string, first: number, rows: number, signal: AbortSignal): Promise<(Item | null)[]> {
  const found: (Item | null)[] = Array.from({ length: rows }, () => null);
  // A page has fewer items than asked for where results are large.
  for (let after: string | undefined = behindRow(job, first); after !== undefined;) {
    const query: ItemsQuery = { sort: 'row_no', pageSize: size, ...(after && { after }) };
    const page = await readItems(job, query, signal);
    for (const item of page.items) {
      if (item.row_no > first + rows) return found;
      found[item.row_no - 1 - first] = item;
    }
    after = page.next;
  }
  return found;
}

/**
 * The rows of an upload, in the order of its file. The place of a row is its number, so any of them is read without
 * those before it. every says how often rows in sight are read again; false: they do not change.
 */
export function useRows(
  job: string,
  rows: MaybeRefOrGetter<number>,
  sight: MaybeRefOrGetter<Sight>,
  every: MaybeRefOrGetter<number | false>,
): GridRows<Item> {
  const wanted = computed(() => {
    const { from, to } = toValue(sight);
    const first = Math.floor(Math.max(0, from - 20) / size);
    return `${first}-${Math.floor(Math.min(toValue(rows), to + 20) / size)}`;
  });
  // What is passed by is not asked for.
  const asked = useSlowly(() => wanted.value);
  const parts = computed(() => {
    const [from, to] = asked.value.split('-').map(Number) as [number, number];
    const all = Array.from({ length: to - from + 1 }, (_, i) => (from + i) * size);
    return all.map((first) => ({ first, rows: Math.min(size, toValue(rows) - first) })).filter((part) => part.rows > 0);
  });
  const results = useQueries({
    queries: computed(() =>
      parts.value.map((part) => ({
        // With their number: what is not there is rejected only among rows that have been read.
        queryKey: ['uploads', 'rows', job, part.first, part.rows],
        queryFn: ({ signal }: { signal: AbortSignal }) => read(job, part.first, part.rows, signal),
        gcTime: keptFor,
        meta: { kept: false },
        structuralSharing: false, // it would round the exact numbers
        refetchInterval: toValue(every),
      })),
    ),
  });
  const pages = computed(() =>
    parts.value.map((part, i) => ({ ...part, data: (results.value[i] as { data?: (Item | null)[] } | undefined)?.data })),
  );
  return {
    count: computed(() => toValue(rows)),
    at: (index) => pages.value.find(({ first, rows: n }) => index >= first && index < first + n)?.data?.[index - Math.floor(index / size) * size],
    loaded: computed(() => pages.value.flatMap(({ data }) => data ?? []).filter((item) => item !== null)),
    error: computed(() => (results.value.find((result) => result.error)?.error as Error | undefined) ?? null),
  };
}
