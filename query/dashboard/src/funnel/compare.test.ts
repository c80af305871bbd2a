import { expect, test } from 'vitest';
import type { Funnel, Stats } from '../shared/api/types';
import { before, compare } from './compare';

test('the period before is as long, and that before today is yesterday up to the same time', () => {
  const span = { from: '2026-02-10T00:00:00Z', to: '2026-02-10T06:00:00Z' };
  expect(before('today', span)).toEqual({ from: '2026-02-09T00:00:00.000Z', to: '2026-02-09T06:00:00.000Z' });
  expect(before('24h', span)).toEqual({ from: '2026-02-09T18:00:00.000Z', to: '2026-02-10T00:00:00.000Z' });
});

const measured = (counts: Record<string, number>, median: number | null) => ({
  funnel: {
    stages: Object.entries(counts).map(([name, n]) => ({ name, count: 2 * n, unique_articles: n })),
  } as Funnel,
  stats: { throughput: { median_end_to_end_mins: median } } as Stats,
});

test('articles and times differ by their relation, shares by points', () => {
  const rows = compare(measured({ crawled: 150, published: 60 }, 3), measured({ crawled: 100, published: 50 }, 4));
  expect(rows.map(({ id, now, before, change }) => [id, now, before, change])).toEqual([
    ['crawled-articles', '150', '100', '+50 %'],
    ['published-articles', '60', '50', '+20 %'],
    ['published-share', '40.0 %', '50.0 %', '−10 points'],
    ['end-to-end', '3 min', '4 min', '−25 %'],
  ]);
});

test('what was not there has no difference', () => {
  const rows = compare(measured({ crawled: 5, published: 0 }, null), measured({ crawled: 0, published: 0 }, null));
  expect(rows.map(({ id, change }) => [id, change])).toEqual([
    ['crawled-articles', '–'],
    ['published-articles', '–'],
    ['published-share', '–'],
  ]);
});
