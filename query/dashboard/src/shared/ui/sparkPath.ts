import type { Point } from '../live/pace';

/** How much of the past a spark line shows, once there is as much, and the least that it stretches over its width. */
const longest = 60_000;
const shortest = 15_000;

/** SVG paths of the last minute; a gap in what is known is a gap in the line. */
export function sparkPath(points: readonly Point[], width: number, height: number): { line: string; area: string } {
  const end = points.at(-1)?.at ?? 0;
  const recent = points.filter((point) => point.at >= end - longest);
  const oldest = recent.find((point) => point.rate !== null)?.at ?? end;
  const span = Math.max(shortest, end - oldest);
  const highest = Math.max(1e-9, ...recent.map((point) => point.rate ?? 0));
  const x = (at: number) => round(width - ((end - at) / span) * width);
  const y = (rate: number) => round(height - 1 - (rate / highest) * (height - 3));

  let line = '';
  let area = '';
  for (const run of runs(recent)) {
    const course = run.map((point) => `${x(point.at)},${y(point.rate)}`).join('L');
    line += `M${course}`;
    area += `M${x(run[0]!.at)},${height}L${course}L${x(run.at(-1)!.at)},${height}Z`;
  }
  return { line, area };
}

type Known = { at: number; rate: number };

/** The stretches in which the rate is known. */
function runs(points: readonly Point[]): Known[][] {
  const found: Known[][] = [];
  let open = false;
  for (const { at, rate } of points) {
    if (rate !== null) {
      if (!open) found.push([]);
      found.at(-1)!.push({ at, rate });
    }
    open = rate !== null;
  }
  return found;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
