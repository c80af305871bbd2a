/**
 * The age of a snapshot is the server's stamp against our clock, and the clock of a laptop can be minutes off.
 * The Date header of ordinary answers tells by how much; it has whole seconds, so small differences mean nothing.
 */
const tolerance = 2_000;

let offset = 0;

export function noteServerTime(date: string | null, now: number): void {
  const server = Date.parse(date ?? '');
  if (Number.isNaN(server)) return;
  const difference = server - now;
  offset = Math.abs(difference) > tolerance ? difference : 0;
}

/** The server's stamp of a moment some milliseconds before now. */
export function stampBefore(now: number, milliseconds: number): string {
  return new Date(now + offset - milliseconds).toISOString();
}

/** Milliseconds since the server's stamp, never negative. */
export function ageOf(stamp: string, now: number): number {
  return Math.max(0, now + offset - Date.parse(stamp));
}
