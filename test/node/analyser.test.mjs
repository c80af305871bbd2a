// An analyser in another language answers over NATS. What it finds reaches the items, also after it was away.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { connect } from '@nats-io/transport-node';
import { jetstream } from '@nats-io/jetstream';
import { Millrace, poll } from './millrace.mjs';

let millrace, nc, js;

before(async () => {
  millrace = await Millrace.start({ MILLRACE_ENRICHMENT: 'analyser' });
  nc = await connect({ servers: millrace.nats });
  js = jetstream(nc);
});

after(async () => {
  await nc?.close();
  if (millrace) assert.equal(await millrace.stop(), 0, 'exit status after SIGTERM');
});

const texts = ['A good day, a great car', 'It is broken, and awful', 'A car'];

async function announce(batch) {
  const items = texts.map((text, position) => ({
    content_id: `${batch}-${position}`, fetch_status: 'success', text, interaction: { views: 99, likes: 0 },
  }));
  await js.publish('batches.data.collected', JSON.stringify({ job_id: 'proj_xyz-brand-0', batch_index: batch, items }));
}

/** What analysts see of a batch. */
async function analyses(batch) {
  const sql = `SELECT sentiment, sentiment_score, keywords, risk, analyser, impact FROM post_analytics
    WHERE batch_index = ${batch} AND analysed_at IS NOT NULL ORDER BY position FORMAT JSONEachRow`;
  const answer = await fetch(`http://${millrace.clickhouseHTTP}/`, { method: 'POST', body: sql });
  const text = await answer.text();
  assert.equal(answer.status, 200, text);
  return text.trim().split('\n').filter(Boolean).map((line) => JSON.parse(line));
}

function analyser() {
  return spawn(process.execPath, [fileURLToPath(new URL('analyser.mjs', import.meta.url))], {
    stdio: ['ignore', 'inherit', 'inherit'],
    env: { ...process.env, ANALYSER_NATS: millrace.nats, ANALYSER_KEY: join(millrace.data, 'nats/keys/analyser.nk') },
  });
}

const found = [
  { sentiment: 'positive', risk: 'none', keywords: ['great'] },
  { sentiment: 'negative', risk: 'high', keywords: ['broken', 'awful'] },
  { sentiment: 'neutral', risk: 'none', keywords: [] },
];

test('an analyser over NATS', async () => {
  await announce(1);
  await poll('the outcomes', async () => (await fetch(`http://${millrace.http}/api/v1/batches/proj_xyz-brand-0/1`)).ok);
  assert.deepEqual(await analyses(1), [], 'nobody has analysed anything');
  for (const batch of [1, 2]) {
    const child = analyser();
    if (batch > 1) await announce(batch);
    await poll('the analyses', async () => (await analyses(batch)).length === texts.length);
    const rows = await analyses(batch);
    rows.forEach((row, n) => {
      const { sentiment, risk, keywords } = found[n];
      assert.deepEqual({ sentiment: row.sentiment, risk: row.risk, keywords: row.keywords }, { sentiment, risk, keywords });
      assert.equal(row.analyser, 'words/1');
      assert.equal(row.impact, 25);
    });
    child.kill('SIGTERM');
    assert.deepEqual(await once(child, 'exit'), [0, null]);
  }
});
