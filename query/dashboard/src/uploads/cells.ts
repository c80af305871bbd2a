import type { Item, Upload } from './upload';

/** How many columns a grid has at most; a row that is opened has all. */
export const mostColumns = 40;

/**
 * The columns of results: those of the file, where a result is its row. Else the members of the objects that have come,
 * behind those that are known already, and those of the file before there is any.
 */
export function columnsOf(upload: Upload, known: readonly string[], items: readonly { result?: unknown }[]): string[] {
  if (upload.processor === 'copy' && upload.columns.length) return upload.columns;
  const members = items.flatMap(({ result }) => Object.keys((result ?? {}) as object));
  const all = [...new Set([...(known === upload.columns ? [] : known), ...members])];
  return all.length ? all : upload.columns;
}

/** What stands in a column: the result of an item, or what its summary says before there is one. */
export function cellOf(upload: Upload, item: Pick<Item, 'result' | 'inputSummary'>, column: string): string {
  const result = item.result as Record<string, unknown> | null;
  if (result && Object.hasOwn(result, column)) return textOf(result[column]);
  const field = Object.keys(upload.mapping).find((name) => upload.mapping[name] === column);
  return item.inputSummary[field ?? column] ?? '';
}

/** A value as a cell has it: a text as it is, and all else as JSON. */
export const textOf = (value: unknown): string => (typeof value === 'string' ? value : value === undefined ? '' : JSON.stringify(value));
