import { shallowRef, watch } from 'vue';
import type { ShallowRef } from 'vue';

/** What somebody has chosen in a list: what is known of each, by its id. */
export type Marks<T> = ReadonlyMap<string, T>;

/** Choosing in a list. What is chosen stays so on other pages of the list, but is never hidden by another filter. */
export function useMarks<T>(filter: () => unknown): {
  marked: ShallowRef<Marks<T>>;
  mark: (which: readonly (readonly [id: string, known: T])[], on: boolean) => void;
} {
  const marked = shallowRef<Marks<T>>(new Map());
  watch(
    () => JSON.stringify(filter()),
    () => (marked.value = new Map()),
  );
  function mark(which: readonly (readonly [id: string, known: T])[], on: boolean): void {
    const next = new Map(marked.value);
    for (const [id, known] of which) {
      if (on) next.set(id, known);
      else next.delete(id);
    }
    marked.value = next;
  }
  return { marked, mark };
}
