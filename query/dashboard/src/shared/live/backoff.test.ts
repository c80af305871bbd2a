import { describe, expect, it } from 'vitest';
import { backoff } from './backoff';

describe('backoff', () => {
  it.each([
    [1, 250, 500],
    [2, 500, 1_000],
    [5, 4_000, 8_000],
    [6, 7_500, 15_000],
    [1_000, 7_500, 15_000],
  ])('after %i failures is between %i and %i ms', (failures, least, most) => {
    expect(backoff(failures, () => 0)).toBe(least);
    expect(backoff(failures, () => 1)).toBe(most);
  });
});
