import { expect, it } from 'vitest';
import { cellOf, columnsOf, textOf } from './cells';
import type { Upload } from './upload';

const upload = (some: Partial<Upload>) => ({ columns: [], mapping: {}, ...some }) as unknown as Upload;

it('columns are those of the file, and of JSON lines the members that come', () => {
  const copied = { processor: 'copy' };
  expect(columnsOf(upload({ ...copied, columns: ['b', 'a'] }), [], [{ result: { c: 1 } }])).toEqual(['b', 'a']);
  expect(columnsOf(upload(copied), [], [{ result: { c: 1 } }, { result: null }, { result: { a: 1, c: 2 } }])).toEqual(['c', 'a']);
  expect(columnsOf(upload(copied), ['z', 'c'], [{ result: { a: 1, c: 2 } }])).toEqual(['z', 'c', 'a']);
});

it('columns of a queue’s results are theirs, and the file’s before there are any', () => {
  const enriched = upload({ processor: 'enrich', columns: ['sku'] });
  const before = columnsOf(enriched, [], [{ result: null }]);
  expect(before).toEqual(['sku']);
  expect(columnsOf(enriched, before, [{ result: { stock: 3 } }])).toEqual(['stock']);
});

it('a cell has the result, and before there is one the summary', () => {
  const of = upload({ columns: ['Name', 'Price'], mapping: { title: 'Name' } });
  expect(cellOf(of, { result: { Name: 'Chair', Price: '' }, inputSummary: { title: 'C', Price: '9' } }, 'Price')).toBe('');
  expect(cellOf(of, { result: null, inputSummary: { title: 'Chair', Price: '9' } }, 'Name')).toBe('Chair');
  expect(cellOf(of, { result: null, inputSummary: { title: 'Chair' } }, 'Price')).toBe('');
});

it('a text is shown as it is, and all else as JSON', () => {
  expect(textOf('=1+1\n')).toBe('=1+1\n');
  expect([textOf(null), textOf([1, 'a']), textOf(undefined)]).toEqual(['null', '[1,"a"]', '']);
});
