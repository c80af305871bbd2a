const first = 500;
const longest = 15_000;

/**
 * Milliseconds to wait after so many failures in a row: doubling, at most 15 s, and anywhere between half of it and
 * the whole, so that the pages of a restarted server do not all come back in the same instant.
 */
export function backoff(failures: number, random: () => number = Math.random): number {
  const ceiling = Math.min(longest, first * 2 ** Math.max(0, failures - 1));
  return Math.round(ceiling * (0.5 + 0.5 * random()));
}
