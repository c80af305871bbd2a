import { useQuery } from '@tanstack/vue-query';
import { computed, onScopeDispose, ref } from 'vue';
import { every } from '../shared/api/answers';
import { api } from '../shared/api/client';
import type { Schema } from '../shared/api/types';
import { Pace } from '../shared/live/pace';
import type { Point } from '../shared/live/pace';
import { useLive, useLiveView } from '../shared/live/useLive';

type LiveQueue = Schema<'LiveQueue'>;

/** A queue as the page shows it. */
export interface Shown extends LiveQueue {
  /** Of shards, or defined by users. */
  kind: 'shards' | 'own';
  /** Failed items that are neither dead nor cancelled. */
  retriable: number;
  /** Items done per second over the last minutes, since the page was opened. */
  points: readonly Point[];
  rate: number | null;
}

/** Items by state, of the same snapshot as the figures above them. */
export function countsOf(queue: Shown): Schema<'ItemStates'> {
  const { ready, delayed, running, done, retriable, dead, cancelled } = queue;
  return { new: ready, scheduled: delayed, started: running, done, failed: retriable, dead, cancelled };
}

/** User-defined queues, with their limits. */
export function useUserQueues() {
  return useQuery({
    queryKey: ['queues', 'own'],
    queryFn: async ({ signal }) => (await api.GET('/queues', { signal })).data!.items,
    refetchInterval: every,
  });
}

/** The queues of shards, with their limits, by the name of the stage. */
export function useShardQueues() {
  return useQuery({
    queryKey: ['queues', 'shards'],
    queryFn: async ({ signal }) => {
      const { data } = await api.GET('/pipeline/metrics/summary', { signal });
      return Object.fromEntries(
        Object.entries(data!.queues).map(([column, state]) => [column.replaceAll('_', '-'), state]),
      );
    },
    refetchInterval: every,
  });
}

/** All queues as they change, with how fast they work. */
export function useQueues() {
  const { health } = useLive();
  const { state, at, problem } = useLiveView('queues');
  const { data: own, error } = useUserQueues();
  const pace = new Pace();
  const ticks = ref(Date.now());
  const timer = setInterval(() => {
    ticks.value = Date.now();
    const known = health.value === 'live' ? state.value?.queues : null;
    pace.sample(ticks.value, known ? known.map((queue) => [queue.name, queue.done] as const) : null);
  }, 1_000);
  onScopeDispose(() => clearInterval(timer));

  const queues = computed<Shown[]>(() => {
    const names = new Set((own.value ?? []).map((queue) => queue.name));
    return (state.value?.queues ?? []).map((queue) => {
      const points = ticks.value ? pace.series(queue.name) : [];
      return {
        ...queue,
        kind: names.has(queue.name) ? 'own' : 'shards',
        retriable: queue.failed - queue.dead - queue.cancelled,
        points,
        rate: points.at(-1)?.rate ?? null,
      };
    });
  });
  // Which kind a queue is, is known when the user-defined ones are.
  const known = computed(() => state.value !== undefined && own.value !== undefined);
  return { queues, known, at, error: computed(() => problem.value ?? error.value) };
}
