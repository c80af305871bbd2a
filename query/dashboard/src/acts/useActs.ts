import { keepPreviousData, useMutation, useQuery } from '@tanstack/vue-query';
import { computed, toValue } from 'vue';
import type { MaybeRefOrGetter } from 'vue';
import { answers } from '../shared/api/answers';
import { api, given } from '../shared/api/client';
import type { Schema } from '../shared/api/types';

export type Act = Schema<'Act'>;
export type Filter = Schema<'ItemFilter'>;
export type Move = Act['move'];

/** What an act would be about: the number of items that a filter matches now. */
export function useCount(move: Move, filter: Filter) {
  return useQuery({
    queryKey: ['acts', 'count', move, filter],
    queryFn: async ({ signal }) =>
      (await api.GET('/acts/count', { params: { query: { move, ...given(filter) } }, signal })).data!,
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
    mutationFn: async ({ move, filter, key }: { move: Move; filter: Filter; key: string }) =>
      (
        await api.POST('/acts', {
          params: { header: { 'Idempotency-Key': key } },
          body: { move, filter: given(filter) as Filter },
        })
      ).data!,
    ...told,
  });
}

export function useStop() {
  return useMutation({
    mutationFn: async (id: number) => void (await api.POST('/acts/{id}/stop', { params: { path: { id } } })),
    ...told,
  });
}

/** The items of a filter, in words: "dead items of mail in group shop with the error …". */
export function wordsOf(filter: Filter): string {
  const thing = filter.filename || filter.search ? 'shards' : 'items';
  return [
    filter.state ? `${filter.state} ${thing}` : thing,
    filter.queue && `of ${filter.queue}`,
    filter.filename && `of ${filter.filename}`,
    filter.search && `of files named like “${filter.search}”`,
    filter.group && `in group ${filter.group}`,
    filter.key && `with key ${filter.key}`,
    filter.fingerprint && `with the error “${filter.fingerprint}”`,
  ]
    .filter(Boolean)
    .join(' ');
}

/** A key that no other request has; also where the page does not come over https. */
export function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
