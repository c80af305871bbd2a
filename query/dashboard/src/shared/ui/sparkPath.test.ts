import { describe, expect, it } from 'vitest';
import { sparkPath } from './sparkPath';

describe('the spark line', () => {
  it('of nothing is empty', () => {
    expect(sparkPath([], 120, 28)).toEqual({ line: '', area: '' });
    expect(sparkPath([{ at: 0, rate: null }], 120, 28).line).toBe('');
  });

  it('ends at the right edge and fills the height', () => {
    const { line } = sparkPath([{ at: 0, rate: 0 }, { at: 60_000, rate: 5 }], 120, 28);
    expect(line).toBe('M0,27L120,2');
  });

  it('is stretched at most fourfold', () => {
    expect(sparkPath([{ at: 0, rate: 5 }, { at: 5_000, rate: 5 }], 120, 28).line).toBe('M80,2L120,2');
  });

  it('has a gap where the rate is not known', () => {
    const points = [1, null, 1, 1].map((rate, i) => ({ at: i * 1_000, rate }));
    expect(sparkPath(points, 120, 28).line.match(/M/g)).toHaveLength(2);
  });

  it('leaves out what is older than a minute', () => {
    const points = [{ at: 0, rate: 100 }, { at: 2_000, rate: 1 }, { at: 62_000, rate: 1 }];
    expect(sparkPath(points, 120, 28).line).toBe('M0,2L120,2');
  });
});
