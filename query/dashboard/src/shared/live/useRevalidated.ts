import { onScopeDispose, readonly, ref, shallowRef, watch } from 'vue';
import type { Ref, ShallowRef } from 'vue';
import { getJSON } from '../api/client';
import { recall, remember } from '../api/memory';

export interface Revalidated<T> {
  /** The last good answer, an older one at first; null before there was any. */
  value: ShallowRef<T | null>;
  /** True while value is not of the present question, or the server does not answer. */
  stale: Readonly<Ref<boolean>>;
}

/**
 * Stale while revalidate: shows the last answer at once, and asks again now, whenever `again` changes, and regularly
 * while the page is looked at. An answer that does not come changes nothing but `stale`.
 */
export function useRevalidated<T>(address: () => string, again: () => unknown, every = 15_000): Revalidated<T> {
  const value = shallowRef<T | null>(null);
  const stale = ref(true);
  let asked: AbortController | undefined;

  async function ask(): Promise<void> {
    const question = address();
    asked?.abort();
    const asking = (asked = new AbortController());
    try {
      const answer = await getJSON<T>(question, AbortSignal.any([asking.signal, AbortSignal.timeout(every)]));
      if (asked !== asking) return;
      value.value = answer;
      stale.value = false;
      remember(question, answer);
    } catch {
      // Why is what the connection and the readiness report.
      if (asked === asking) stale.value = true;
    }
  }

  watch(
    address,
    (question) => {
      value.value = recall<T>(question) ?? value.value;
      stale.value = true;
      void ask();
    },
    { immediate: true },
  );
  watch(again, () => void ask());
  const timer = setInterval(() => {
    if (!document.hidden) void ask();
  }, every);
  onScopeDispose(() => {
    clearInterval(timer);
    asked?.abort();
    asked = undefined;
  });
  return { value, stale: readonly(stale) };
}
