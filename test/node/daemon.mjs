// A daemon in another language, with a stock NATS client: it pulls items,
// works them and acknowledges, and knows nothing else of Millrace. It writes
// down when it begins an item and when it has ended it; see test/work.
import { appendFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { jetstream } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';

const { MILLRACE_WORK_NATS: servers, MILLRACE_WORK_JOURNAL: journal } = process.env;
const stages = ['shard-splitter', 'shard-worker', 'mysql-sender'];
const nanoseconds = () => `${Math.round((performance.timeOrigin + performance.now()) * 1000)}000`;
const note = (what, item) => appendFileSync(journal, `${nanoseconds()} ${what} ${item.stage} ${item.filename} ${item.shard}\n`);

const nc = await connect({ servers, maxReconnectAttempts: -1 });
const js = jetstream(nc);
const queues = [];

async function work(stage) {
  const consumer = await js.consumers.get('WORK', stage);
  const messages = await consumer.consume({ max_messages: 20 });
  queues.push(messages);
  for await (const m of messages) {
    const item = m.json();
    note('B', item);
    await pause(1); // the work
    note('E', item);
    m.ack();
  }
}

process.once('SIGTERM', () => queues.forEach((q) => q.stop()));
await Promise.all(stages.map(work));
await nc.drain();
