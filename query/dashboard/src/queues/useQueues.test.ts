// @vitest-environment happy-dom
import { expect, it } from 'vitest';
import { countsOf } from './useQueues';
import type { Shown } from './useQueues';

it('the numbers at the states are those of the figures above them', () => {
  const queue = { ready: 1, delayed: 2, running: 3, done: 4, retriable: 5, dead: 6, cancelled: 7 } as Shown;
  expect(countsOf(queue)).toEqual({ new: 1, scheduled: 2, started: 3, done: 4, failed: 5, dead: 6, cancelled: 7 });
});
