// A program in another language watches the funnel with what Node has: server-sent
// events over fetch, and a WebSocket.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { events } from './sse.mjs';
import { Millrace } from './millrace.mjs';

let millrace;

before(async () => {
  millrace = await Millrace.start();
});

after(async () => {
  if (millrace) assert.equal(await millrace.stop(), 0, 'exit status after SIGTERM');
});

const publish = async (n) => assert.equal(await millrace.post({
  article_url: `https://example.com/live-${n}`, source_name: 'node_live', stage: 'crawled',
  occurred_at: new Date().toISOString(), service_name: 'node',
}), 201);

const address = (query) => `http://${millrace.http}/api/v1/live/sse?${query}`;

/** Reads events until one shows so many crawled events; the stream stays open. */
async function until(stream, count) {
  for (;;) {
    const { value: event, done } = await stream.next();
    assert.equal(done, false, 'the stream has ended');
    const message = JSON.parse(event.data);
    assert.equal(event.id, `${message.epoch}:${message.seq}`);
    if (message.funnel.stages[0].count === count) return event;
  }
}

test('server-sent events over fetch go on where they ended', async () => {
  const query = 'view=funnel&period=24h&source=node_live';
  const first = events(address(query));
  await until(first, 0);
  await publish(1);
  const last = await until(first, 1);
  await first.return();

  const again = events(address(query), { lastEventID: last.id });
  await publish(2);
  const next = await until(again, 2);
  await again.return();
  const [epoch, seq] = last.id.split(':');
  assert.equal(next.id.split(':')[0], epoch, 'the epoch is that of before');
  assert.equal(Number(next.id.split(':')[1]), Number(seq) + 1, 'nothing was sent twice');

  await millrace.kill();
  await millrace.begin();
  const restarted = events(address(query), { lastEventID: next.id });
  const whole = await until(restarted, 2);
  await restarted.return();
  assert.notEqual(whole.id.split(':')[0], epoch, 'a restarted server has another epoch');
});

test('an unknown parameter is refused with the nearest', async () => {
  await assert.rejects(events(address('view=funnel&sorce=a')).next(), /400.*the nearest is source/s);
});

test('every view is served', async () => {
  for (const view of ['lag', 'queues', 'dlq']) {
    const stream = events(address(`view=${view}`));
    const { value } = await stream.next();
    assert.ok(JSON.parse(value.data)[view], value.data);
    await stream.return();
  }
});

test('a WebSocket comes again with its last position', { skip: !globalThis.WebSocket }, async () => {
  const ask = (request) => new Promise((resolve, reject) => {
    const socket = new WebSocket(`ws://${millrace.http}/api/v1/live`);
    socket.onopen = () => socket.send(JSON.stringify(request));
    socket.onerror = reject;
    socket.onmessage = ({ data }) => {
      socket.close();
      resolve(JSON.parse(data));
    };
  });
  const request = { op: 'subscribe', id: 'a', view: 'funnel', period: '30d', source: 'node_live' };
  const { epoch, seq, funnel } = await ask(request);
  assert.equal(funnel.stages[0].count, 2);
  assert.deepEqual(await ask({ ...request, epoch, seq }), { id: 'a', seq, epoch, unchanged: true });
});
