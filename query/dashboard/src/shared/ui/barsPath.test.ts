import { expect, test } from 'vitest';
import { barsPath } from './barsPath';

test('the highest bar has the whole height, and what is not nothing is seen', () => {
  expect(barsPath([10, 0, 5, 0.001], 40, 20)).toBe('M0,20v-20h8v20zM20,20v-10h8v10zM30,20v-1h8v1z');
});

test('nothing has no bars', () => {
  expect(barsPath([], 40, 20)).toBe('');
  expect(barsPath([0, 0], 40, 20)).toBe('');
});
