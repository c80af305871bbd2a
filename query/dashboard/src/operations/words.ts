import { formatSeconds } from '../shared/format/duration';
import { formatExact } from '../shared/format/number';
import type { Decision, Job } from './jobs';

/** How statuses of jobs, of their health, of their runs and due times look. */
export function toneOf(status: string): string {
  const tones: Record<string, string> = {
    healthy: 'good',
    success: 'good',
    ran: 'good',
    caught_up: 'good',
    warning: 'warn',
    paused: 'warn',
    orphaned: 'warn',
    cancelled: 'warn',
    expired: 'warn',
    backoff: 'warn',
    failed: 'bad',
    dead: 'bad',
    running: 'accent',
    buffered: 'accent',
  };
  return tones[status] ?? '';
}

/** When a job is due, in words. */
export function scheduleOf({ schedule, interval_minutes: minutes }: Pick<Job, 'schedule' | 'interval_minutes'>): string {
  if (schedule.kind === 'cron') return `${schedule.cron} in ${schedule.time_zone}`;
  if (minutes % 60 === 0) return minutes === 60 ? 'every hour' : `every ${minutes / 60} hours`;
  return minutes === 1 ? 'every minute' : `every ${minutes} minutes`;
}

export const days = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];

export const hourOf = (of: number) => `${String(of).padStart(2, '0')}:00`;

/** When a job may run, in words. */
export function windowOf({ crawl_window: window }: Pick<Job, 'crawl_window'>): string {
  if (!window) return 'always';
  const on = window.days.length ? ` on ${window.days.map((day) => days[day]).join(', ')}` : '';
  return `${hourOf(window.start_hour)} to ${hourOf(window.end_hour)}${on}, ${window.time_zone}`;
}

export const overlaps = {
  skip: 'skip the due time',
  buffer_one: 'have one wait',
  cancel_other: 'cancel the others',
  allow: 'run beside them',
} satisfies Record<Job['overlap_policy'], string>;

export const catchUps = {
  none: 'none of them',
  one: 'one for all of them',
  recent: 'the last ones',
  all: 'all of them',
} satisfies Record<Job['catch_up_policy'], string>;

/** How a job runs: each setting in words, and whether a person has set it. */
export function settingsOf(job: Job): { name: string; words: string; value: string; set: boolean }[] {
  const { override } = job;
  const row = (name: string, words: string, value: string, ...of: (keyof typeof override)[]) => ({
    name, words, value, set: of.some((setting) => override[setting] !== undefined),
  });
  return [
    row('schedule', 'Runs', scheduleOf(job), 'interval_minutes', 'cron'),
    row('window', 'Crawl window', windowOf(job), 'crawl_window'),
    row('priority', 'Priority', formatExact(job.priority), 'priority'),
    row('max_concurrent', 'At a time', `${formatExact(job.max_concurrent)} ${job.max_concurrent === 1 ? 'run' : 'runs'}`, 'max_concurrent'),
    row('overlap', 'Beyond that', overlaps[job.overlap_policy], 'overlap_policy'),
    row('jitter', 'Jitter', job.jitter_seconds ? `up to ${formatSeconds(job.jitter_seconds)}` : 'none', 'jitter_seconds'),
    row('retry', 'Failed attempt', retryOf(job), 'max_attempts', 'retry_delay_seconds'),
    row('backoff', 'Failed run', backoffOf(job), 'backoff_base_minutes', 'backoff_max_minutes'),
    row(
      'catch_up', 'Catch-up', catchUpOf(job),
      'catch_up_policy', 'catch_up_window_seconds', 'catch_up_cap', 'catch_up_spread_seconds',
    ),
  ];
}

/** What becomes of a run whose attempt has failed. */
function retryOf({ max_attempts: attempts, retry_delay_seconds: delay }: Job): string {
  if (attempts === 1) return 'the run has failed';
  return `tried again after ${formatSeconds(delay)}, doubled each time, ${formatExact(attempts)} attempts in all`;
}

/** How long a job rests when a run has failed. */
function backoffOf({ backoff_base_minutes: base, backoff_max_minutes: most }: Job): string {
  return `rests for ${formatSeconds(base * 60)}, doubled for each in a row, at most ${formatSeconds(most * 60)}`;
}

/** Which of the runs that were due while no scheduler ran are made up for. */
function catchUpOf(job: Job): string {
  const { catch_up_policy: policy, catch_up_cap: cap, catch_up_spread_seconds: spread } = job;
  if (policy === 'none') return catchUps.none;
  const parts = [catchUps[policy], `not older than ${formatSeconds(job.catch_up_window_seconds)}`];
  if (policy !== 'one' && cap) parts.push(`${formatExact(cap)} at most`);
  if (spread) parts.push(`${formatSeconds(spread)} apart`);
  return parts.join(', ');
}

const becomes = {
  ran: 'It ran',
  caught_up: 'It ran late, since no scheduler was there in time',
  buffered: 'It waits for the runs under way to end',
  skipped: 'It was skipped',
  coalesced: 'It was put together with another one',
  outside_window: 'It missed the crawl window',
  backoff: 'The job was resting after runs that had failed',
  paused: 'The job was paused, or its source disabled',
  expired: 'It was dropped',
} satisfies Record<Decision['outcome'], string>;

/** What became of a due time, and why, in a sentence. */
export function fateOf({ outcome, forced, reason }: Pick<Decision, 'outcome' | 'forced' | 'reason'>): string {
  const asked = forced && outcome === 'ran' ? ', since somebody asked for it' : '';
  return `${becomes[outcome]}${asked}${reason ? `: ${reason}` : ''}.`;
}

/** An outcome as a tag has it. */
export const outcomeOf = (outcome: string) => outcome.replaceAll('_', ' ');

/** How clocks are set between one due time and the next; empty if they are not. */
export function shiftOf(seconds: number): string {
  if (!seconds) return '';
  return `clocks are set ${seconds > 0 ? 'ahead' : 'back'} by ${formatSeconds(Math.abs(seconds))}`;
}
