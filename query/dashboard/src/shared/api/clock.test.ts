import { afterEach, describe, expect, it } from 'vitest';
import { ageOf, noteServerTime, stampBefore } from './clock';

const noon = Date.parse('2026-02-10T12:00:00Z');
const stamp = '2026-02-10T11:59:58Z';

describe('the age of a stamp', () => {
  afterEach(() => noteServerTime('Tue, 10 Feb 2026 12:00:00 GMT', noon));

  it('is counted from our clock while the clocks agree', () => {
    noteServerTime('Tue, 10 Feb 2026 11:59:59 GMT', noon);
    expect(ageOf(stamp, noon)).toBe(2_000);
  });

  it('is corrected when our clock is off', () => {
    const fast = noon + 300_000;
    noteServerTime('Tue, 10 Feb 2026 12:00:00 GMT', fast);
    expect(ageOf(stamp, fast)).toBe(2_000);
    expect(ageOf(stampBefore(fast, 7_000), fast)).toBe(7_000);
  });

  it('is never negative', () => {
    expect(ageOf('2026-02-10T12:00:01Z', noon)).toBe(0);
  });

  it('ignores an answer without a date', () => {
    noteServerTime(null, noon + 300_000);
    expect(ageOf(stamp, noon)).toBe(2_000);
  });
});
