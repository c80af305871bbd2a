import { computed } from 'vue';
import type { ComputedRef, Ref } from 'vue';

interface Props {
  wrong: string[];
  set: number;
  has: boolean;
  empty: boolean;
  at: number;
  error: Error | null;
  begun: boolean;
  next: string | undefined;
  onClear: () => void;
  onRetry: () => void;
  onFirst: () => void;
  onNext: (cursor: string) => void;
}

/** What ListPage shows of a query that answers with pages, at an address with a cursor. */
export function useList(
  address: {
    values: ComputedRef<{ cursor: string }>;
    wrong: ComputedRef<string[]>;
    set: ComputedRef<number>;
    filter: (some: object) => void;
    clear: () => void;
    go: (some: { cursor: string }) => void;
  },
  query: {
    data: Ref<{ next_cursor?: string } | undefined>;
    error: Ref<Error | null>;
    dataUpdatedAt: Ref<number>;
    refetch: () => unknown;
  },
  items: Ref<readonly unknown[]>,
): ComputedRef<Props> {
  return computed(() => ({
    wrong: address.wrong.value,
    set: address.set.value,
    has: query.data.value !== undefined,
    empty: items.value.length === 0,
    at: query.dataUpdatedAt.value,
    error: query.error.value,
    begun: address.values.value.cursor !== '',
    next: query.data.value?.next_cursor,
    onClear: address.clear,
    onRetry: () => void query.refetch(),
    onFirst: () => address.filter({}),
    onNext: (cursor) => address.go({ cursor }),
  }));
}
