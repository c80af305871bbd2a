// A daemon in another language, with a stock NATS client: it pulls items,
// works them and acknowledges, and knows nothing else of Millrace. It writes
// down when it begins an item and when it has ended it; see test/faults/workers.go.
import { appendFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { jetstream } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';

const { MILLRACE_WORK_NATS: servers, MILLRACE_WORK_JOURNAL: journal, MILLRACE_WORK_QUEUES: names } = process.env;
const urls = servers.split(',').map((server) => new URL(`nats://${server.replace('nats://', '')}`));
const nanoseconds = () => `${Math.round((performance.timeOrigin + performance.now()) * 1000)}000`;
const note = (what, item) => appendFileSync(journal,
  `${nanoseconds()} ${what} ${item.stage ?? item.queue} ${item.filename ?? item.key} ${item.shard ?? 0} 0\n`);

/** The first attempt at one of ten items of a user-defined queue is in vain. */
const inVain = (item) => item.attempt === 1 && item.key?.endsWith('0');

const nc = await connect({
  servers: urls.map(({ host }) => host), user: urls[0].username, pass: urls[0].password, maxReconnectAttempts: -1, waitOnFirstConnect: true,
});
const js = jetstream(nc);
const pulling = new Set();
let stopped = false;

async function work(queue) {
  const consumer = await js.consumers.get('WORK', queue);
  const messages = await consumer.consume({ max_messages: 20 });
  pulling.add(messages);
  for await (const m of messages) {
    const item = m.json();
    note('B', item);
    await pause(1); // the work
    note(inVain(item) ? 'F' : 'E', item);
    if (inVain(item)) m.nak(1500);
    else m.ack();
  }
  pulling.delete(messages);
}

/** Works a queue until the daemon is to end, whatever happens to the server. */
async function keep(queue) {
  while (!stopped) {
    await work(queue).catch(() => pause(200));
  }
}

process.once('SIGTERM', () => {
  stopped = true;
  pulling.forEach((messages) => messages.stop());
});
console.error('working');
await Promise.all(names.split(',').map(keep));
await nc.drain();
