import type { Act } from './useActs';

/** How the state of an act looks. */
export function toneOf(act: Act): string {
  if (act.state === 'running') return 'accent';
  return act.state === 'stopped' || act.failed ? 'warn' : 'good';
}
