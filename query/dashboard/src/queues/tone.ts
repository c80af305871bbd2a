const tones: Record<string, string> = {
  done: 'good',
  started: 'accent',
  failed: 'bad',
  dead: 'bad',
  cancelled: 'warn',
  scheduled: 'warn',
};

/** How a state of an item looks. */
export function toneOf(state: string): string {
  return tones[state] ?? '';
}
