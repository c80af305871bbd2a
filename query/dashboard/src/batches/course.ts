import type { Schema } from '../shared/api/types';

export type Summary = Schema<'BatchesSummary'>;
type Step = Pick<Summary['over_time'][number], 'ok' | 'error' | 'retrying'>;

/** Later steps are not drawn: there would be several to a pixel. */
const most = 1_000;
const nothing: Step = { ok: 0, error: 0, retrying: 0 };

/** Items of each part of the time, those without any included. */
export function courseOf({ first_read_at: first, last_read_at: last, step_seconds: step, over_time: parts }: Summary): Step[] {
  if (!first || !last || !step) return [];
  const at = (time: string) => Math.floor(Date.parse(time) / 1_000 / step);
  const all = Array.from({ length: Math.min(at(last) - at(first), most) + 1 }, () => nothing);
  for (const part of parts) all[at(part.from) - at(first)] = part;
  return all;
}

export const sizeOf = ({ ok, error, retrying }: Step): number => ok + error + retrying;
export const highestOf = (course: readonly Step[]): number => Math.max(1, ...course.map(sizeOf));

/** An SVG path of one kind of items in bars, a unit wide each, that stand on the kinds before it; for a box of height 1. */
export function pathOf(course: readonly Step[], kind: keyof Step): string {
  const highest = highestOf(course);
  const below = (['ok', 'retrying', 'error'] as const).slice(0, ['ok', 'retrying', 'error'].indexOf(kind));
  return course
    .flatMap((step, i) => {
      if (!step[kind]) return [];
      const foot = below.reduce((sum, one) => sum + step[one], 0);
      return [`M${i},${round(1 - foot / highest)}v${round(-step[kind] / highest)}h0.85v${round(step[kind] / highest)}z`];
    })
    .join('');
}

const round = (value: number): number => Math.round(value * 10_000) / 10_000;
