import { useMutation, useQuery } from '@tanstack/vue-query';
import { computed } from 'vue';
import { every } from '../shared/api/answers';
import { api, ProblemError } from '../shared/api/client';
import type { Schema } from '../shared/api/types';
import { reload } from './registered';

export type JobOfSource = Schema<'JobOfSource'>;

/** The numbers of all jobs and runs. */
export function useStats() {
  return useQuery({
    queryKey: ['registered', 'stats'],
    queryFn: async ({ signal }) => (await api.GET('/jobs/stats', { signal })).data!,
    refetchInterval: every,
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
    refetchInterval: every,
    meta: { kept: false },
  });
}

/** How many events the log shows. */
export const logged = 50;

/** What became of the newest events about a source. */
export function useEventLog(source: () => string) {
  return useQuery({
    queryKey: computed(() => ['registered', 'events', source()]),
    queryFn: async ({ signal }) =>
      (await api.GET('/events/log', { params: { query: { source_id: source(), limit: logged } }, signal })).data!,
    refetchInterval: every,
    meta: { kept: false },
  });
}

export type Command = 'pause' | 'resume' | 'force-run';

/** Has a job wait, go on, or run at once. */
export function useCommand() {
  return useMutation({
    mutationFn: async ({ id, command }: { id: string; command: Command }) =>
      void (await api.POST(`/jobs/{id}/${command}`, { params: { path: { id } } })),
    onSuccess: reload,
  });
}

/** How statuses of jobs, of their health and of their runs look. */
export function toneOf(status: string): string {
  const tones: Record<string, string> = {
    healthy: 'good',
    success: 'good',
    warning: 'warn',
    paused: 'warn',
    orphaned: 'warn',
    cancelled: 'warn',
    failed: 'bad',
    dead: 'bad',
    running: 'accent',
  };
  return tones[status] ?? '';
}

/** When a job is due, in words. */
export function scheduleOf({ schedule, interval_minutes: minutes }: JobOfSource['job']): string {
  if (schedule.kind === 'cron') return `${schedule.cron} in ${schedule.time_zone}`;
  if (minutes % 60 === 0) return minutes === 60 ? 'every hour' : `every ${minutes / 60} hours`;
  return minutes === 1 ? 'every minute' : `every ${minutes} minutes`;
}

const days = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];

/** When a job may run, in words. */
export function windowOf({ crawl_window: window }: JobOfSource['job']): string {
  if (!window) return 'always';
  const hour = (of: number) => `${String(of).padStart(2, '0')}:00`;
  const on = window.days.length ? ` on ${window.days.map((day) => days[day]).join(', ')}` : '';
  return `${hour(window.start_hour)} to ${hour(window.end_hour)}${on}, ${window.time_zone}`;
}
