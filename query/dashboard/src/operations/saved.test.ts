// @vitest-environment happy-dom
import { beforeEach, expect, test } from 'vitest';
import { useSaved } from './saved';

const key = 'millrace.saved-filters';
beforeEach(() => localStorage.clear());

test('filters are saved under a name, for the next visit too, and forgotten', () => {
  const { saved, save, forget } = useSaved();
  save('urgent', { priority: 'critical' });
  save('off', { enabled: 'false' });
  save('urgent', { priority: 'high' });
  expect(saved.value).toEqual([
    { name: 'off', query: { enabled: 'false' } },
    { name: 'urgent', query: { priority: 'high' } },
  ]);
  forget('off');
  expect(useSaved().saved.value).toEqual([{ name: 'urgent', query: { priority: 'high' } }]);
});

test('what cannot be read is left out', () => {
  const good = { name: 'a', query: { q: 'news' } };
  localStorage.setItem(key, JSON.stringify([good, null, 'b', { name: 'c' }, { name: 'd', query: { q: 1 } }]));
  expect(useSaved().saved.value).toEqual([good]);
  localStorage.setItem(key, '{');
  expect(useSaved().saved.value).toEqual([]);
});
