import { describe, expect, it } from 'vitest';
import { addressOf, filtersFrom } from './filters';

const zone = 'Europe/Berlin';

describe('filters', () => {
  it('default to today, all sources and the zone of the browser', () => {
    expect(filtersFrom({}, zone)).toEqual({ period: 'today', source: '', tz: zone });
  });

  it('come from the address', () => {
    expect(filtersFrom({ period: '7d', source: 'example_com', tz: 'Asia/Kathmandu' }, zone)).toEqual({
      period: '7d',
      source: 'example_com',
      tz: 'Asia/Kathmandu',
    });
  });

  it('fall back where the address makes no sense', () => {
    expect(filtersFrom({ period: 'century', source: [null], tz: 'Mars/Olympus' }, zone)).toEqual({
      period: 'today',
      source: '',
      tz: zone,
    });
  });

  it.each([
    { period: 'today', source: '', tz: zone } as const,
    { period: '30d', source: 'a b&c', tz: 'UTC' } as const,
  ])('survive the address: %j', (filters) => {
    expect(filtersFrom(addressOf(filters, zone), zone)).toEqual(filters);
  });

  it('leave a plain address alone', () => {
    expect(addressOf(filtersFrom({}, zone), zone)).toEqual({});
  });
});
