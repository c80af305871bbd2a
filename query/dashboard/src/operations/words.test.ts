// @vitest-environment happy-dom
import { describe, expect, it, test } from 'vitest';
import type { Job } from './jobs';
import { fateOf, scheduleOf, settingsOf, shiftOf, windowOf } from './words';

const job = (some: Partial<Job>) =>
  ({
    schedule: { kind: 'interval', time_zone: 'UTC' },
    interval_minutes: 30,
    crawl_window: null,
    priority: 50,
    max_concurrent: 1,
    jitter_seconds: 0,
    overlap_policy: 'skip',
    catch_up_policy: 'one',
    catch_up_window_seconds: 86_400,
    catch_up_cap: 10,
    catch_up_spread_seconds: 0,
    max_attempts: 1,
    retry_delay_seconds: 60,
    backoff_base_minutes: 30,
    backoff_max_minutes: 1440,
    override: {},
    ...some,
  }) as Job;

test('when a job is due is told in words', () => {
  expect(scheduleOf(job({}))).toBe('every 30 minutes');
  expect(scheduleOf(job({ interval_minutes: 1 }))).toBe('every minute');
  expect(scheduleOf(job({ interval_minutes: 60 }))).toBe('every hour');
  expect(scheduleOf(job({ interval_minutes: 90 }))).toBe('every 90 minutes');
  expect(scheduleOf(job({ interval_minutes: 720 }))).toBe('every 12 hours');
  const schedule = { kind: 'cron' as const, cron: '0 6 * * 1-5', time_zone: 'Europe/Berlin' };
  expect(scheduleOf(job({ schedule }))).toBe('0 6 * * 1-5 in Europe/Berlin');
});

test('when a job may run is told in words', () => {
  expect(windowOf(job({}))).toBe('always');
  const crawl_window = { start_hour: 22, end_hour: 6, days: [1, 5], time_zone: 'Europe/Berlin' };
  expect(windowOf(job({ crawl_window }))).toBe('22:00 to 06:00 on Monday, Friday, Europe/Berlin');
  expect(windowOf(job({ crawl_window: { ...crawl_window, days: [] } }))).toBe('22:00 to 06:00, Europe/Berlin');
});

describe('the settings of a job', () => {
  const told = (some: Partial<Job>) =>
    Object.fromEntries(settingsOf(job(some)).map(({ name, value, set }) => [name, `${set ? 'set' : 'computed'}: ${value}`]));

  it('are computed where nobody has set them', () => {
    expect(told({})).toEqual({
      schedule: 'computed: every 30 minutes',
      window: 'computed: always',
      priority: 'computed: 50',
      max_concurrent: 'computed: 1 run',
      overlap: 'computed: skip the due time',
      jitter: 'computed: none',
      retry: 'computed: the run has failed',
      backoff: 'computed: rests for 30 min, doubled for each in a row, at most 24 h',
      catch_up: 'computed: one for all of them, not older than 24 h',
    });
  });

  it('say which of them a person has set', () => {
    const now = told({
      max_concurrent: 3,
      jitter_seconds: 90,
      catch_up_policy: 'recent',
      catch_up_spread_seconds: 60,
      override: { cron: '0 6 * * *', max_concurrent: 3, jitter_seconds: 90, catch_up_policy: 'recent', catch_up_spread_seconds: 60 },
    });
    expect(now.schedule).toMatch(/^set: /);
    expect(now.priority).toBe('computed: 50');
    expect(now.max_concurrent).toBe('set: 3 runs');
    expect(now.jitter).toBe('set: up to 1.5 min');
    expect(now.catch_up).toBe('set: the last ones, not older than 24 h, 10 at most, 1 min apart');
    const often = told({ max_attempts: 3, retry_delay_seconds: 30, override: { max_attempts: 3 } });
    expect(often.retry).toBe('set: tried again after 30 s, doubled each time, 3 attempts in all');
    expect(told({ catch_up_policy: 'none' }).catch_up).toBe('computed: none of them');
  });
});

test('what became of a due time is a sentence', () => {
  expect(fateOf({ outcome: 'ran', forced: false, reason: '' })).toBe('It ran.');
  expect(fateOf({ outcome: 'ran', forced: true, reason: '' })).toBe('It ran, since somebody asked for it.');
  expect(fateOf({ outcome: 'skipped', forced: false, reason: 'somebody asked for it' })).toBe('It was skipped: somebody asked for it.');
  expect(fateOf({ outcome: 'paused', forced: false, reason: '' })).toBe('The job was paused, or its source disabled.');
});

test('changes of clocks are told', () => {
  expect(shiftOf(0)).toBe('');
  expect(shiftOf(3_600)).toBe('clocks are set ahead by 60 min');
  expect(shiftOf(-1_800)).toBe('clocks are set back by 30 min');
});
