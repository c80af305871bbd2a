import { keepPreviousData, useMutation, useQuery } from '@tanstack/vue-query';
import { computed, toValue } from 'vue';
import type { MaybeRefOrGetter } from 'vue';
import { answers, every } from '../shared/api/answers';
import { api, given } from '../shared/api/client';
import type { Schema } from '../shared/api/types';
import { parseExactly } from '../shared/format/exactJson';
import type { Job, JobOfSource } from './jobs';

export type Source = Schema<'CrawlSource'>;
export type Priority = Source['priority'];
export const priorities = ['low', 'normal', 'high', 'critical'] as const satisfies readonly Priority[];

/** What the list and the export take; empty for all. */
export type Filter = {
  q: string;
  enabled: '' | 'true' | 'false';
  priority: '' | Priority;
  job_status: '' | Job['status'];
  health: '' | JobOfSource['health']['status'];
};

/** How many sources a page of the list has. */
const pageSize = 100;

/** A page of the registered sources that a filter selects. */
export function useRegistered(wanted: () => Filter & { cursor: string }) {
  return useQuery({
    queryKey: computed(() => ['registered', 'list', wanted()]),
    queryFn: async ({ signal }) =>
      (await api.GET('/sources', { params: { query: { ...given(wanted()), limit: pageSize } }, signal })).data!,
    placeholderData: keepPreviousData,
    refetchInterval: every,
  });
}

/** One source. The numbers of its selectors stay as they are written. */
export function useOne(id: MaybeRefOrGetter<string>) {
  return useQuery({
    queryKey: computed(() => ['registered', 'one', toValue(id)]),
    queryFn: async ({ signal }) => {
      const { data } = await api.GET('/sources/{id}', { params: { path: { id: toValue(id) } }, signal, parseAs: 'text' });
      return parseExactly(data!) as Source;
    },
    refetchInterval: every,
    // Both would copy the exact numbers, and round them.
    structuralSharing: false,
    meta: { kept: false },
  });
}

/** The list and each source are asked for again. */
export function reload(): void {
  void answers.invalidateQueries({ queryKey: ['registered'] });
}

/** Makes a source, or changes the fields of one that the body has. The body is JSON, and is sent as it is. */
export function useWrite() {
  return useMutation({
    mutationFn: async ({ id, body }: { id: string | null; body: string }): Promise<Source> => {
      const raw = { bodySerializer: () => body };
      if (id === null) return (await api.POST('/sources', { body: {} as never, ...raw })).data!;
      return (await api.PUT('/sources/{id}', { params: { path: { id } }, body: {}, ...raw })).data!;
    },
    onSuccess: reload,
  });
}

export type Operation = 'enable' | 'disable' | 'delete';

/** What is done to the jobs of sources, and not to the sources. */
export const jobOperations = ['pause', 'resume', 'force-run'] as const;
export type JobOperation = (typeof jobOperations)[number];
export const isOfJobs = (operation: Operation | JobOperation): operation is JobOperation =>
  (jobOperations as readonly string[]).includes(operation);

/** Enables, disables or deletes one source; without a reason the server has one of its own. */
export function useChange() {
  return useMutation({
    mutationFn: async ({ id, operation, reason }: { id: string; operation: Operation; reason: string }) => {
      const path = { id };
      if (operation === 'delete') await api.DELETE('/sources/{id}', { params: { path, query: given({ reason }) } });
      else await api.POST(`/sources/{id}/${operation}`, { params: { path }, body: given({ reason }) });
    },
    onSuccess: reload,
  });
}
