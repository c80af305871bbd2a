// A file is sent by tus with a stock client. The client and the server are killed at 60 %, and it goes on
// at its byte.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Millrace, poll } from './millrace.mjs';

const rows = 120_000;
const file = Buffer.from('sku,title\n' + Array.from({ length: rows }, (_, i) => `${i},${'chair '.repeat(14)}${i}\n`).join(''));
const sixty = file.length * 0.6;
let millrace, folder;

before(async () => {
  millrace = await Millrace.start();
  folder = await mkdtemp(join(tmpdir(), 'millrace-tus-'));
  await writeFile(join(folder, 'rows.csv'), file);
});

after(async () => {
  if (folder) await rm(folder, { recursive: true, force: true });
  if (millrace) assert.equal(await millrace.stop(), 0, 'exit status after SIGTERM');
});

/** Begins to send the file, and calls back with the client and each line that it writes. */
async function send(store, told) {
  const client = spawn(process.execPath, [
    fileURLToPath(new URL('tus.mjs', import.meta.url)),
    `http://${millrace.http}/api/v1/uploads/tus`, join(folder, 'rows.csv'), join(folder, store),
  ], { stdio: ['ignore', 'pipe', 'inherit'] });
  const lines = [];
  for await (const line of createInterface(client.stdout)) {
    const [what, value] = line.split(' ');
    lines.push({ what, value, n: Number(value) });
    await told?.({ client, what, n: Number(value) });
  }
  if (client.exitCode === null && client.signalCode === null) await once(client, 'exit');
  return lines;
}

const froms = (lines) => lines.filter(({ what }) => what === 'from').map(({ n }) => n);

/** Checks that the upload has the file, and all of its rows. */
async function whole(lines) {
  const { what, value } = lines.at(-1);
  assert.equal(what, 'done', JSON.stringify(lines.at(-1)));
  const id = value.split('/').at(-1);
  let upload;
  await poll('the upload to be done', async () => (upload = await millrace.get(`/uploads/${id}`)).queue_state === 'DONE');
  assert.equal(upload.name, 'By tus');
  assert.deepEqual(upload.file, {
    name: 'rows.csv', size: file.length, sha256: createHash('sha256').update(file).digest('hex'), format: 'csv',
  });
  assert.equal(upload.total_items, rows);
}

test('a client that is killed at 60 % goes on at its byte', async () => {
  const first = await send('client.json', async ({ client, what, n }) => {
    if (what === 'at' && n >= sixty) client.kill('SIGKILL');
  });
  const reached = Math.max(...first.filter(({ what }) => what === 'at').map(({ n }) => n));
  assert.ok(reached >= sixty && reached < file.length, `${reached} bytes were acknowledged`);
  const second = await send('client.json');
  assert.ok(froms(second)[0] >= reached, `it went on at ${froms(second)[0]}, and ${reached} bytes were acknowledged`);
  await whole(second);
});

test('a server that is killed at 60 % has what it acknowledged', async () => {
  let reached = 0;
  const lines = await send('server.json', async ({ what, n }) => {
    if (what === 'at' && n >= sixty && !reached) {
      reached = n;
      await millrace.kill();
      await millrace.begin();
    }
  });
  assert.ok(reached < file.length);
  assert.ok(froms(lines).at(-1) >= reached, `it went on at ${froms(lines)}, and ${reached} bytes were acknowledged`);
  await whole(lines);
});
