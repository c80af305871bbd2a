// The page Batches over many batches, with errors of every kind: the newest are shown, all are counted, and one is
// found among them. How heavy the page is and how long it takes is printed, and no failure. With SHOTS=folder each
// page is saved as a picture.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Millrace, poll } from '../node/millrace.mjs';
import { publishRaw } from '../node/raw.mjs';
import { Browser, skip } from './browser.mjs';

const [many, jobs] = [10_000, 100];
/** Of the items of each batch. Every tenth batch is all errors, and every seventh none. */
const codes = ['', '', '', 'CONTENT_REMOVED', 'INVALID_URL'];
const planted = { job_id: 'proj_needle-brand-0', batch_index: 7, platform: 'youtube' };
const items = (n, mine) => mine.map((error_code, position) => ({
  content_id: `item-${n}-${position}`, crawled_at: '2026-02-10T14:30:00Z', permalink: `https://example.com/v/${n}/${position}`,
  ...(error_code ? { fetch_status: 'error', error_code, fetch_error: `${error_code} of item ${position} at https://example.com/v/${n}` } : { fetch_status: 'success' }),
}));
const codesOf = (n) => (n % 10 === 0 ? codes.map(() => 'CONTENT_REMOVED') : n % 7 === 0 ? codes.map(() => '') : codes);
const batch = (n) => ({
  job_id: `proj_${n % 20}-a brand whose name is not short at all-${n % jobs}`, batch_index: Math.floor(n / jobs), platform: n % 3 ? 'tiktok' : 'youtube',
  items: items(n, codesOf(n)),
});

describe(`the page over ${many} batches`, { skip }, () => {
  let millrace, browser, page;
  const all = Array.from({ length: many }, (_, n) => batch(n));
  const errors = all.flatMap((one) => one.items).filter((item) => item.error_code).length;

  before(async () => {
    millrace = await Millrace.start();
    const begun = Date.now();
    await publish(all);
    const stored = async () => (await millrace.get('/batches/summary')).batches;
    for (let seen = 0; seen < many; ) { // a busy machine takes its time: what counts is that it goes on
      await poll('further batches to be stored', async () => (await stored()) > seen);
      seen = await stored();
    }
    console.log(`# read and stored in ${Date.now() - begun} ms`);
    await publish([{ ...planted, items: items('needle', ['', 'CONTENT_UNAVAILABLE', '']) }]);
    await poll('the last batch to be stored', async () => (await stored()) === many + 1);
    browser = await Browser.open();
    page = browser.page;
  });

  after(async () => {
    await browser?.close();
    await millrace?.stop();
  });

  const publish = (some) => publishRaw(millrace.nats, some.map((one) => ['batches.data.collected', JSON.stringify(one)]));

  /** Opens a page, waits for what it shows, and prints what that took. */
  async function opens(path, selector) {
    await page.goto('about:blank');
    const begun = Date.now();
    await page.goto(`http://${millrace.http}/#${path}`);
    await page.waitForSelector(selector, { state: 'attached' });
    const took = Date.now() - begun;
    const elements = await page.evaluate(() => document.querySelectorAll('*').length);
    console.log(`# ${path}: ${took} ms, ${elements} elements`);
    assert.ok(elements < 5_000, `${path} draws ${elements} elements`);
  }

  test('counts all of them, with their errors, and shows the newest', async () => {
    await opens('/batches', `[data-testid="batch-count"][data-value="${many + 1}"]`);
    await page.waitForSelector('[data-testid="batch"]:first-child >> text=proj_needle-brand-0');
    await page.waitForSelector('[data-testid="error-group"]');
    const shown = await page.$$eval('[data-testid="error-code"] td.n:nth-of-type(2)', (cells) => cells.map((cell) => Number(cell.textContent.replaceAll(/\D/g, ''))));
    assert.equal(shown.reduce((a, b) => a + b, 0), errors + 1);
    assert.equal(await page.locator('[data-testid="batch"]').count(), 50);
  });

  test('goes through them in pages, each batch once', async () => {
    const seen = new Set();
    for (let i = 1; i <= 4; i++) {
      for (const row of await page.$$eval('[data-testid="batch"]', (rows) => rows.map((r) => `${r.cells[0].textContent} ${r.cells[1].textContent}`))) seen.add(row);
      const first = await page.textContent('[data-testid="batch"]:first-child');
      await browser.click('next-page');
      await page.waitForFunction((before) => document.querySelector('[data-testid="batch"]')?.textContent !== before, first);
    }
    assert.equal(seen.size, 200);
  });

  test('finds one by its job, and one item by its id', async () => {
    await opens(`/batches?job=${planted.job_id}`, '[data-testid="batch-count"][data-value="1"]');
    await opens(`/batches/${planted.job_id}/${planted.batch_index}`, '[data-testid="crawled-item"]');
    await opens('/batch-items/item-needle-1', '[data-testid="crawled-item"] >> text=CONTENT_UNAVAILABLE');
  });

  test('filters them by their state', async () => {
    await opens('/batches?state=failed', `[data-testid="batch-count"][data-value="${many / 10}"]`);
  });

  test('shows a batch that comes while it is open', async () => {
    await opens('/batches', `[data-testid="batch-count"][data-value="${many + 1}"]`);
    await publish([{ ...planted, batch_index: 8, items: items('late', ['']) }]);
    await browser.shows('batch-count', 'data-value', many + 2);
  });

  for (const width of [360, 1280]) {
    test(`has room for everything at ${width} px`, async () => {
      const wrong = [];
      await page.setViewportSize({ width, height: 900 });
      for (const path of ['/batches', `/batches?job=${encodeURIComponent(all[0].job_id)}`]) {
        await opens(path, '[data-testid="error-group"]');
        await page.waitForSelector('[data-testid="batch"]');
        const by = await browser.overflow();
        if (by > 0) wrong.push(`${path}: scrolls ${by} px sideways`);
        for (const what of await browser.misplaced({ tables: width >= 1280 })) wrong.push(`${path}: ${what}`);
        if (process.env.SHOTS) {
          await page.screenshot({ path: `${process.env.SHOTS}/many-${width}${path.replaceAll(/[^a-z0-9]+/gi, '-').slice(0, 20)}.png`, fullPage: true });
        }
      }
      assert.deepEqual(wrong, []);
    });
  }

  test('has thrown no errors', () => assert.deepEqual(browser.problems, []));
});
