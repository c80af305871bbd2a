import { onScopeDispose, ref, watch } from 'vue';
import type { Ref } from 'vue';
import type { Funnel, FunnelQuery } from '../shared/api/types';
import { useFunnel, useLive } from '../shared/live/useLive';
import { Pace } from '../shared/live/pace';

/**
 * Events per second, from the funnel of today: a window that slides loses old events while it gains new ones, so its
 * differences are not rates. While today is on the page anyway, its snapshots are used; else they are subscribed to.
 */
export function usePace(
  filters: () => FunnelQuery,
  shown: () => Funnel | null,
): { pace: Pace; ticks: Readonly<Ref<number>> } {
  const { health } = useLive();
  const isToday = () => filters().period === 'today';
  const { funnel: today } = useFunnel(() => (isToday() ? null : { ...filters(), period: 'today' }));
  const pace = new Pace();
  /** The time of the newest sample: what is drawn depends on it. */
  const ticks = ref(Date.now());

  function sample(): void {
    ticks.value = Date.now();
    const newest = isToday() ? shown() : today.value;
    const known = health.value === 'live' && newest?.period === 'today' && newest.source === filters().source;
    pace.sample(ticks.value, known ? newest.stages : null);
  }

  watch(
    () => `${filters().source}\n${filters().tz}`,
    () => pace.reset(),
  );
  const timer = setInterval(sample, 1_000);
  onScopeDispose(() => clearInterval(timer));
  return { pace, ticks };
}
