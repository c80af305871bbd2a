import { expect, it } from 'vitest';
import { courseOf, highestOf, pathOf } from './course';
import type { Summary } from './course';

const summary = {
  first_read_at: '2026-02-10T10:20:00Z', last_read_at: '2026-02-10T12:10:00Z', step_seconds: 3_600,
  over_time: [
    { from: '2026-02-10T10:00:00Z', batches: 1, content_count: 4, ok: 3, error: 1, retrying: 0 },
    { from: '2026-02-10T12:00:00Z', batches: 1, content_count: 2, ok: 1, error: 0, retrying: 1 },
  ],
} as unknown as Summary;

it('has a step for each part of the time, those without items included', () => {
  const course = courseOf(summary);
  expect(course.map(({ ok, error, retrying }) => [ok, error, retrying])).toEqual([[3, 1, 0], [0, 0, 0], [1, 0, 1]]);
  expect(highestOf(course)).toBe(4);
  expect(courseOf({ ...summary, first_read_at: null })).toEqual([]);
});

it('stands kinds of items on each other', () => {
  const course = courseOf(summary);
  expect(pathOf(course, 'ok')).toBe('M0,1v-0.75h0.85v0.75zM2,1v-0.25h0.85v0.25z');
  expect(pathOf(course, 'error')).toBe('M0,0.25v-0.25h0.85v0.25z');
  expect(pathOf(course, 'retrying')).toBe('M2,0.75v-0.25h0.85v0.25z');
});
