import { describe, expect, it } from 'vitest';
import { flowPath, flowShape } from './flowShape';

const heightAt = (points: [number, number][], x: number) => {
  const ys = points.filter((point) => Math.abs(point[0] - x) < 1e-9).map((point) => point[1]);
  return Math.max(...ys) - Math.min(...ys);
};

describe('the shape of the flow', () => {
  it('is as wide as its values, in proportion to the largest', () => {
    const points = flowShape([100, 50, 25], 100, 300, 200);
    expect(heightAt(points, 0)).toBeCloseTo(200);
    expect(heightAt(points, 100)).toBeCloseTo(100);
    expect(heightAt(points, 200)).toBeCloseTo(50);
    expect(heightAt(points, 300)).toBeCloseTo(50);
  });

  it('holds its level over the first half of a column', () => {
    expect(heightAt(flowShape([100, 50], 100, 200, 100), 50)).toBeCloseTo(100);
  });

  it('never vanishes', () => {
    expect(heightAt(flowShape([10, 0], 10, 200, 100), 200)).toBeGreaterThan(1);
    expect(heightAt(flowShape([0, 0], 0, 200, 100), 0)).toBeGreaterThan(1);
  });

  it('has the same number of points whatever the values', () => {
    expect(flowShape([1, 2, 3], 3, 10, 10)).toHaveLength(flowShape([0, 0, 0], 0, 900, 500).length);
  });

  it('is drawn as one closed path', () => {
    expect(flowPath([100, 50], 100, 200, 100)).toMatch(/^M0\.0,0\.00L.*L0\.0,100\.00Z$/);
  });

  it('of no stages is nothing', () => {
    expect(flowShape([], 0, 100, 100)).toEqual([]);
  });
});
