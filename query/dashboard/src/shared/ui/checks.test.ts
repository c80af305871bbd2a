import { describe, expect, it } from 'vitest';
import { isLate, titleOf } from './checks';

const check = { name: 'projector', needed: true, since: '2026-02-10T12:00:00Z' };

describe('a check', () => {
  it('that only took too long is not called down', () => {
    const late = { ...check, status: 'down', error: 'no answer in time' } as const;
    expect(isLate(late)).toBe(true);
    expect(titleOf(late)).toBe('projector did not answer the last probe in time');
    expect(isLate({ ...late, error: 'no answer in time: ask for the state of stream EVENTS' })).toBe(true);
    expect(titleOf({ ...check, status: 'down', error: 'connection refused' })).toBe('projector is down');
    expect(titleOf({ ...check, status: 'up' })).toBe('projector is up');
  });
});
