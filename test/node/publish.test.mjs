// A program in another language publishes with a stock NATS client, and reads
// its events back over HTTP and in SQL.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { jetstream } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import { messageID, subject, urlHash } from './event.mjs';
import { Millrace } from './millrace.mjs';

const stages = ['crawled', 'indexed', 'classified', 'routed', 'published'];
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

const publish = (event) => js.publish(subject(event), JSON.stringify(event), { msgID: messageID(event) });

/** Articles that get as far as their number allows: one crawled only, one indexed, … */
function history() {
  const now = Date.now();
  return stages.flatMap((_, i) => stages.slice(0, i + 1).map((stage, k) => ({
    article_url: `https://example.com/статья-${i}`,
    source_name: 'node_client',
    stage,
    occurred_at: new Date(now - 3_600_000 + k * 1000).toISOString(),
    service_name: 'node',
    metadata: { n: i },
  })));
}

const counts = [5, 4, 3, 2, 1];

test('events of a Node client count once, however often they are sent', async () => {
  const events = history();
  for (const event of events) assert.equal((await publish(event)).duplicate, false);
  for (const event of events) assert.equal((await publish(event)).duplicate, true);
  // Without a message id the broker takes it again, and the projector does not.
  assert.equal((await js.publish(subject(events[0]), JSON.stringify(events[0]))).duplicate, false);
  await millrace.caughtUp();

  const funnel = await millrace.get('/funnel?period=24h&source=node_client');
  assert.deepEqual(funnel.stages.map((s) => s.count), counts);
  assert.deepEqual(funnel.stages.map((s) => s.unique_articles), counts);

  const rows = await millrace.ask('SELECT stage, toUInt32(count()) AS n FROM events GROUP BY stage');
  assert.deepEqual(new Map(rows.map((r) => [r.stage, Number(r.n)])), new Map(stages.map((s, i) => [s, counts[i]])));
});

test('HTTP and NATS agree on what an event is', async () => {
  const [event] = history();
  event.article_url = 'https://example.com/both';
  await publish(event);
  await millrace.caughtUp();
  assert.equal(await millrace.post(event), 200, 'a duplicate of what came over NATS');
  await millrace.caughtUp();
  const journey = await millrace.get(`/articles/${urlHash(event)}/journey`);
  assert.equal(journey.events.length, 1);
  assert.equal(`${journey.events[0].idempotency_key}/${journey.url_hash}`, messageID(event));
});
