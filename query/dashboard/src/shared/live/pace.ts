/** The counts at one moment; null while the connection was lost, so that no rate is drawn across the gap. */
interface Sample {
  at: number;
  counts: ReadonlyMap<string, number> | null;
}

export interface Point {
  at: number;
  /** Per second; null where it is not known. */
  rate: number | null;
}

/** How much of the past is kept. */
export const kept = 5 * 60_000;
/**
 * A rate is the mean over this long: snapshots come in steps, and a rate between two of them jumps. Numbers are called
 * stale some 4 seconds after they stand still, which is before that is taken for a rate of zero.
 */
const smoothing = 8_000;

/**
 * How fast things of several names come, from how many there are at successive moments. Snapshots come when something
 * changed, so the newest one is sampled by the clock: standing still is a rate of zero, not a missing one.
 */
export class Pace {
  private samples: Sample[] = [];

  sample(at: number, counts: Iterable<readonly [name: string, count: number]> | null): void {
    this.samples.push({ at, counts: counts && new Map(counts) });
    const oldest = at - kept;
    this.samples = this.samples.filter((sample) => sample.at >= oldest);
  }

  reset(): void {
    this.samples = [];
  }

  series(name: string): Point[] {
    let start = 0;
    return this.samples.map((end, i) => {
      while (start < i && end.at - this.samples[start]!.at > smoothing) start++;
      return { at: end.at, rate: this.rate(name, start, i) };
    });
  }

  /** The present rate. */
  current(name: string): number | null {
    return this.series(name).at(-1)?.rate ?? null;
  }

  private rate(name: string, from: number, to: number): number | null {
    const end = this.samples[to]!;
    if (!end.counts) return null;
    let start = end;
    for (let i = to - 1; i >= from && this.samples[i]!.counts; i--) start = this.samples[i]!;
    if (start === end) return null;
    const gained = (end.counts.get(name) ?? 0) - (start.counts?.get(name) ?? 0);
    // Midnight takes the count of "today" back to nothing.
    return Math.max(0, gained / ((end.at - start.at) / 1_000));
  }
}
