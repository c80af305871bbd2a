import { periods } from '../shared/api/types';
import type { FunnelQuery, Period } from '../shared/api/types';
import { isZone } from '../shared/format/zone';

/** The query of an address, as the router gives it. */
export type AddressQuery = Record<string, string | null | undefined | (string | null)[]>;

/**
 * The filters live in the address, so that a link shows others what one sees. What cannot be read falls back to the
 * default: an old link should open a page, not an error.
 */
export function filtersFrom(query: AddressQuery, zone: string): FunnelQuery {
  const period = first(query.period);
  const tz = first(query.tz);
  return {
    period: isPeriod(period) ? period : 'today',
    source: first(query.source),
    tz: isZone(tz) ? tz : zone,
  };
}

/** Only what differs from the default, so that the plain page has a plain address. */
export function addressOf(filters: FunnelQuery, zone: string): Record<string, string> {
  const query: Record<string, string> = {};
  if (filters.period !== 'today') query.period = filters.period;
  if (filters.source) query.source = filters.source;
  if (filters.tz !== zone) query.tz = filters.tz;
  return query;
}

function first(value: AddressQuery[string]): string {
  return (Array.isArray(value) ? value[0] : value) ?? '';
}

function isPeriod(value: string): value is Period {
  return (periods as readonly string[]).includes(value);
}
