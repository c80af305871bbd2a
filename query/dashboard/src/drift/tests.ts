import type { DriftTest, Verdict } from '../shared/api/types';

/** What a verdict is called, and how it looks. */
export const verdicts: Record<Verdict, { word: string; tone: 'good' | 'warn' | 'bad' | 'plain' }> = {
  stable: { word: 'Stable', tone: 'good' },
  moderate: { word: 'Moderate shift', tone: 'warn' },
  drift: { word: 'Drift', tone: 'bad' },
  insufficient_data: { word: 'Too few data', tone: 'plain' },
};

const names: Record<string, { name: string; about: string }> = {
  population_stability_index: {
    name: 'Population Stability Index',
    about: 'How far the topics’ shares of all mentions are apart: below 0.1 is stable, above 0.25 is drift',
  },
  jensen_shannon_distance: {
    name: 'Jensen–Shannon distance',
    about: 'Between the distributions of topics: 0 is the same, 1 is nothing in common',
  },
  kolmogorov_smirnov: {
    name: 'Kolmogorov–Smirnov',
    about: 'Greatest distance between the distributions of quality scores, against what chance allows at 5 %',
  },
  wasserstein_distance: {
    name: 'Wasserstein distance',
    about:
      'How many points of quality score lie between the distributions; more than a tenth of a standard deviation is drift',
  },
};

export function nameOf(test: DriftTest): { name: string; about: string } {
  return names[test.name] ?? { name: test.name.replaceAll('_', ' '), about: '' };
}

/** The worst of all verdicts; what has too few data says nothing beside others. */
export function worst(tests: readonly DriftTest[]): Verdict {
  const order: Verdict[] = ['insufficient_data', 'stable', 'moderate', 'drift'];
  return tests.reduce<Verdict>(
    (found, test) => (order.indexOf(test.verdict) > order.indexOf(found) ? test.verdict : found),
    'insufficient_data',
  );
}

/** Topics of all versions, those of the largest share first, at most so many. */
export function topTopics(distributions: readonly Record<string, number>[], limit = 6): string[] {
  const largest = new Map<string, number>();
  for (const distribution of distributions) {
    for (const [topic, share] of Object.entries(distribution))
      largest.set(topic, Math.max(share, largest.get(topic) ?? 0));
  }
  return [...largest.keys()].sort((a, b) => largest.get(b)! - largest.get(a)! || (a < b ? -1 : 1)).slice(0, limit);
}
