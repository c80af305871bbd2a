import type { Check } from '../api/types';

/** How the server begins what it says of a probe that only took too long: what was asked may be busy, and well. */
const late = 'no answer in time';

export function isLate(check: Check): boolean {
  return check.status === 'down' && (check.error?.startsWith(late) ?? false);
}

export function titleOf(check: Check): string {
  if (check.status === 'up') return `${check.name} is up`;
  return isLate(check) ? `${check.name} did not answer the last probe in time` : `${check.name} is down`;
}
