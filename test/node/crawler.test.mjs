// Crawls that take from a thirtieth of a lease to four leases, by the documented loop and by
// one that asks for 20 items and acknowledges each, while workers stop, stand still and
// die, and Millrace is killed: each crawl that succeeded is done, with what it found.
// With MILLRACE_LONG=1 the lease is 30 s, and crawls take 1 s to 2 minutes.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { after, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { jetstream } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import { Millrace, poll } from './millrace.mjs';

const long = process.env.MILLRACE_LONG === '1';
const lease = long ? 30 : 2; // seconds
const limit = long ? 1_800_000 : 240_000; // milliseconds
let millrace;
const workers = new Set();

before(async () => {
  millrace = await Millrace.start({ MILLRACE_WORK_ACK_WAIT: `${lease}s` });
});

after(async () => {
  for (const w of workers) w.kill('SIGKILL');
  if (millrace) assert.equal(await millrace.stop(), 0, 'exit status after SIGTERM');
});

/** Makes a queue, and adds crawls of so many leases each. Item number i finds i + 1 articles. */
async function fill(queue, leases) {
  const made = await millrace.send('/queues', { name: queue, lease_s: lease });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const items = leases.map((n, i) => ({ payload: { ms: n * lease * 1000, articles: i + 1 } }));
  const added = await millrace.send(`/queues/${queue}/items`, { items });
  assert.equal(added.status, 201, JSON.stringify(added.body));
}

function worker(queue) {
  const child = spawn(process.execPath, [fileURLToPath(new URL('crawler.mjs', import.meta.url))], {
    stdio: ['ignore', 'inherit', 'inherit'], env: { ...process.env, CRAWLER_NATS: millrace.nats, CRAWLER_QUEUE: queue },
  });
  workers.add(child);
  return child;
}

/** The items of a queue, each with its history. */
async function all(queue) {
  const { items } = await millrace.get(`/queues/${queue}/items?limit=1000`);
  return Promise.all(items.map(({ id }) => millrace.get(`/queues/${queue}/items/${id}`)));
}

async function finished(queue, count) {
  await poll(`${count} crawls of ${queue} to be done`, async () => {
    const { items } = await millrace.get(`/queues/${queue}/items?state=done&limit=1000`).catch(() => ({ items: [] }));
    return items.length === count;
  }, limit);
  for (const item of await all(queue)) {
    assert.ok(item.history.every((h) => h.move !== 'fail'), `it was recorded as failed: ${JSON.stringify(item)}`);
  }
}

test('the documented loop', async () => {
  const leases = Array.from({ length: 30 }, (_, i) => (i % 10 === 0 ? 4 : 1 / 30 + (i % 5) / 5));
  await fill('pages', leases);
  const [dies, stands, stops] = [worker('pages'), worker('pages'), worker('pages')];
  const started = async () => (await millrace.get('/queues/pages/items?state=started&limit=1000')).items.length;
  await poll('crawls to begin', async () => (await started()) >= 3);
  dies.kill('SIGKILL');
  stands.kill('SIGSTOP');
  await pause(lease * 1500); // its items go to others
  stands.kill('SIGCONT');
  await millrace.kill();
  await millrace.begin();
  await poll('crawls to go on', async () => (await started()) >= 2, limit);
  worker('pages');
  const exit = once(stops, 'exit');
  stops.kill('SIGTERM');
  assert.deepEqual(await exit, [0, null]);
  await finished('pages', leases.length);
  for (const item of await all('pages')) {
    assert.deepEqual(item.result, { articles_count: item.payload.articles });
  }
});

test('a loop that asks for 20 items and acknowledges each', async (t) => {
  const leases = Array.from({ length: 30 }, (_, i) => (i === 29 ? 1.3 : 1 / 30 + (i % 4) / 10));
  await fill('naive', leases);
  const nc = await connect({ servers: millrace.nats, maxReconnectAttempts: -1 });
  t.after(() => nc.close());
  const seen = [];
  const loop = async () => {
    const consumer = await jetstream(nc).consumers.get('WORK', 'naive');
    const messages = await consumer.consume({ max_messages: 20 });
    for await (const m of messages) {
      seen.push(m);
      await pause(m.json().payload.ms);
      m.ack();
    }
  };
  const ended = loop().catch((err) => assert.ok(nc.isClosed(), err));
  await finished('naive', leases.length);
  // The last one, which took longer than a lease, and on a busy machine some others.
  const again = seen.filter((m) => m.redelivered).length;
  assert.ok(again < 10, `${again} of ${seen.length} messages had come before`);
  await nc.close();
  await ended;
});

test('an item that was pulled is finished over HTTP, at once and later', async (t) => {
  await fill('mixed', [0, 0]);
  const nc = await connect({ servers: millrace.nats });
  t.after(() => nc.close());
  const consumer = await jetstream(nc).consumers.get('WORK', 'mixed');
  const finish = ({ id, generation }, more) =>
    millrace.send(`/queues/mixed/items/${id}/done`, { generation, result: { articles_count: 47 }, ...more });
  const first = (await consumer.next({ expires: 60_000 })).json();
  assert.equal((await finish(first)).status, 200);
  assert.equal((await finish(first, { worker: 'host-7' })).status, 200, 'it was said before');
  const second = (await consumer.next({ expires: 60_000 })).json();
  await poll('the item to be started', async () => (await millrace.get(`/queues/mixed/items/${second.id}`)).state === 'started');
  const wrong = await finish({ ...second, generation: second.generation + 2 });
  assert.equal(wrong.status, 409, JSON.stringify(wrong.body));
  assert.equal((await finish(second)).status, 200);
  await finished('mixed', 2);
  for (const item of await all('mixed')) assert.deepEqual(item.result, { articles_count: 47 });
});
