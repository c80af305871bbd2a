import { onScopeDispose, readonly, ref } from 'vue';
import type { Ref } from 'vue';

const now = ref(Date.now());
let readers = 0;
let timer: ReturnType<typeof setInterval> | undefined;

/** The time, ticking once a second; one clock for the whole page. */
export function useNow(): Readonly<Ref<number>> {
  now.value = Date.now();
  if (readers++ === 0) timer = setInterval(() => (now.value = Date.now()), 1_000);
  onScopeDispose(() => {
    if (--readers === 0) clearInterval(timer);
  });
  return readonly(now);
}
