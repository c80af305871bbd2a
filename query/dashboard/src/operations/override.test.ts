// @vitest-environment happy-dom
import { describe, expect, it } from 'vitest';
import { overrideBody, typedOverride } from './override';
import type { TypedOverride } from './override';

const plain = typedOverride({ override: {}, auto_managed: true }, 'Europe/Berlin');
const body = (some: Partial<TypedOverride>, before = plain) => {
  const text = overrideBody({ ...before, ...some }, before);
  return text && (JSON.parse(text) as unknown);
};

describe('what a person sets', () => {
  it('is sent, and nothing else', () => {
    expect(body({})).toBe('');
    expect(body({ kind: 'interval', interval_minutes: '15' })).toEqual({ interval_minutes: 15 });
    expect(body({ kind: 'cron', cron: ' 0 6 * * 1-5 ' })).toEqual({ cron: '0 6 * * 1-5', time_zone: 'Europe/Berlin' });
    expect(body({ priority: '90', jitter_seconds: '0' })).toEqual({ priority: 90, jitter_seconds: 0 });
    expect(body({ max_attempts: '3', retry_delay_seconds: '30', backoff_base_minutes: '', backoff_max_minutes: '60' })).toEqual({
      max_attempts: 3, retry_delay_seconds: 30, backoff_max_minutes: 60,
    });
    expect(body({ overlap_policy: 'allow', catch_up_policy: 'recent' })).toEqual({ overlap_policy: 'allow', catch_up_policy: 'recent' });
    expect(body({ auto_managed: false })).toEqual({ auto_managed: false });
  });

  it('has a window with the days in their order', () => {
    expect(body({ windowed: true, days: [5, 1] })).toEqual({
      crawl_window: { start_hour: 22, end_hour: 6, days: [1, 5], time_zone: 'Europe/Berlin' },
    });
  });

  it('leaves to the server what breaks a rule', () => {
    expect(body({ kind: 'interval' })).toEqual({ interval_minutes: '' });
    expect(body({ priority: 'high' })).toEqual({ priority: 'high' });
    expect(body({ kind: 'cron', time_zone: '' })).toEqual({ cron: '', time_zone: '' });
  });
});

it('goes back to what is computed by null', () => {
  const crawl_window = { start_hour: 0, end_hour: 6, days: [], time_zone: 'UTC' };
  const set = typedOverride({ override: { cron: '0 6 * * *', priority: 90, crawl_window }, auto_managed: false }, 'Europe/Berlin');
  expect(set).toMatchObject({ kind: 'cron', time_zone: 'UTC', priority: '90', windowed: true, start_hour: '0' });
  expect(body({ kind: 'interval', interval_minutes: '5' }, set)).toEqual({ interval_minutes: 5, cron: null, time_zone: null });
  expect(body({ priority: '', windowed: false }, set)).toEqual({ priority: null, crawl_window: null });
});
