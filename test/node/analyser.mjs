// An analyser in another language, with a stock NATS client: it says what it finds in the texts of items. docs/batches.md
// prints its loop.
import { readFile } from 'node:fs/promises';
import { connect, nkeyAuthenticator } from '@nats-io/transport-node';

const { ANALYSER_NATS: servers, ANALYSER_KEY: keyFile } = process.env;
const [seed] = (await readFile(keyFile, 'utf8')).match(/SU[A-Z2-7]+/);
const nc = await connect({
  servers, authenticator: nkeyAuthenticator(new TextEncoder().encode(seed)), maxReconnectAttempts: -1,
});
process.once('SIGTERM', () => nc.drain());

const good = ['good', 'love', 'great'], bad = ['bad', 'broken', 'awful'];

function analyse({ content }) {
  const words = (content.text ?? '').toLowerCase().match(/\p{L}+/gu) ?? [];
  const count = (of) => words.filter((word) => of.includes(word)).length;
  const score = words.length === 0 ? 0 : (count(good) - count(bad)) / words.length;
  return {
    sentiment: score > 0 ? 'positive' : score < 0 ? 'negative' : 'neutral',
    sentiment_score: score,
    keywords: [...new Set(words.filter((word) => word.length > 4))].slice(0, 10),
    risk: count(bad) > 1 ? 'high' : 'none',
  };
}

// Any number of analysers share the requests by the name of the queue.
for await (const m of nc.subscribe('analyse.items', { queue: 'analysers' })) {
  const { items } = m.json();
  m.respond(JSON.stringify({ analyser: 'words/1', items: items.map(analyse) }));
}
