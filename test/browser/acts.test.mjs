// Bulk actions on many items of a running server: found and retried in a real
// browser, and gone on with after the server was killed.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Millrace, poll } from '../node/millrace.mjs';
import { Browser, skip } from './browser.mjs';

const kinds = [
  (n) => `550 no such user ${n}`,
  (n) => `dial tcp 10.0.${n % 250}.7:25: connection refused`,
  (n) => `GET https://api.example.com/orders/${n}: 503 Service Unavailable`,
  (n) => `row ${n.toString(16).padStart(8, '0')}1 violates the check "positive"`,
  () => 'the deadline has passed',
];
const many = 10_000;

describe('bulk actions', { skip }, () => {
  let millrace, browser, page;
  let ids = [];

  const ok = async (path, body) => {
    const answer = await millrace.send(path, body);
    assert.ok(answer.status < 300, `${path}: ${JSON.stringify(answer.body)}`);
    return answer.body;
  };

  before(async () => {
    millrace = await Millrace.start();
    await ok('/queues', { name: 'orders' });
    const { added } = await ok('/queues/orders/items', { items: Array.from({ length: many }, (_, n) => ({ payload: { n } })) });
    ids = added.map(({ id }) => id);
    await failAll();
    browser = await Browser.open();
    page = browser.page;
  });

  after(async () => {
    await browser?.close();
    await millrace?.stop();
  });

  /** Workers take every item, and each fails for one of five reasons. */
  async function failAll() {
    let left = many;
    const worker = async () => {
      while (left > 0) {
        const { items } = await ok('/queues/orders/take', { worker: 'host-7', limit: 100, lease_s: 3600 });
        left -= items.length;
        for (const { id, generation, payload } of items) {
          await ok(`/queues/orders/items/${id}/fail`, { generation, error: kinds[payload.n % kinds.length](payload.n) });
        }
      }
    };
    await Promise.all(Array.from({ length: 16 }, worker));
  }

  /** The ids of all items in a state, in order. */
  async function recount(state) {
    const found = [];
    for (let cursor = ''; cursor !== undefined; ) {
      const page = await millrace.get(`/queues/orders/items?state=${state}&limit=1000${cursor && `&cursor=${cursor}`}`);
      found.push(...page.items.map(({ id }) => id));
      cursor = page.next_cursor;
    }
    return found;
  }

  test('10,000 failures of five kinds are found and retried in three clicks', async () => {
    assert.deepEqual(await recount('failed'), ids);
    await page.goto(`http://${millrace.http}/#/queues`);
    await page.waitForSelector(`[data-testid="queue-orders"] [data-testid="failed"][data-value="${many}"]`);

    await page.click('[data-testid="queue-orders"] [data-testid="failed"] a');
    await page.waitForFunction((n) => document.querySelectorAll(`[data-testid="failure-count"][data-value="${n}"]`).length === 5, many / 5);
    await browser.click('act-on-all');
    await page.waitForSelector('[data-testid="confirm"] h2 >> text=Retry 10,000 items?');
    await browser.click('confirm-act');

    await browser.shows('act-matched', 'data-value', String(many));
    await browser.shows('act-state', 'data-value', 'finished');
    await browser.shows('act-done', 'data-value', String(many));
    const { states } = await millrace.get('/queues/orders');
    assert.deepEqual([states.new, states.failed], [many, 0]);
    assert.deepEqual(await recount('new'), ids);
  });

  test('an act has an address, and is in the list', async () => {
    assert.match(page.url(), /#\/acts\/1$/);
    await page.reload();
    await browser.shows('act-done', 'data-value', String(many));
    await page.click('main a >> text=Bulk actions');
    await browser.shows('act-1');
  });

  test('an act goes on when the server was killed', async () => {
    const { id, matched } = await ok('/acts', { move: 'cancel', filter: { queue: 'orders', state: 'new' } });
    assert.equal(matched, many);
    await poll('the act to be under way', async () => (await millrace.get(`/acts/${id}`)).done > 0);
    await millrace.kill();
    await millrace.begin();
    await poll('the act to end', async () => (await millrace.get(`/acts/${id}`)).state === 'finished');
    const { done, skipped, failed, left } = await millrace.get(`/acts/${id}`);
    assert.deepEqual({ done, skipped, failed, left }, { done: many, skipped: 0, failed: 0, left: 0 });
    assert.equal((await millrace.get('/queues/orders')).states.cancelled, many);
    assert.deepEqual(await recount('cancelled'), ids);
  });

  test('has thrown no errors', () => assert.deepEqual(browser.problems, []));
});
