import { describe, expect, it } from 'vitest';
import { formatDelta, formatMinutes, formatNumber } from './duration';

describe('durations', () => {
  it.each([
    [null, '–'],
    [0, '0 s'],
    [0.001, '<0.1 s'],
    [0.02, '1.2 s'],
    [0.6, '36 s'],
    [11.2, '11.2 min'],
    [89.96, '90 min'],
    [150, '2.5 h'],
    [4_464, '3.1 days'],
  ])('%s minutes are %s', (minutes, want) => expect(formatMinutes(minutes)).toBe(want));
});

describe('differences', () => {
  it.each([
    [null, '–'],
    [6, '+6'],
    [-0.44, '−0.4'],
    [0.04, '0'],
    [-0.04, '0'],
    [1_234.5, '+1,234.5'],
  ])('%s is %s', (value, want) => expect(formatDelta(value)).toBe(want));

  it('have as many decimals as asked for', () => {
    expect(formatNumber(0.04567, 3)).toBe('0.046');
    expect(formatNumber(null)).toBe('–');
  });
});
