import { onScopeDispose, shallowRef, watch } from 'vue';
import type { ShallowRef } from 'vue';
import { fetchReadiness } from '../shared/api/client';
import type { Check } from '../shared/api/types';
import { useLive } from '../shared/live/useLive';

const every = 15_000;

/** What the server says is down or needs attention, asked for regularly while the page is looked at. */
export function useReadiness(): ShallowRef<readonly Check[]> {
  const { health } = useLive();
  const notable = shallowRef<readonly Check[]>([]);

  async function ask(): Promise<void> {
    if (document.hidden) return;
    try {
      const { checks } = await fetchReadiness(AbortSignal.timeout(every));
      notable.value = (checks ?? []).filter((check) => check.status === 'down' || check.warning);
    } catch {
      // No answer at all is what the connection reports.
      notable.value = [];
    }
  }

  const timer = setInterval(() => void ask(), every);
  onScopeDispose(() => clearInterval(timer));
  watch(health, () => void ask(), { immediate: true });
  return notable;
}
