import { keepPreviousData, useMutation, useQuery } from '@tanstack/vue-query';
import { computed } from 'vue';
import { every } from '../shared/api/answers';
import { api, given, ProblemError } from '../shared/api/client';
import type { Schema } from '../shared/api/types';
import { reload } from './registered';

export type JobOfSource = Schema<'JobOfSource'>;
export type Job = JobOfSource['job'];
export type Run = Schema<'Execution'>;
export type Decision = Schema<'Decision'>;

/** How often what is opened is asked for again, while it is looked at. */
const soon = 5_000;

/** How many runs, due times or events a page of the panel has. */
const pageSize = 20;

export const jobStatuses = ['pending', 'running', 'paused', 'failed', 'orphaned'] as const satisfies readonly Job['status'][];
export const healths = ['healthy', 'warning', 'failed', 'unknown'] as const satisfies readonly JobOfSource['health']['status'][];
export const runStatuses = ['queued', 'running', 'success', 'failed', 'cancelled'] as const satisfies readonly Run['status'][];
export const outcomes = [
  'ran', 'caught_up', 'buffered', 'skipped', 'coalesced', 'outside_window', 'backoff', 'paused', 'expired',
] as const satisfies readonly Decision['outcome'][];

/** Due times that the panel lists: all, those that did not run, or those with one outcome. */
export const dueChoices = ['', 'missed', ...outcomes] as const;
export type DueChoice = (typeof dueChoices)[number];

/** The numbers of all jobs and runs. */
export function useStats() {
  return useQuery({
    queryKey: ['registered', 'stats'],
    queryFn: async ({ signal }) => (await api.GET('/jobs/stats', { signal })).data!,
    refetchInterval: every,
  });
}

/** The jobs of the sources on a page of the list. */
export function useJobsOf(sources: () => readonly string[]) {
  return useQuery({
    queryKey: computed(() => ['registered', 'jobs', sources()]),
    queryFn: async ({ signal }) => {
      const query = { source_id: sources().join(','), limit: sources().length };
      return (await api.GET('/jobs', { params: { query }, signal })).data!.items;
    },
    enabled: computed(() => sources().length > 0),
    placeholderData: keepPreviousData,
    refetchInterval: every,
    meta: { kept: false },
  });
}

/** Jobs whose sources do not exist any more, which the list of sources cannot have. */
export function useOrphaned(q: () => string) {
  return useQuery({
    queryKey: computed(() => ['registered', 'orphaned', q()]),
    queryFn: async ({ signal }) => {
      const query = { status: 'orphaned' as const, limit: 100, ...given({ q: q() }) };
      return (await api.GET('/jobs', { params: { query }, signal })).data!;
    },
    refetchInterval: every,
    meta: { kept: false },
  });
}

/** The job of a source, with its health and last runs; null: it has none. */
export function useJob(source: () => string) {
  return useQuery({
    queryKey: computed(() => ['registered', 'job', source()]),
    queryFn: async ({ signal }): Promise<JobOfSource | null> => {
      try {
        const path = { source_id: source() };
        return (await api.GET('/jobs/by-source/{source_id}', { params: { path }, signal })).data!;
      } catch (error) {
        if (error instanceof ProblemError && error.problem.status === 404) return null;
        throw error;
      }
    },
    refetchInterval: soon,
    meta: { kept: false },
  });
}

/** The next due times of a job. */
export function useUpcoming(job: () => Job) {
  return useQuery({
    // A change of its schedule makes others.
    queryKey: computed(() => ['registered', 'upcoming', job().id, job().version, job().next_run_at]),
    queryFn: async ({ signal }) =>
      (await api.GET('/jobs/{id}/upcoming', { params: { path: { id: job().id }, query: { limit: 8 } }, signal })).data!,
    placeholderData: keepPreviousData,
    meta: { kept: false },
  });
}

/** A page of the runs of a source, the latest first. */
export function useRuns(wanted: () => { source: string; status: '' | Run['status']; cursor: string }) {
  return useQuery({
    queryKey: computed(() => ['registered', 'runs', wanted()]),
    queryFn: async ({ signal }) => {
      const { source: source_id, ...filter } = wanted();
      const params = { path: { source_id }, query: { ...given(filter), limit: pageSize } };
      return (await api.GET('/sources/{source_id}/executions', { params, signal })).data!;
    },
    placeholderData: keepPreviousData,
    refetchInterval: soon,
    meta: { kept: false },
  });
}

/** A page of the due times of a job and what became of each, the latest first. */
export function useLedger(wanted: () => { job: string; due: DueChoice; cursor: string }) {
  return useQuery({
    queryKey: computed(() => ['registered', 'ledger', wanted()]),
    queryFn: async ({ signal }) => {
      const { job: id, due, cursor } = wanted();
      const filter = due === 'missed' ? { ran: 'false' as const } : given({ outcome: due });
      const params = { path: { id }, query: { ...filter, ...given({ cursor }), limit: pageSize } };
      return (await api.GET('/jobs/{id}/ledger', { params, signal })).data!;
    },
    placeholderData: keepPreviousData,
    refetchInterval: soon,
    meta: { kept: false },
  });
}

/** A page of what became of the events about a source, the newest first. */
export function useEventLog(wanted: () => { source_id: string; cursor: string }) {
  return useQuery({
    queryKey: computed(() => ['registered', 'events', wanted()]),
    queryFn: async ({ signal }) =>
      (await api.GET('/events/log', { params: { query: { ...given(wanted()), limit: pageSize } }, signal })).data!,
    placeholderData: keepPreviousData,
    refetchInterval: soon,
    meta: { kept: false },
  });
}

type Command = 'pause' | 'resume' | 'force-run' | 'skip-next' | 'unskip-next';

/** Has a job wait, go on, run at once, or leave out its next due time. */
export function useCommand() {
  return useMutation({
    mutationFn: async ({ id, command }: { id: string; command: Command }) =>
      void (await api.POST(`/jobs/{id}/${command}`, { params: { path: { id } } })),
    onSuccess: reload,
  });
}

/** Sets how a job runs. The body is JSON, and is sent as it is; null: all is computed again. */
export function useOverride() {
  return useMutation({
    mutationFn: async ({ id, body }: { id: string; body: string | null }) => {
      const params = { path: { id } };
      if (body === null) await api.DELETE('/jobs/{id}/override', { params });
      else await api.PUT('/jobs/{id}/override', { params, body: {}, bodySerializer: () => body });
    },
    onSuccess: reload,
  });
}
