import { onScopeDispose, ref, watch } from 'vue';
import type { Ref } from 'vue';

/** Follows what somebody types at a distance: the server is asked when the typing pauses. */
export function useSlowly(typed: () => string): Readonly<Ref<string>> {
  const slow = ref(typed().trim());
  let waiting: ReturnType<typeof setTimeout> | undefined;
  watch(typed, (text) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => (slow.value = text.trim()), 180);
  });
  onScopeDispose(() => clearTimeout(waiting));
  return slow;
}
