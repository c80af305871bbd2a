// @vitest-environment happy-dom
import { afterEach, expect, test, vi } from 'vitest';
import { change, jobsOf } from './bulk';

afterEach(() => vi.unstubAllGlobals());

interface Body {
  operation?: string;
  ids: string[];
  source_ids?: string[];
  reason?: string;
}

/** Answers in turn, and keeps what was asked. */
function answering(...answers: ((asked: { url: URL; body: Body }) => Response)[]) {
  const asked: { url: URL; body: Body }[] = [];
  vi.stubGlobal('fetch', async (request: Request) => {
    const one = { url: new URL(request.url), body: request.method === 'POST' ? await request.json() : null };
    asked.push(one);
    return answers[asked.length - 1]!(one);
  });
  return asked;
}

const sources = (n: number) => new Map(Array.from({ length: n }, (_, i) => [`id-${i}`, `name ${i}`]));
const changed = ({ body }: { body: { ids: string[] } }) => Response.json({ results: body.ids.map((id) => ({ id, ok: true })) });

test('the filter of the list is one of jobs', () => {
  expect(jobsOf({ q: 'news', enabled: 'false', priority: 'low', job_status: 'paused', health: '' })).toEqual({
    q: 'news', enabled: 'false', source_priority: 'low', status: 'paused', priority: -1, has_source: 'true',
  });
});

test('500 sources go at a time, and those that were not changed come first', async () => {
  const asked = answering(changed, changed, ({ body }) =>
    Response.json({ results: body.ids.map((id, i) => (i === 1 ? { id, ok: false, error: 'there is no such source' } : { id, ok: true })) }));
  const seen: number[] = [];
  const results = await change('disable', sources(1_200), 'moved', (n) => seen.push(n));
  expect(asked.map(({ body }) => body.ids.length)).toEqual([500, 500, 200]);
  expect(asked[0]!.body).toMatchObject({ operation: 'disable', reason: 'moved' });
  expect(seen).toEqual([500, 1_000, 1_200]);
  expect(results).toHaveLength(1_200);
  expect(results[0]).toEqual({ id: 'id-1001', name: 'name 1001', error: 'there is no such source' });
  expect(results.filter(({ error }) => error)).toHaveLength(1);
});

test('jobs are named by their sources', async () => {
  const paused = ({ body }: { body: Body }) => Response.json({ results: body.source_ids!.map((id) => ({ id, ok: true })) });
  const asked = answering(paused, paused);
  const results = await change('pause', sources(600), '', () => {});
  expect(asked.map(({ url, body }) => [url.pathname.replace(/.*\/v1/, ''), body.operation, body.source_ids!.length])).toEqual([
    ['/jobs/bulk', 'pause', 500],
    ['/jobs/bulk', 'pause', 100],
  ]);
  expect(results).toHaveLength(600);
  expect(results[599]).toEqual({ id: 'id-599', name: 'name 599', error: '' });
});

test('after a request that fails nothing is sent, and each member says why', async () => {
  const asked = answering(changed, () => Response.json({ title: 'Service Unavailable', status: 503 }, { status: 503 }));
  const results = await change('delete', sources(1_200), '', () => {});
  expect(asked).toHaveLength(2);
  expect(asked[0]!.body).not.toHaveProperty('reason');
  const count = (error: string) => results.filter((result) => result.error === error).length;
  expect([count(''), count('Service Unavailable'), count('not asked for, since a request before has failed')]).toEqual([500, 500, 200]);
});
