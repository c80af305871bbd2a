// A crawler in another language stores objects over HTTP, announces them with a stock NATS client in each of the
// formats, and compares what became of its items with its own count.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { jetstream } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import { Millrace, poll } from './millrace.mjs';

const job = 'proj_xyz-brand-0';
const subject = 'batches.data.collected';
let millrace, nc, js;

before(async () => {
  millrace = await Millrace.start();
  nc = await connect({ servers: millrace.nats });
  js = jetstream(nc);
});

after(async () => {
  await nc?.close();
  if (millrace) assert.equal(await millrace.stop(), 0, 'exit status after SIGTERM');
});

/** An item as a crawler of TikTok has it, with what became of it. */
function item(batch, position) {
  const id = `${6907228749016714497n + BigInt(batch * 1000 + position)}`;
  const crawled = {
    id,
    text: `Xe điện "VinFast VF8" 📈 \\ số ${position}`,
    createTime: 1608214517 + position,
    authorMeta: { id: '6825540583826768902', name: 'ninakleij', verified: false },
    webVideoUrl: `https://www.tiktok.com/@ninakleij/video/${id}`,
    diggCount: 3710 * position,
    hashtags: [{ id: '23428', name: 'ootd', title: '' }],
    meta: { crawled_at: '2026-02-10T14:30:00Z', pipeline_version: 'crawler_tiktok_v3', keyword_source: 'VinFast VF8' },
  };
  switch (position) {
    case 7: return { ...crawled, fetch_status: 'error', error_code: 'CONTENT_REMOVED', fetch_error: 'status 404' };
    case 8: return { ...crawled, fetch_status: 'error', error_code: 'RATE_LIMITED', fetch_error: 'status 429' };
    case 9: return { ...crawled, fetch_status: 'error' };
    case 10: return { ...crawled, id: undefined, fetch_status: 'success' };
    case 11: return crawled;
    default: return { ...crawled, fetch_status: 'success' };
  }
}

const items = (batch, n) => Array.from({ length: n }, (_, position) => item(batch, position));

/** What becomes of items, counted as the specification says. */
function recount(items) {
  const count = { content_count: items.length, ok: 0, error: 0, retrying: 0, errors: {} };
  for (const { id, fetch_status: status, error_code: code = 'UNKNOWN_ERROR' } of items) {
    if (id && status === 'success') {
      count.ok++;
      continue;
    }
    const name = id && status === 'error' ? code : 'PARSE_ERROR';
    count[['RATE_LIMITED', 'UNKNOWN_ERROR'].includes(name) ? 'retrying' : 'error']++;
    count.errors[name] = (count.errors[name] ?? 0) + 1;
  }
  return count;
}

async function put(key, body) {
  const answer = await fetch(`http://${millrace.http}/api/v1/objects/crawl-results/${key}`, { method: 'PUT', body });
  assert.equal(answer.status, 201, await answer.text());
}

const announce = (message) => js.publish(subject, JSON.stringify(message));

/** The batch, once it is stored. */
async function stored(job, index) {
  const path = `http://${millrace.http}/api/v1/batches/${encodeURIComponent(job)}/${index}`;
  let answer;
  await poll(`batch ${job} ${index}`, async () => (answer = await fetch(path)).status === 200);
  return answer.json();
}

function compare(batch, items) {
  const { content_count, ok, error, retrying } = batch;
  const errors = Object.fromEntries(batch.errors.map(({ code, count }) => [code, count]));
  assert.deepEqual({ content_count, ok, error, retrying, errors }, recount(items));
}

test('batches of a Node client have the outcomes that it counts, in each format', async () => {
  const batches = [items(1, 50), items(2, 50), items(3, 5), items(4, 20)];
  const lines = batches[1].map((i) => JSON.stringify(i)).join('\n');
  await put('tiktok/batch_001.json', JSON.stringify(batches[0]));
  await put('tiktok/batch_002.json.gz', gzipSync(lines));
  await put('tiktok/old.json', JSON.stringify(batches[3]));

  const event = (key, index) => ({
    event_id: `evt_${index}`,
    event_type: 'data.collected',
    payload: {
      minio_path: `crawl-results/${key}`, project_id: 'proj_xyz', job_id: job, batch_index: index, content_count: 50,
      platform: 'tiktok', task_type: 'research_and_crawl', keyword: 'VinFast VF8',
    },
  });
  for (let twice = 0; twice < 2; twice++) await announce(event('tiktok/batch_001.json', 1));
  await announce(event('tiktok/batch_002.json.gz', 2));
  await announce({ job_id: job, batch_index: 3, platform: 'tiktok', items: batches[2] });
  await announce({ data_ref: { bucket: 'crawl-results', path: 'tiktok/old.json' }, platform: 'tiktok' });

  for (const [i, index] of [1, 2, 3].entries()) compare(await stored(job, index), batches[i]);
  compare(await stored('legacy:crawl-results/tiktok/old.json', 0), batches[3]);

  const rows = await millrace.ask(`SELECT fetch_status, toUInt32(count()) AS n FROM post_analytics GROUP BY fetch_status`);
  const sent = batches.flat();
  const ok = sent.filter((i) => recount([i]).ok).length;
  assert.deepEqual(
    new Map(rows.map((r) => [r.fetch_status, Number(r.n)])), new Map([['success', ok], ['error', sent.length - ok]]),
  );
});

test('an item is found by its id, as it was sent', async () => {
  await announce({ job_id: job, batch_index: 9, platform: 'tiktok', items: items(9, 20) });
  await stored(job, 9);
  const sent = item(9, 7);
  const found = await millrace.get(`/batch-items/${sent.id}?content=true`);
  assert.deepEqual(found.content, sent);
  assert.deepEqual(
    [found.fetch_status, found.error_code, found.error_category, found.fetch_error, found.crawled_at, found.keyword_source],
    ['error', 'CONTENT_REMOVED', 'content', 'status 404', '2026-02-10T14:30:00Z', 'VinFast VF8'],
  );
});
