import { describe, expect, it } from 'vitest';
import { stageColors } from './palette';

describe('stage colors', () => {
  it('are as many as the stages', () => {
    for (const stages of [0, 1, 2, 5, 12]) expect(new Set(stageColors(stages, 'dark')).size).toBe(stages);
  });

  it('run from the first anchor to the last', () => {
    const colors = stageColors(3, 'light');
    expect(colors[0]).toBe('rgb(79,70,229)');
    expect(colors[1]).toBe('rgb(8,131,165)');
    expect(colors[2]).toBe('rgb(22,145,70)');
  });
});
