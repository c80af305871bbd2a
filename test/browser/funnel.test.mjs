// The page in a real browser: it shows the funnel, follows it, says when the
// connection is lost, and picks up again by itself.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Millrace } from '../node/millrace.mjs';
import { Browser, skip } from './browser.mjs';

describe('the page', { skip }, () => {
  let millrace, browser, page;

  before(async () => {
    millrace = await Millrace.start();
    browser = await Browser.open();
    page = browser.page;
    await page.goto(`http://${millrace.http}/`);
  });

  after(async () => {
    await browser?.close();
    await millrace?.stop();
  });

  const shows = (...what) => browser.shows(...what);

  const event = (stage, n, metadata) => ({
    article_url: `https://example.com/${n}`, source_name: 'browser_test', stage, service_name: 'browser',
    occurred_at: new Date().toISOString(), metadata,
  });

  test('says that nothing has happened yet', async () => {
    await shows('connection', 'data-state', 'live');
    await page.waitForSelector('[data-testid="empty"]');
  });

  test('shows numbers, and follows events without being loaded again', async () => {
    await page.evaluate(() => { globalThis.stillTheSamePage = true; });
    for (const [stage, n] of [['crawled', 1], ['crawled', 2], ['crawled', 2], ['indexed', 1]]) {
      assert.equal(await millrace.post(event(stage, n)), 201);
    }
    await shows('stage-crawled-count', 'data-value', '3');
    await shows('stage-crawled-unique', 'data-value', '2');
    await shows('stage-indexed-count', 'data-value', '1');
    await shows('stage-published-count', 'data-value', '0');
    await page.waitForSelector('[data-testid="updated"]');

    assert.equal(await millrace.post(event('indexed', 2)), 201);
    await shows('stage-indexed-count', 'data-value', '2');
    await shows('stage-indexed-unique', 'data-value', '2');
    assert.equal(await page.evaluate(() => globalThis.stillTheSamePage), true);
  });

  test('shows how articles fare, and compares model versions', async () => {
    for (const [version, n] of [['v1', 1], ['v2', 1], ['v2', 2]]) {
      const metadata = { model_version: version, quality_score: 60 + n, topics: ['news'], is_reclassification: version === 'v2' };
      assert.equal(await millrace.post(event('classified', n, metadata)), 201);
    }
    await shows('vital-reclassifications', 'data-value', '1');
    await page.waitForSelector('[data-testid="vital-end-to-end"]');
    await page.click('nav >> text=Drift');
    await page.waitForSelector('[data-testid="version-v2"]');
    await shows('quality-delta', 'data-value', '0.5');
    await shows('drift-verdict', 'data-value', 'insufficient_data');
    await page.click('nav >> text=Funnel');
    await shows('stage-classified-count', 'data-value', '3');
  });

  test('says that the connection is lost, keeps its numbers, and picks up by itself', async () => {
    await millrace.kill();
    await shows('connection', 'data-state', 'lost');
    await page.click('[data-testid="period-24h"]');
    await page.click('[data-testid="period-today"]');
    await shows('stage-crawled-count', 'data-value', '3');
    await shows('vital-reclassifications', 'data-value', '1');
    await millrace.begin();
    assert.equal(await millrace.post(event('crawled', 3)), 201);
    await shows('connection', 'data-state', 'live');
    await shows('stage-crawled-count', 'data-value', '4');
    assert.equal(await page.evaluate(() => globalThis.stillTheSamePage), true);
  });

  test('is there with its last numbers when it is loaded while the server is away', async () => {
    await page.evaluate(async () => { await navigator.serviceWorker.ready; });
    await page.reload();
    await shows('stage-crawled-count', 'data-value', '4');
    // The storage is written at intervals.
    await page.waitForFunction(() => sessionStorage.getItem('millrace.answers')?.includes('"count":4'));
    await millrace.kill();
    await page.reload();
    await shows('connection', 'data-state', 'lost');
    await shows('lost');
    await page.waitForSelector('[data-testid="as-of"], [data-testid="stale"]');
    await shows('stage-crawled-count', 'data-value', '4');
    await millrace.begin();
    await shows('connection', 'data-state', 'live');
  });

  test('has thrown no errors', () => assert.deepEqual(browser.problems, []));
});
