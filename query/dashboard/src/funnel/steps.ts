import type { Stage } from '../shared/api/types';

/** A stage with what can be said of it beside its neighbours. Shares are of unique articles; null when of nothing. */
export interface Step {
  name: string;
  count: number;
  unique: number;
  /** Events beyond the first of each article: retries, reclassifications. */
  repeats: number;
  fromPrevious: number | null;
  fromFirst: number | null;
}

export function stepsOf(stages: readonly Stage[]): Step[] {
  const first = stages[0]?.unique_articles ?? 0;
  return stages.map((stage, i) => ({
    name: stage.name,
    count: stage.count,
    unique: stage.unique_articles,
    // A sketch may estimate more articles than there were events.
    repeats: Math.max(0, stage.count - stage.unique_articles),
    fromPrevious: i === 0 ? null : share(stage.unique_articles, stages[i - 1]?.unique_articles ?? 0),
    fromFirst: share(stage.unique_articles, first),
  }));
}

function share(part: number, whole: number): number | null {
  return whole > 0 ? part / whole : null;
}

export function isEmpty(stages: readonly Stage[]): boolean {
  return stages.every((stage) => stage.count === 0);
}
