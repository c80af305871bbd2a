// @vitest-environment happy-dom
import { expect, test } from 'vitest';
import { kindOf, tableOf } from './imports';

test('a list is what its name ends in', () => {
  expect(kindOf('feeds.OPML')).toBe('text/x-opml');
  expect(kindOf('export.2026.csv')).toBe('text/csv');
  expect(kindOf('sources.jsonl')).toBe('application/x-ndjson');
  expect(kindOf('sources.txt')).toBe('');
  expect(kindOf('csv.')).toBe('');
});

test('refused lines are a table', () => {
  const report = {
    created: 1, updated: 0, unchanged: 0, repeated: 0, refused: 1, ignored_columns: [],
    errors: [{ line: 7546, field: 'url', code: 'url', rule: 'must be absolute' }],
  };
  expect(tableOf(report)).toBe('line\tfield\trule\n7546\turl\tmust be absolute');
});
