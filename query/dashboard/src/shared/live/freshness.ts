import { computed, onScopeDispose, shallowReactive, watchEffect } from 'vue';

/** What the server has said of how current its counts are. */
export interface Freshness {
  /** When it said so, in milliseconds. */
  at: number;
  /** When the first event came that is not counted; null while the counts are current. */
  staleSince: string | null;
  /** How many are not counted. */
  behind: number;
}

const told = shallowReactive(new Map<symbol, Freshness>());

/** The newest of what the server has said, where that is that its counts are stale. */
export const stale = computed<Freshness | null>(() => {
  const newest = [...told.values()].reduce<Freshness | null>((a, b) => (a && a.at > b.at ? a : b), null);
  return newest?.staleSince ? newest : null;
});

/** Passes on what the server says for as long as the component lives. */
export function useFreshness(find: () => Freshness | null): void {
  const key = Symbol();
  watchEffect(() => {
    const found = find();
    if (found) told.set(key, found);
    else told.delete(key);
  });
  onScopeDispose(() => told.delete(key));
}
