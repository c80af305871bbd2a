import { describe, expect, it } from 'vitest';
import { formatCount, formatMethod, formatRate, formatShare } from './number';

describe('numbers', () => {
  it.each([
    [0, '0'],
    [999, '999'],
    [75_480, '75,480'],
    [99_999_999, '99,999,999'],
    [123_456_789, '123.46M'],
  ])('count %d is %s', (value, want) => expect(formatCount(value)).toBe(want));

  it.each([
    [null, '–'],
    [0, '0 %'],
    [0.0004, '<0.1 %'],
    [0.1463, '14.6 %'],
    [0.5, '50.0 %'],
    [0.99999, '>99.9 %'],
    [1, '100 %'],
    [1.042, '104.2 %'],
    [12.3456, '1,235 %'],
  ])('share %s is %s', (share, want) => expect(formatShare(share)).toBe(want));

  it.each([
    [null, '–'],
    [0, '0/s'],
    [0.01, '<0.1/s'],
    [0.25, '0.3/s'],
    [9.96, '10/s'],
    [12_345.6, '12,346/s'],
  ])('rate %s is %s', (rate, want) => expect(formatRate(rate)).toBe(want));

  it('methods say their error', () => {
    expect(formatMethod('exact', 0)).toBe('exact');
    expect(formatMethod('sketch', 0.0244)).toBe('≈ ±2.4 %');
  });
});
