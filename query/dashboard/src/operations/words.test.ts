// @vitest-environment happy-dom
import { expect, test } from 'vitest';
import { scheduleOf, windowOf } from './jobs';
import type { JobOfSource } from './jobs';

const job = (some: Partial<JobOfSource['job']>) =>
  ({ schedule: { kind: 'interval', time_zone: 'UTC' }, interval_minutes: 30, crawl_window: null, ...some }) as JobOfSource['job'];

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
