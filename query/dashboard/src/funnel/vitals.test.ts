import { describe, expect, it } from 'vitest';
import type { Funnel, Stats } from '../shared/api/types';
import { badges, delays, usualRoles } from './vitals';

const stats = {
  throughput: {
    median_crawl_to_classify_mins: 11.2,
    avg_crawl_to_classify_mins: 12.4,
    median_classify_to_publish_mins: 0.6,
    avg_classify_to_publish_mins: 0.8,
    median_end_to_end_mins: 11.8,
    avg_end_to_end_mins: 13.2,
    articles: 9_800,
  },
  roles: usualRoles,
  generated_at: '2026-02-10T15:42:03Z',
} as Stats;

const funnel = (routed: number, published: number) =>
  ({
    stages: [
      { name: 'classified', count: 12_150, unique_articles: 10_002 },
      { name: 'routed', count: routed, unique_articles: routed },
      { name: 'published', count: published, unique_articles: published },
    ],
  }) as Funnel;

describe('delays', () => {
  it('show the median, and the average where one points at it', () => {
    expect(delays(stats, 'UTC').map((vital) => vital.value)).toEqual(['11.2 min', '36 s', '11.8 min']);
    expect(delays(stats, 'UTC')[0]?.tip).toBe('Median of 9,800 articles that came all the way; on average 12.4 min; measured at 15:42:03');
  });

  it('say when there is none', () => {
    const none = {
      ...stats,
      throughput: { ...stats.throughput, median_end_to_end_mins: null, avg_end_to_end_mins: null },
    };
    expect(delays(none, 'UTC')[2]).toMatchObject({
      value: '–',
      raw: null,
      tip: 'No article has gone from crawled to published in this period, measured at 15:42:03',
    });
  });

  it('leave out what the pipeline does not have', () => {
    const roles = { crawl: 'submitted', classify: '', route: '', publish: 'paid' };
    expect(delays({ ...stats, roles }, 'UTC').map((vital) => vital.id)).toEqual(['end-to-end']);
    expect(badges(funnel(1, 1), roles)).toEqual([]);
  });
});

describe('badges', () => {
  it('count reclassifications as the events beyond the first of their article', () => {
    expect(badges(funnel(0, 0), usualRoles)[0]).toMatchObject({ raw: 2_148, value: '2,148' });
  });

  it.each([
    [9_800, 9_800, '100 %', 'good'],
    [1_000, 985, '98.5 %', 'warn'],
    [1_000, 700, '70.0 %', 'bad'],
    [0, 0, '–', 'plain'],
    [10, 11, '100 %', 'good'],
  ])('of %d routed, %d published is %s', (routed, published, value, tone) => {
    expect(badges(funnel(routed, published), usualRoles)[1]).toMatchObject({ value, tone });
  });
});
