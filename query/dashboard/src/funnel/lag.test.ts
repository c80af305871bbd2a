import { describe, expect, it } from 'vitest';
import { Lag } from './lag';

describe('the lag', () => {
  it('is none while every message is counted soon', () => {
    const lag = new Lag();
    for (let i = 0; i < 100; i++) {
      // Ten messages are on their way at all times; each is counted by the next snapshot.
      expect(lag.observe(i * 100, i * 10 + 10, i * 10)).toBeLessThanOrEqual(100);
    }
    expect(lag.observe(10_000, 1_000, 1_000)).toBe(0);
  });

  it('grows while nothing is counted', () => {
    const lag = new Lag();
    expect(lag.observe(1_000, 50, 40)).toBe(0);
    expect(lag.observe(3_000, 60, 40)).toBe(2_000);
    expect(lag.observe(6_000, 60, 40)).toBe(5_000);
    expect(lag.observe(7_000, 70, 50)).toBe(4_000);
    expect(lag.observe(8_000, 70, 70)).toBe(0);
  });

  it('keeps the oldest of a long backlog', () => {
    const lag = new Lag();
    for (let i = 0; i < 2_000; i++) lag.observe(i, 10 + i, 0);
    expect(lag.observe(2_000, 2_009, 0)).toBe(2_000);
  });
});
