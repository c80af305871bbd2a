import { keepPreviousData, useMutation, useQuery } from '@tanstack/vue-query';
import { computed, shallowReactive, toValue, watch } from 'vue';
import type { MaybeRefOrGetter, Ref } from 'vue';
import { can } from '../shared/api/access';
import { answers, every } from '../shared/api/answers';
import { api, given } from '../shared/api/client';
import type { Schema } from '../shared/api/types';
import { Pace } from '../shared/live/pace';
import { useLive, useLiveView } from '../shared/live/useLive';
import { isMoving, rowsOf } from './upload';
import type { State, Status, Upload } from './upload';

/** How often what moves is asked for where no live view shows it. */
const often = 1_500;

/** Hands on what the live view shows of these uploads; nothing while the parameters are null. Says how often to ask besides. */
function useLiveUploads(params: () => Record<string, string> | null, take: (page: Schema<'UploadPage'>) => void) {
  const { health } = useLive();
  const { state, pending } = useLiveView('uploads', params);
  // Until the first answer, the state is that of the question before.
  watch(state, (page) => page && !pending.value && params() && take(page));
  return (moves: boolean | undefined) => (moves && (health.value !== 'live' || !params()) ? often : every);
}

/** A page of uploads, the newest first. The first one is live. */
export function useUploads(wanted: () => { queue_state: State | ''; user: string; cursor: string }) {
  const interval = useLiveUploads(
    () => {
      const { cursor, ...filter } = wanted();
      return cursor ? null : given(filter);
    },
    (page) => answers.setQueryData(['uploads', 'list', wanted()], page),
  );
  return useQuery({
    queryKey: computed(() => ['uploads', 'list', wanted()]),
    queryFn: async ({ signal }) =>
      (await api.GET('/uploads', { params: { query: { ...given(wanted()), limit: 50 } }, signal })).data!,
    placeholderData: keepPreviousData,
    refetchInterval: ({ state }) => interval(state.data?.items.some(isMoving)),
  });
}

export function useUpload(job: MaybeRefOrGetter<string>) {
  const interval = useLiveUploads(
    () => (toValue(job) ? { jobId: toValue(job) } : null),
    ({ items: [upload] }) => upload?.jobId === toValue(job) && answers.setQueryData(['uploads', 'one', upload.jobId], upload),
  );
  return useQuery({
    queryKey: computed(() => ['uploads', 'one', toValue(job)]),
    queryFn: async ({ signal }) => (await api.GET('/uploads/{jobId}', { params: { path: { jobId: toValue(job) } }, signal })).data!,
    refetchInterval: ({ state }) => interval(state.data && isMoving(state.data)),
    enabled: computed(() => toValue(job) !== ''),
  });
}

/** What can make results of rows: each row is its own, or the workers of a queue do. Queues are for readers to see. */
export function useProcessors() {
  const { data } = useQuery({
    queryKey: ['queues', 'own'],
    queryFn: async ({ signal }) => (await api.GET('/queues', { signal })).data!.items,
    enabled: computed(() => can('read')),
  });
  return computed(() => ['copy', ...(data.value ?? []).map(({ name }) => name)]);
}

/**
 * How many rows a second are read, and behind the last one how many items are processed, as the counters of successive
 * answers have it.
 */
export function useRates(uploads: () => readonly Upload[], at: Ref<number>): { of: (upload: Upload) => number | null } {
  const pace = new Pace();
  const rates = shallowReactive(new Map<string, number | null>());
  let sampled = 0;
  watch(
    at,
    (now) => {
      if (now < sampled + 1_000) return; // snapshots may come faster
      sampled = now;
      const rows = uploads().map((upload) => [`rows of ${upload.jobId}`, rowsOf(upload)] as const);
      const items = uploads().map((upload) => [`items of ${upload.jobId}`, upload.processed_items] as const);
      pace.sample(now, [...rows, ...items]);
      for (const { jobId, persisted } of uploads()) rates.set(jobId, pace.current(`${persisted ? 'items' : 'rows'} of ${jobId}`));
    },
    { immediate: true },
  );
  return { of: (upload) => (isMoving(upload) ? (rates.get(upload.jobId) ?? null) : upload.items_sec || null) };
}

/** The lists, each upload and its rows are asked for again. */
export function reload(): void {
  void answers.invalidateQueries({ queryKey: ['uploads'] });
}

/** How long a slice of work takes at most, in milliseconds. */
const slice = 5_000;

/** What can be done to an upload as a whole. */
export function useActs(job: string) {
  const params = { path: { jobId: job } };
  const act = useMutation({
    mutationFn: async (what: 'pause' | 'resume' | 'cancel' | 'delete') => {
      if (what === 'pause') await api.POST('/uploads/{jobId}/pause', { params });
      else if (what === 'resume') await api.POST('/uploads/{jobId}/resume', { params });
      else if (what === 'cancel') await api.POST('/uploads/{jobId}/cancel', { params });
      else await api.DELETE('/uploads/{jobId}', { params });
    },
    // Of one that is deleted nothing is asked any more.
    onSuccess: (_, what) => void answers.invalidateQueries({ queryKey: ['uploads', ...(what === 'delete' ? ['list'] : [])] }),
  });
  const kickoff = useMutation({
    mutationFn: async () =>
      (await api.POST('/uploads/{jobId}/kickoff', { params: { ...params, query: { durationMs: slice } } })).data!,
    onSettled: reload,
  });
  return { act, kickoff };
}

/** Has the file of a held upload read as somebody has chosen. */
export function useResume(job: string) {
  return useMutation({
    mutationFn: async (body: Schema<'ResumedUpload'>) =>
      void (await api.POST('/uploads/{jobId}/resume', { params: { path: { jobId: job } }, body })),
    onSuccess: reload,
  });
}

export interface Reprocess {
  statuses: readonly Exclude<Status, 'PENDING' | 'PROCESSING'>[];
  resetAttempts: boolean;
  /** Ids of items by their upload; null for all items of the upload. */
  items: ReadonlyMap<string, readonly string[]>;
}

/** How many ids a request may have. */
const most = 10_000;

/**
 * Has items processed again, in as many requests as it takes. An upload without ids stands for all of its items. Says
 * after each request how many items are pending again.
 */
export function useReprocess(told: (items: number) => void) {
  return useMutation({
    mutationFn: async ({ statuses, resetAttempts, items }: Reprocess) => {
      let done = 0;
      const options = { statuses: [...statuses], resetAttempts };
      const send = async (jobId: string, some: Schema<'ReprocessedItems'>) => {
        for (let more = true; more;) {
          const { data } = await api.POST('/uploads/{jobId}/reprocess', { params: { path: { jobId } }, body: { ...options, ...some } });
          done += data!.reprocessed;
          more = data!.more && data!.reprocessed > 0;
          told(done);
        }
      };
      for (const [job, ids] of items) {
        if (!ids.length) await send(job, { scope: 'job' });
        for (let from = 0; from < ids.length; from += most) {
          await send(job, { scope: 'items', itemIds: ids.slice(from, from + most) });
        }
      }
      return done;
    },
    onSettled: () => {
      reload();
      void answers.invalidateQueries({ queryKey: ['pending'] });
    },
  });
}
