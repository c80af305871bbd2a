// Something on every page of a server, for tests that look at them.
import assert from 'node:assert/strict';
import { poll } from '../node/millrace.mjs';
import { publishRaw } from '../node/raw.mjs';

export const url = (n) => `https://example.com/article-${n}`;
export const long = 'a_source_with_a_name_that_is_much_longer_than_any_column_of_any_table_could_ever_be';

/** 60 articles that got as far as indexed three hours ago, and one that went all the way, whose hash it returns. */
export async function events(millrace) {
  const at = (minutes) => new Date(Date.now() - 3 * 3_600_000 + minutes * 60_000).toISOString();
  const event = (n, stage, minutes, source = 'example_com', metadata = undefined) => ({
    article_url: url(n), source_name: source, stage, service_name: 'pages', occurred_at: at(minutes), trace_id: `trace-${n}`, metadata,
  });
  const all = Array.from({ length: 60 }, (_, n) => [event(n, 'crawled', 0, n % 5 ? 'example_com' : long), event(n, 'indexed', 1)]).flat();
  for (const [i, stage] of ['crawled', 'indexed', 'classified', 'routed', 'published'].entries()) {
    all.push(event(999, stage, 2 * i, 'example_com', stage === 'classified' ? { model_version: 'v1', quality_score: 61, topics: ['news'] } : { step: i }));
  }
  const { status, body } = await millrace.send('/events/batch', { events: all });
  assert.ok(status < 300, JSON.stringify(body));
  let hash;
  await poll('the article to be known', async () => {
    hash = (await millrace.get(`/events?article_url=${encodeURIComponent(url(999))}`)).events[0]?.url_hash;
    return hash;
  });
  return hash;
}

/** A queue in which three items have failed for two reasons, one is at work and ten wait. */
export async function queues(millrace) {
  const ok = async (path, body) => {
    const answer = await millrace.send(path, body);
    assert.ok(answer.status < 300, `${path}: ${JSON.stringify(answer.body)}`);
    return answer.body;
  };
  await ok('/queues', { name: 'mail', max_attempts: 5 });
  await ok('/queues/mail/items', { items: Array.from({ length: 14 }, (_, n) => ({ payload: { to: `${n}@example.com` }, key: `order-${n}`, group: 'shop' })) });
  const { items } = await ok('/queues/mail/take', { worker: 'host-7', limit: 4, lease_s: 3600 });
  for (const [i, error] of ['550 no such user 17', '550 no such user 4', 'timeout'].entries()) {
    await ok(`/queues/mail/items/${items[i].id}/fail`, { generation: items[i].generation, error });
  }
}

export async function files(millrace) {
  const ok = async (path, body) => assert.ok((await millrace.send(`/pipeline${path}`, body)).status < 300, path);
  await ok('/files/register', { filename: '20250101000000', shards: [0, 1, 2] });
  await ok('/files/register', { filename: '20250102000000', shards: [0] });
  await ok('/stages/event-ingest/done', { filename: '20250101000000' });
  await ok('/stages/shard-splitter/fail', { filename: '20250101000000', shard: 1, error: 'the shard is torn' });
}

/** Three letters that break two rules. */
export async function letters(millrace) {
  const event = (some) => JSON.stringify({
    article_url: url(1), source_name: 'example_com', stage: 'crawled', service_name: 'raw', occurred_at: new Date().toISOString(), ...some,
  });
  await publishRaw(millrace.nats, [
    ['events.cooked.a1', event({ stage: 'cooked' })],
    ['events.cooked.a2', event({ stage: 'cooked', article_url: url(2) })],
    ['events.crawled.a3', '{"article_url":'],
  ]);
  await poll('the letters', async () => (await millrace.get('/dlq')).letters.length === 3);
}

/** Sources that are crawled, with names short and long; one is disabled. */
export async function sources(millrace) {
  for (const [n, name] of ['Example News', 'Süddeutsche Nachrichten der Woche', long].entries()) {
    const { status, body } = await millrace.send('/sources', { name, url: `https://source-${n}.example/feed`, priority: ['high', 'normal', 'low'][n], enabled: n !== 2 });
    assert.equal(status, 201, JSON.stringify(body));
  }
  await poll('their jobs', async () => (await millrace.get('/jobs')).total === 2); // a disabled source has none
}

/** Three batches of six items, of which each has three errors that nobody tries again unasked. */
export async function batches(millrace) {
  for (const batch_index of [0, 1, 2]) {
    const items = ['', '', '', 'INVALID_URL', 'CONTENT_REMOVED', 'CONTENT_REMOVED'].map((error_code, n) => ({
      content_id: `item-${batch_index}-${n}`, crawled_at: new Date().toISOString(),
      ...(error_code ? { fetch_status: 'error', error_code, fetch_error: `${error_code} at https://example.com/${batch_index}/${n}` } : { fetch_status: 'success' }),
    }));
    const { status, body } = await millrace.send('/batches', { job_id: 'proj_x-brand-0', batch_index, platform: 'tiktok', items });
    assert.equal(status, 202, JSON.stringify(body));
  }
  await poll('the batches to be read', async () => (await millrace.get('/batches')).items.length === 3);
}

/** An upload with rejected rows, and one that is held; their ids. */
export async function uploads(millrace) {
  const send = async (name, content, query = '') => {
    const form = new FormData();
    form.set('file', new Blob([content]), name);
    const answer = await fetch(`http://${millrace.http}/api/v1/uploads${query}`, { method: 'POST', body: form });
    assert.equal(answer.status, 201, await answer.clone().text());
    return (await answer.json()).jobId;
  };
  const rows = Array.from({ length: 30 }, (_, n) => `${n},"A product with a name that is much longer than any column, number ${n}",${n * 1_000}`);
  const done = await send('products-of-the-autumn-catalogue-with-a-long-name.csv', `sku,title,price\n${rows.join('\n')}\nshort\n`);
  const held = await send('held.csv', 'sku,title\n1,Lamp\n2\n', '?hold=true');
  await poll('the upload to be done', async () => (await millrace.get(`/uploads/${done}`)).queue_state === 'DONE');
  return { done, held };
}

/** A bulk action: the failed items of the queue are tried again. */
export async function act(millrace) {
  const { status, body } = await millrace.send('/acts', { move: 'retry', filter: { queue: 'mail', state: 'failed' } });
  assert.ok(status < 300, JSON.stringify(body));
  await poll('the act to end', async () => (await millrace.get(`/acts/${body.id}`)).state === 'finished');
}
