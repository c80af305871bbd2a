import { describe, expect, it } from 'vitest';
import { barAt, farthest, headHeight, highest, moved, rowHeight, sightOf, spaceOf } from './scrolling';

const view = 600;
const many = 1_000_000;

describe('a grid of few rows', () => {
  it('is where its bar is', () => {
    expect(spaceOf(100)).toBe(100 * rowHeight + headHeight);
    expect(moved(0, 0, 500, 100, view)).toBe(500);
    expect(moved(0, 0, 90_000, 100, view)).toBe(farthest(100, view).rows);
    expect(barAt(500, 100, view)).toBe(500);
  });

  it('does not move where all rows are seen', () => {
    expect(farthest(3, view)).toEqual({ rows: 0, bar: 0 });
    expect(sightOf(0, 3, view)).toEqual({ from: 0, to: 3, cut: 0 });
    expect(sightOf(0, 0, view)).toEqual({ from: 0, to: 0, cut: 0 });
  });
});

describe('a grid of a million rows', () => {
  const end = farthest(many, view);

  it('has a space that browsers draw', () => expect(spaceOf(many)).toBe(highest));

  it('moves by single rows with the wheel, anywhere', () => {
    for (const top of [0, 12_345_678, end.rows - rowHeight]) {
      const bar = barAt(top, many, view);
      expect(moved(top, bar, bar + rowHeight, many, view)).toBeCloseTo(Math.min(top + rowHeight, end.rows), 5);
    }
  });

  it('shows each row when one goes on by keys from the first to the last, and back', () => {
    const seen = new Uint8Array(many);
    const step = view - headHeight - rowHeight;
    let [top, turns] = [0, 0];
    for (const direction of [1, -1]) {
      seen.fill(0);
      for (;;) {
        const { from, to } = sightOf(top, many, view);
        seen.fill(1, from, to);
        // The bar is put where it belongs after each step, in whole pixels, and stops at its ends.
        const bar = Math.round(barAt(top, many, view));
        const next = moved(top, bar, Math.min(Math.max(0, bar + direction * step), end.bar), many, view);
        if (next === top || turns++ > 200_000) break;
        top = next;
      }
      expect(seen.indexOf(0)).toBe(-1);
    }
  });

  it('is at the last row when the bar is', () => {
    const top = moved(0, 0, end.bar, many, view);
    expect(sightOf(top, many, view).to).toBe(many);
    expect(moved(top, end.bar, 0, many, view)).toBe(0);
  });

  it('is in the middle when the bar is dragged there', () => {
    const { from } = sightOf(moved(0, 0, end.bar / 2, many, view), many, view);
    expect(Math.abs(from - many / 2)).toBeLessThan(20);
  });
});
