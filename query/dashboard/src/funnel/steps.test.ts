import { describe, expect, it } from 'vitest';
import { isEmpty, stepsOf } from './steps';

const stage = (name: string, count: number, unique_articles: number) => ({ name, count, unique_articles });

describe('steps', () => {
  it('tell conversion and repeats', () => {
    const [crawled, indexed, classified] = stepsOf([
      stage('crawled', 75_480, 71_200),
      stage('indexed', 68_345, 68_345),
      stage('classified', 12_150, 10_002),
    ]);
    expect(crawled).toMatchObject({ repeats: 4_280, fromPrevious: null, fromFirst: 1 });
    expect(indexed).toMatchObject({ repeats: 0, fromPrevious: 68_345 / 71_200 });
    expect(classified).toMatchObject({ repeats: 2_148, fromPrevious: 10_002 / 68_345, fromFirst: 10_002 / 71_200 });
  });

  it('have no conversion from nothing', () => {
    const steps = stepsOf([stage('crawled', 0, 0), stage('indexed', 5, 5)]);
    expect(steps.map((step) => step.fromPrevious)).toEqual([null, null]);
    expect(steps.map((step) => step.fromFirst)).toEqual([null, null]);
  });

  it('may grow, where a stage is published to directly', () => {
    expect(stepsOf([stage('a', 2, 2), stage('b', 3, 3)])[1]?.fromPrevious).toBe(1.5);
  });

  it('have no negative repeats when a sketch overestimates', () => {
    expect(stepsOf([stage('a', 100, 101)])[0]?.repeats).toBe(0);
  });

  it('are empty when nothing was counted', () => {
    expect(isEmpty([])).toBe(true);
    expect(isEmpty([stage('a', 0, 0)])).toBe(true);
    expect(isEmpty([stage('a', 0, 0), stage('b', 1, 1)])).toBe(false);
  });
});
