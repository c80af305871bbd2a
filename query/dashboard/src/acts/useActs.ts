import { keepPreviousData, useMutation, useQuery } from '@tanstack/vue-query';
import { computed, toValue } from 'vue';
import type { MaybeRefOrGetter } from 'vue';
import { answers } from '../shared/api/answers';
import { api, given } from '../shared/api/client';
import type { Filter, Move, Target } from './act';

/** What an act would be about: the number of items, or of errors of batches, that a filter matches now. */
export function useCount(move: Move, { filter, errors }: Target) {
  return useQuery({
    queryKey: ['acts', 'count', move, filter ?? errors],
    queryFn: async ({ signal }) =>
      errors
        ? (await api.GET('/crawl-errors/retry', { params: { query: given(errors) }, signal })).data!
        : (await api.GET('/acts/count', { params: { query: { move, ...given(filter!) } }, signal })).data!,
    staleTime: 0,
    gcTime: 0,
    meta: { kept: false },
  });
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

/** Begins an act; the same key is the same act, however often it is sent. */
export function useBegin() {
  return useMutation({
    mutationFn: async ({ move, target: { filter, errors }, key }: { move: Move; target: Target; key: string }) => {
      const params = { header: { 'Idempotency-Key': key } };
      return errors
        ? (await api.POST('/crawl-errors/retry', { params, body: given(errors) })).data!
        : (await api.POST('/acts', { params, body: { move, filter: given(filter!) as Filter } })).data!;
    },
    ...told,
  });
}

export function useStop() {
  return useMutation({
    mutationFn: async (id: number) => void (await api.POST('/acts/{id}/stop', { params: { path: { id } } })),
    ...told,
  });
}
