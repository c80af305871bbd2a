import { onScopeDispose, ref, watch } from 'vue';
import type { Ref } from 'vue';
import type { Funnel, FunnelQuery } from '../shared/api/types';
import { Pace } from '../shared/live/pace';
import type { Point } from '../shared/live/pace';
import { useLive, useLiveView } from '../shared/live/useLive';

export interface StagePace {
  name: string;
  points: readonly Point[];
}

/**
 * Events per second, from the funnel of today: a window that slides loses old events while it gains new ones, so its
 * differences are not rates. Stale counts stand still, and say nothing of rates. While today is on the page anyway, its snapshots are used; else they are subscribed to.
 */
export function usePace(
  filters: () => FunnelQuery,
  shown: () => Funnel | undefined,
  stale: () => boolean,
): { pace: Pace; ticks: Readonly<Ref<number>> } {
  const { health } = useLive();
  const isToday = () => filters().period === 'today';
  const { state: today } = useLiveView('funnel', () => (isToday() ? null : { ...filters(), period: 'today' }));
  const pace = new Pace();
  /** The time of the newest sample: what is drawn depends on it. */
  const ticks = ref(Date.now());

  function sample(): void {
    ticks.value = Date.now();
    const newest = isToday() ? shown() : today.value;
    const known = health.value === 'live' && !stale() && newest?.period === 'today' && newest.source === filters().source;
    pace.sample(ticks.value, known ? (newest.stages ?? []).map((stage) => [stage.name, stage.count] as const) : null);
  }

  watch(
    () => `${filters().source}\n${filters().tz}`,
    () => pace.reset(),
  );
  const timer = setInterval(sample, 1_000);
  onScopeDispose(() => clearInterval(timer));
  return { pace, ticks };
}
