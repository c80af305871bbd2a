import type { Funnel, Period, Stats } from '../shared/api/types';
import { formatDelta, formatMinutes } from '../shared/format/duration';
import { formatExact, formatShare } from '../shared/format/number';
import { stepsOf } from './steps';

export interface Span {
  from: string;
  to: string;
}

const day = 24 * 60 * 60_000;

/** The period before one: today's is yesterday up to the same time, any other's is as long and ends where it begins. */
export function before(period: Period, { from, to }: Span): Span {
  const by = period === 'today' ? day : Date.parse(to) - Date.parse(from);
  const earlier = (at: string) => new Date(Date.parse(at) - by).toISOString();
  return { from: earlier(from), to: earlier(to) };
}

export interface Measured {
  funnel: Funnel;
  stats: Stats;
}

/** A figure of two periods. */
interface Row {
  id: string;
  label: string;
  now: string;
  before: string;
  /** "–" where one of the two has no such figure. */
  change: string;
}

/** Articles and conversion of each stage, then how long articles take. */
export function compare(now: Measured, then: Measured): Row[] {
  const earlier = new Map(stepsOf(then.funnel.stages ?? []).map((step) => [step.name, step]));
  const rows: Row[] = [];
  for (const step of stepsOf(now.funnel.stages ?? [])) {
    const was = earlier.get(step.name);
    rows.push({
      id: `${step.name}-articles`,
      label: `${step.name}: articles`,
      now: formatExact(step.unique),
      before: formatExact(was?.unique ?? 0),
      change: relative(step.unique, was?.unique ?? 0),
    });
    if (step.fromPrevious === null && !was?.fromPrevious) continue;
    rows.push({
      id: `${step.name}-share`,
      label: `${step.name}: of the stage before`,
      now: formatShare(step.fromPrevious),
      before: formatShare(was?.fromPrevious ?? null),
      change: points(step.fromPrevious, was?.fromPrevious ?? null),
    });
  }
  const [median, was] = [now.stats.throughput.median_end_to_end_mins, then.stats.throughput.median_end_to_end_mins];
  if (median !== null || was !== null) {
    rows.push({
      id: 'end-to-end',
      label: 'end to end: median',
      now: formatMinutes(median),
      before: formatMinutes(was),
      change: relative(median, was),
    });
  }
  return rows;
}

function relative(now: number | null, was: number | null): string {
  return now === null || !was ? '–' : `${formatDelta((now / was - 1) * 100)} %`;
}

/** Shares differ by percentage points. */
function points(now: number | null, was: number | null): string {
  return now === null || was === null ? '–' : `${formatDelta((now - was) * 100)} points`;
}
