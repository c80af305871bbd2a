import { describe, expect, it } from 'vitest';
import { periods } from '../api/types';
import { countSet, moment, oneOf, place, readAddress, span, text, unset, writeAddress, zone } from './fields';

const fields = { period: oneOf(periods, 'today'), source: text(), tz: zone(), from: moment(), older: span('1h') };
const plain = { period: 'today', source: '', tz: fields.tz.fallback, from: '', older: '1h' } as const;

describe('the address', () => {
  it('is read', () => {
    const query = {
      period: '7d',
      source: 'example_com',
      tz: 'Asia/Kathmandu',
      from: '2026-02-10T14:30:00Z',
      older: '2d',
    };
    expect(readAddress(fields, query)).toEqual({ values: query, wrong: [] });
    expect(readAddress(fields, {})).toEqual({ values: plain, wrong: [] });
  });

  it('is answered in words where it cannot be', () => {
    const { values, wrong } = readAddress(fields, {
      period: '8d',
      tz: 'Mars/Olympus',
      from: 'yesterday',
      older: 'ages',
      colour: 'red',
    });
    expect(values).toEqual(plain);
    expect(wrong).toHaveLength(5);
    expect(wrong[0]).toBe('period=8d must be one of today, 24h, 7d, 30d; this is today');
    expect(wrong[4]).toContain('colour is not a parameter of this page');
  });

  it('takes the first of several', () => {
    expect(readAddress(fields, { period: ['7d', '30d'], source: [null] }).values).toEqual({ ...plain, period: '7d' });
  });

  it('counts and unsets filters, and leaves where on the page one is', () => {
    const some = { ...fields, open: place(text()) };
    const values = { ...plain, open: 'a', tz: 'Asia/Kathmandu' };
    expect(countSet(some, values)).toBe(0);
    expect(countSet(some, { ...values, source: 'a', period: '7d' })).toBe(2);
    expect(unset(some)).toEqual({ period: 'today', source: '', from: '', older: '1h' });
  });

  it('says only what differs from the default', () => {
    expect(writeAddress(fields, plain)).toEqual({});
    expect(writeAddress(fields, { ...plain, period: '30d', source: 'a' })).toEqual({ period: '30d', source: 'a' });
  });
});
