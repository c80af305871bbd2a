import { keepPreviousData, useMutation, useQuery } from '@tanstack/vue-query';
import { computed, toValue } from 'vue';
import type { MaybeRefOrGetter } from 'vue';
import { answers } from '../shared/api/answers';
import { api, given } from '../shared/api/client';
import type { Schema } from '../shared/api/types';
import type { Filter, JobFilter, Move, SourceFilter, Target } from './act';

type ItemMove = Schema<'BeginActRequestBody'>['move'];
type SourcesMove = Schema<'BeginSourcesActBody'>['move'];
type JobsMove = Schema<'BeginJobsActBody'>['move'];

/** What an act would be about: the number of members that a filter matches now. */
export function useCount(move: Move, target: Target) {
  return useQuery({
    queryKey: ['acts', 'count', move, target],
    queryFn: ({ signal }) => count(move, target, signal),
    staleTime: 0,
    gcTime: 0,
    meta: { kept: false },
  });
}

async function count(move: Move, { filter, errors, sources, jobs }: Target, signal: AbortSignal) {
  if (errors) return (await api.GET('/crawl-errors/retry', { params: { query: given(errors) }, signal })).data!;
  if (sources) return (await api.GET('/sources/acts/count', { params: { query: given(sources) }, signal })).data!;
  if (jobs) return (await api.GET('/jobs/acts/count', { params: { query: given(jobs) }, signal })).data!;
  const query = { move: move as ItemMove, ...given(filter!) };
  return (await api.GET('/acts/count', { params: { query }, signal })).data!;
}

/** Failed items by their errors. */
export function useFailures(filter: MaybeRefOrGetter<Filter>) {
  return useQuery({
    queryKey: computed(() => ['queues', 'failures', toValue(filter)]),
    queryFn: async ({ signal }) =>
      (await api.GET('/failures', { params: { query: given(toValue(filter)) }, signal })).data!,
    placeholderData: keepPreviousData,
    refetchInterval: 15_000,
  });
}

const told = { onSuccess: () => void answers.invalidateQueries({ queryKey: ['acts'] }) };

/** What is asked for. The same key is the same act, however often it is sent. */
interface Asked {
  move: Move;
  target: Target;
  key: string;
  /** Of acts on sources; empty: the server's own. */
  reason?: string;
}

/** Begins an act. */
export function useBegin() {
  return useMutation({ mutationFn: begin, ...told });
}

async function begin({ move, target: { filter, errors, sources, jobs }, key, reason }: Asked) {
  const params = { header: { 'Idempotency-Key': key } };
  if (errors) return (await api.POST('/crawl-errors/retry', { params, body: given(errors) })).data!;
  if (sources) {
    const body = { move: move as SourcesMove, filter: given(sources) as SourceFilter, ...given({ reason }) };
    return (await api.POST('/sources/acts', { params, body })).data!;
  }
  if (jobs) return (await api.POST('/jobs/acts', { params, body: { move: move as JobsMove, filter: given(jobs) as JobFilter } })).data!;
  return (await api.POST('/acts', { params, body: { move: move as ItemMove, filter: given(filter!) as Filter } })).data!;
}

export function useStop() {
  return useMutation({
    mutationFn: async (id: number) => void (await api.POST('/acts/{id}/stop', { params: { path: { id } } })),
    ...told,
  });
}
