// A program in another language works a queue of its own: it makes the queue and
// adds items over HTTP and NATS, and pulls and answers with a stock NATS client.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { jetstream } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import { Millrace, poll } from './millrace.mjs';

const lease = 4; // seconds
const ackWait = lease * 1000;
let millrace, nc, consumer;

before(async () => {
  millrace = await Millrace.start();
  nc = await connect({ servers: millrace.nats });
  const made = await millrace.send('/queues', { name: 'mail', max_attempts: 3, lease_s: lease, backoff_s: [1] });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  consumer = await jetstream(nc).consumers.get('WORK', 'mail');
});

after(async () => {
  await nc?.close();
  if (millrace) assert.equal(await millrace.stop(), 0, 'exit status after SIGTERM');
});

/** Adds one item over HTTP, and pulls its message. */
async function pull(item) {
  const { status, body } = await millrace.send('/queues/mail/items', { items: [item] });
  assert.equal(status, 201, JSON.stringify(body));
  const m = await next();
  assert.equal(m.json().id, body.added[0].id);
  return m;
}

async function next() {
  const m = await consumer.next({ expires: 60_000 });
  assert.ok(m, 'no message has come');
  assert.equal(m.subject, 'work.mail');
  return m;
}

const read = (id) => millrace.get(`/queues/mail/items/${id}`);

/** Waits until an item has a state, and returns it with its history. */
async function becomes(id, state) {
  let item;
  await poll(`item ${id} to be ${state}`, async () => (item = await read(id)).state === state);
  return item;
}

const moves = (item) => item.history.map((h) => h.move);

test('a message is the item, and a plain acknowledgement its end', async () => {
  const m = await pull({ payload: { to: 'a@example.com' }, key: 'one', group: 'g', priority: 5 });
  const { id, created_at, ...rest } = m.json();
  assert.ok(Date.parse(created_at));
  assert.deepEqual(rest, {
    queue: 'mail', generation: 1, attempt: 1, attempts: 0, key: 'one', group: 'g', priority: 5, payload: { to: 'a@example.com' },
  });
  m.ack();
  assert.deepEqual(moves(await becomes(id, 'done')), ['register', 'start', 'done']);
});

test('a termination fails the item, with its reason', async () => {
  const m = await pull({ payload: 1 });
  m.term('no such address');
  const item = await becomes(m.json().id, 'failed');
  assert.equal(item.error, 'no such address');
});

test('an item that is given back comes again later, in a new message', async () => {
  const m = await pull({ payload: 2 });
  const given = Date.now();
  m.nak(1500);
  const again = await next();
  assert.ok(Date.now() - given > 1400, 'it came before its time');
  assert.equal(again.json().id, m.json().id);
  assert.equal(again.json().attempt, 2);
  assert.ok(again.json().generation > m.json().generation);
  again.ack();
  assert.deepEqual(moves(await becomes(m.json().id, 'done')), ['register', 'start', 'again', 'start', 'done']);
});

test('a daemon keeps an item as long as it says that it is working', async () => {
  const m = await pull({ payload: 3 });
  for (const end = Date.now() + 2 * ackWait; Date.now() < end;) {
    m.working();
    await pause(ackWait / 8);
  }
  assert.equal((await read(m.json().id)).state, 'started');
  m.ack();
  assert.deepEqual(moves(await becomes(m.json().id, 'done')), ['register', 'start', 'done']);
});

test('the item of a silent daemon goes to another', async () => {
  const silent = await pull({ payload: 4 });
  const other = await next();
  assert.equal(other.json().id, silent.json().id);
  assert.ok(other.redelivered);
  other.ack();
  const item = await becomes(silent.json().id, 'done');
  assert.equal(moves(item).filter((move) => move === 'done').length, 1);
});

test('items are added over NATS, and a live key once', async () => {
  const add = async (...items) => (await nc.request('millrace.work.enqueue', JSON.stringify({ queue: 'mail', items }), { timeout: 30_000 })).json();
  const { items: [added] } = await add({ payload: { n: 5 }, key: 'five' });
  assert.deepEqual(await add({ payload: { n: 6 }, key: 'five' }), { items: [{ id: added.id, existing: true }] });
  const m = await next();
  assert.equal(m.json().id, added.id);
  assert.deepEqual(m.json().payload, { n: 5 });
  m.ack();
  await becomes(added.id, 'done');
  const refused = await nc.request('millrace.work.enqueue', JSON.stringify({ queue: 'none', items: [{ payload: 1 }] }), { timeout: 30_000 });
  assert.equal(refused.json().refused, true);
});
