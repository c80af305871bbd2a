import { describe, expect, it } from 'vitest';
import type { DriftTest, Verdict } from '../shared/api/types';
import { nameOf, topTopics, worst } from './tests';

const test = (verdict: Verdict) => ({ name: 'kolmogorov_smirnov', verdict }) as DriftTest;

describe('verdicts', () => {
  it.each<[Verdict[], Verdict]>([
    [[], 'insufficient_data'],
    [['insufficient_data', 'stable'], 'stable'],
    [['stable', 'drift', 'moderate'], 'drift'],
    [['moderate', 'stable'], 'moderate'],
  ])('of %j the worst is %s', (all, want) => expect(worst(all.map(test))).toBe(want));

  it('name tests that they do not know', () => {
    expect(nameOf(test('stable')).name).toBe('Kolmogorov–Smirnov');
    expect(nameOf({ ...test('stable'), name: 'chi_square' as DriftTest['name'] }).name).toBe('chi square');
  });
});

describe('topics', () => {
  it('come by their largest share', () => {
    expect(topTopics([{ a: 0.1, b: 0.5 }, { a: 0.6, c: 0.5 }], 2)).toEqual(['a', 'b']);
    expect(topTopics([])).toEqual([]);
  });
});
