// Errors of batches: found, and tried again, by an item, a group, a batch and
// a filter, in a real browser.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Millrace, poll } from '../node/millrace.mjs';
import { Browser, skip } from './browser.mjs';
import { batches } from './world.mjs';

describe('Batches', { skip }, () => {
  let millrace, browser, page;

  const goto = async (path) => {
    await page.goto(`http://${millrace.http}/#${path}`);
    await page.waitForFunction((wanted) => decodeURI(location.hash.slice(1)) === wanted, path);
  };
  const batch = (index) => millrace.get(`/batches/proj_x-brand-0/${index}`);
  const confirmed = async (title) => {
    await page.waitForSelector(`[data-testid="confirm"] h2 >> text=${title}`);
    await browser.click('confirm-act');
    await browser.shows('act-state', 'data-value', 'finished');
  };

  before(async () => {
    millrace = await Millrace.start();
    await batches(millrace);
    browser = await Browser.open();
    page = browser.page;
    await page.goto(`http://${millrace.http}/`);
  });

  after(async () => {
    await browser?.close();
    await millrace?.stop();
  });

  test('shows items over time, and the same as a table', async () => {
    await goto('/batches');
    await browser.shows('batch-count', 'data-value', '3');
    await browser.shows('course');
    await page.click('[data-testid="course"] summary');
    const steps = await page.$$eval('[data-testid="course-step"] td', (all) => all.map((cell) => Number(cell.textContent)));
    const sum = (column) => steps.filter((_, i) => i % 5 === column).reduce((a, b) => a + b, 0);
    assert.deepEqual([0, 1, 2, 3, 4].map(sum), [3, 18, 9, 0, 9]);
  });

  test('one item is tried again, once', async () => {
    await goto('/batches/proj_x-brand-0/0');
    await browser.shows('crawled-item');
    await page.click('[data-testid="retry-item"] >> nth=0');
    await browser.shows('retrying');
    await poll('the item to be tried again', async () => (await batch(0)).retrying === 1);
    assert.equal((await batch(0)).error, 2);
  });

  test('the errors of a batch are tried again together, by their code', async () => {
    await goto('/batches/proj_x-brand-0/1');
    await browser.click('retry-CONTENT_REMOVED');
    await confirmed('Retry 2 errors?');
    await page.waitForSelector('main >> text=CONTENT_REMOVED errors of batch 1 of the job proj_x-brand-0');
    const { error, retrying } = await batch(1);
    assert.deepEqual([error, retrying], [1, 2]);
  });

  test('a group of errors is tried again, and then all that a filter matches', async () => {
    await goto('/batches?job=proj_x-brand-0');
    const group = page.locator('[data-testid="error-group"]', { hasText: 'INVALID_URL' });
    await group.locator('[data-testid="retry-group"]').click();
    await confirmed('Retry 2 errors?'); // the third one is being tried again
    await goto('/batches?job=proj_x-brand-0');
    await browser.click('retry-errors');
    await page.waitForSelector('[data-testid="confirm"] >> text=errors of the job proj_x-brand-0');
    await confirmed('Retry 4 errors?');
    for (const index of [0, 1, 2]) {
      const { ok, error, retrying } = await batch(index);
      assert.deepEqual([ok, error, retrying], [3, 0, 3]);
    }
    await goto('/acts');
    await page.waitForSelector('main td >> text=retry errors of the job proj_x-brand-0');
  });

  test('what cannot be tried again is told', async () => {
    await page.route('**/items/*/retry', (route) =>
      route.fulfill({ status: 404, contentType: 'application/problem+json', body: '{"title":"Not Found","status":404,"detail":"it is no error"}' }));
    await goto('/batches/proj_x-brand-0/2');
    await page.waitForSelector('[data-testid="retry-item"]');
    await page.click('[data-testid="retry-item"] >> nth=0');
    await page.waitForSelector('main >> text=The item is not tried again.');
    await page.unroute('**/items/*/retry');
  });

  test('no page breaks a rule of accessibility', async () => {
    const broken = [];
    for (const path of ['/batches', '/batches/proj_x-brand-0/1', '/batch-items/item-1-4', '/acts']) {
      await goto(path);
      await page.reload();
      await page.waitForSelector('main table:visible');
      for (const line of await browser.violations()) broken.push(`${path}: ${line}`);
    }
    assert.deepEqual(broken, []);
  });

  test('has thrown no errors', () => assert.deepEqual(browser.problems, []));
});
