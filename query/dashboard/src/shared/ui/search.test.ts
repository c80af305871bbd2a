import { describe, expect, it } from 'vitest';
import { search } from './search';

const zones = ['America/New_York', 'Asia/Kathmandu', 'Europe/York', 'York'];

describe('search', () => {
  it('finds everything for nothing', () => {
    expect(search(zones, ' ').values).toEqual(zones);
  });

  it('reads underscores as spaces and ignores case', () => {
    expect(search(zones, 'new york').values).toEqual(['America/New_York']);
    expect(search(zones, 'KATH').values).toEqual(['Asia/Kathmandu']);
  });

  it('puts the exact one first', () => {
    expect(search(zones, 'york').values).toEqual(['York', 'America/New_York', 'Europe/York']);
  });

  it('says how many were left off', () => {
    expect(search(zones, '', 3)).toEqual({ values: zones.slice(0, 3), more: 1 });
  });
});
