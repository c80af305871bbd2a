// A crawler in another language, with a stock NATS client: it works one item after the
// other, says that it is at work, and reports what became of each. docs/queues.md prints
// its loop. The payload of an item says how long its crawl takes, and what it finds.
import { setTimeout as pause } from 'node:timers/promises';
import { jetstream } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';

const { CRAWLER_NATS: servers, CRAWLER_QUEUE: queue } = process.env;
const nc = await connect({ servers, maxReconnectAttempts: -1, waitOnFirstConnect: true });
const js = jetstream(nc);
let messages, stopped = false;

async function crawl({ ms, articles }) {
  await pause(ms);
  return articles;
}

/** Works items until it is stopped. */
async function work() {
  const consumer = await js.consumers.get('WORK', queue);
  const lease = (await consumer.info()).config.ack_wait / 1e6; // milliseconds
  messages = await consumer.consume({ max_messages: 2 }); // one to work on, and the next
  for await (const m of messages) {
    const item = m.json();
    const beat = setInterval(() => m.working(), lease / 3);
    try {
      const articles = await crawl(item.payload);
      await report(item, 'done', { result: { articles_count: articles } });
    } catch (err) {
      await report(item, 'fail', { error: err.message });
    } finally {
      clearInterval(beat);
    }
  }
}

/** Says what became of an item, again until the server has it on record. */
async function report(item, report, more) {
  const body = JSON.stringify({ queue: item.queue, id: item.id, generation: item.generation, report, ...more });
  for (;;) {
    const reply = await nc.request('millrace.work.report', body, { timeout: 5_000 }).catch(() => undefined);
    const answer = reply?.json() ?? { error: 'no server is there' };
    if (!answer.error || answer.refused) return answer;
    await pause(500);
  }
}

process.once('SIGTERM', () => {
  stopped = true;
  messages?.stop();
});
while (!stopped) {
  await work().catch(() => pause(200)); // the server is away
}
await nc.drain();
