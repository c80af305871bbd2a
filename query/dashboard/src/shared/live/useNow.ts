import { onScopeDispose, ref } from 'vue';
import type { Ref } from 'vue';

/** The time, ticking once a second. */
export function useNow(): Readonly<Ref<number>> {
  const now = ref(Date.now());
  const timer = setInterval(() => (now.value = Date.now()), 1_000);
  onScopeDispose(() => clearInterval(timer));
  return now;
}
