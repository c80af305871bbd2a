import { describe, expect, it } from 'vitest';
import { kept, Pace } from './pace';

const stages = (count: number) => [['crawled', count] as const];
const rates = (pace: Pace) => pace.series('crawled').map((point) => point.rate);

describe('the pace', () => {
  it('is not known from one sample', () => {
    const pace = new Pace();
    expect(pace.current('crawled')).toBeNull();
    pace.sample(0, stages(10));
    expect(pace.current('crawled')).toBeNull();
  });

  it('is the mean over the last seconds', () => {
    const pace = new Pace();
    for (const [second, count] of [0, 8, 16, 24, 32, 40, 48, 56, 64, 64, 64, 64, 64, 64, 64, 64, 64].entries()) {
      pace.sample(second * 1_000, stages(count));
    }
    expect(rates(pace)).toEqual([null, 8, 8, 8, 8, 8, 8, 8, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
  });

  it('is not drawn across a lost connection', () => {
    const pace = new Pace();
    pace.sample(0, stages(0));
    pace.sample(1_000, stages(10));
    pace.sample(2_000, null);
    pace.sample(3_000, stages(5_000));
    pace.sample(4_000, stages(5_010));
    expect(rates(pace)).toEqual([null, 10, null, null, 10]);
  });

  it('does not go below zero at midnight', () => {
    const pace = new Pace();
    pace.sample(0, stages(1_000));
    pace.sample(1_000, stages(3));
    expect(pace.current('crawled')).toBe(0);
  });

  it('takes a stage that it has not seen for a still one', () => {
    const pace = new Pace();
    pace.sample(0, stages(1));
    pace.sample(1_000, stages(2));
    expect(pace.current('unheard')).toBe(0);
  });

  it('forgets what is too old', () => {
    const pace = new Pace();
    for (let at = 0; at <= 2 * kept; at += 1_000) pace.sample(at, stages(at));
    expect(pace.series('crawled')).toHaveLength(kept / 1_000 + 1);
  });
});
