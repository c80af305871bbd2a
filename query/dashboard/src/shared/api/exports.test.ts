// @vitest-environment happy-dom
import { afterEach, expect, test, vi } from 'vitest';
import { giveToken } from './access';
import { fileName, useExport } from './exports';

afterEach(() => {
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

test('a file is called what the server calls it', () => {
  expect(fileName('attachment; filename=events-20260317T120713Z.csv')).toBe('events-20260317T120713Z.csv');
  expect(fileName('attachment; filename="events.csv"')).toBe('events.csv');
  expect(fileName('attachment; filename="all \\"products\\".csv"')).toBe('all "products".csv');
  expect(fileName("attachment; filename*=utf-8''M%C3%B6bel%20%E2%82%AC.csv")).toBe('Möbel €.csv');
  expect(fileName(null)).toBe('export');
});

test('an export asks with the filter and the token, and saves the file', async () => {
  giveToken('secret');
  const fetched = vi.fn<typeof fetch>(async () =>
    new Response('seq\r\n', { headers: { 'Content-Disposition': 'attachment; filename=events-1.csv' } }));
  vi.stubGlobal('fetch', fetched);
  const saved: string[] = [];
  vi.spyOn(HTMLAnchorElement.prototype, 'click').mockImplementation(function (this: HTMLAnchorElement) {
    saved.push(this.download);
  });
  const { save, failure, running } = useExport();
  await save('events/export', { stage: 'crawled', format: 'csv' });
  const [address, options] = fetched.mock.calls[0]!;
  expect(String(address)).toMatch(/api\/v1\/events\/export\?stage=crawled&format=csv$/);
  expect(new Headers(options?.headers).get('Authorization')).toBe('Bearer secret');
  expect([saved, failure.value, running.value]).toEqual([['events-1.csv'], '', false]);
});

test('a refused export says why and saves nothing', async () => {
  const problem = { title: 'Bad Request', status: 400, errors: [{ field: 'limit', code: 'export_size', rule: 'is required' }] };
  vi.stubGlobal('fetch', async () => Response.json(problem, { status: 400 }));
  const click = vi.spyOn(HTMLAnchorElement.prototype, 'click');
  const { save, failure } = useExport();
  await save('events/export', { format: 'parquet' });
  expect(failure.value).toBe('Bad Request · limit is required');
  expect(click).not.toHaveBeenCalled();
});
