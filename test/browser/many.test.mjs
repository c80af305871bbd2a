// The page over many sources and articles: what is planted among them is found.
// How heavy the page is and how long it takes is printed, and no failure.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Millrace, poll } from '../node/millrace.mjs';
import { Browser, skip } from './browser.mjs';

const [sources, articles, batch] = [10_000, 100_000, 1_000];
const planted = { source: 'the_needle_of_the_haystack', url: 'https://needle.example/article' };

describe(`the page over ${sources} sources and ${articles} articles`, { skip }, () => {
  let millrace, browser, page;

  before(async () => {
    // Batches come as fast as the server takes them.
    millrace = await Millrace.start({ MILLRACE_INGEST_RATE: '0' });
    await publish();
    browser = await Browser.open();
    page = browser.page;
  });

  after(async () => {
    await browser?.close();
    await millrace?.stop();
  });

  /** Every article is crawled, each tenth published, ten articles of each source. */
  async function publish() {
    const begun = Date.now();
    const at = (n) => new Date(begun - 2 * 3_600_000 + n * 10).toISOString();
    const event = (n, stage) => ({
      article_url: `https://site-${n % sources}.example/article-${n}`, source_name: `source_${String((n * 7_919) % sources).padStart(5, '0')}`,
      stage, service_name: 'many', occurred_at: at(n),
    });
    const send = async (events) => {
      const { status, body } = await millrace.send('/events/batch', { events });
      assert.ok(status < 300, JSON.stringify(body));
    };
    for (let from = 0; from < articles; from += batch) {
      await send(Array.from({ length: batch }, (_, i) => event(from + i, 'crawled')));
    }
    for (let from = 0; from < articles; from += 10 * batch) {
      await send(Array.from({ length: batch }, (_, i) => event(from + 10 * i, 'published')));
    }
    await send(['crawled', 'published'].map((stage) => ({
      article_url: planted.url, source_name: planted.source, stage, service_name: 'many', occurred_at: at(0),
    })));
    // A busy machine takes its time: what counts is that it goes on.
    for (let before = -1; ; ) {
      const { stream } = await millrace.get('/funnel?period=24h');
      if (stream.behind === 0) break;
      assert.ok(stream.folded_seq >= before);
      before = stream.folded_seq;
      await poll('the funnel to go on', async () => (await millrace.get('/funnel?period=24h')).stream.folded_seq > before);
    }
    console.log(`# published and counted in ${Date.now() - begun} ms`);
  }

  /** Opens a page, waits for what it shows, and prints what that took. */
  async function opens(path, selector) {
    await page.goto('about:blank');
    const begun = Date.now();
    await page.goto(`http://${millrace.http}/#${path}`);
    await page.waitForSelector(selector);
    const took = Date.now() - begun;
    const { requests, kilobytes, elements } = await page.evaluate(() => {
      const loaded = performance.getEntriesByType('resource');
      return {
        requests: loaded.length,
        kilobytes: Math.round(loaded.reduce((sum, entry) => sum + entry.transferSize, 0) / 1_000),
        elements: document.querySelectorAll('*').length,
      };
    });
    console.log(`# ${path}: ${took} ms, ${requests} requests, ${kilobytes} kB, ${elements} elements`);
    assert.ok(elements < 5_000, `${path} draws ${elements} elements`);
  }

  test('Funnel: counts all of them', async () => {
    await opens('/?period=24h', `[data-testid="stage-crawled-count"][data-value="${articles + 1}"]`);
  });

  test('Sources: one among all of them is found, in pages and by a part of its name', async () => {
    await opens('/sources?period=24h', '[data-testid^="source-source_"]');
    await browser.shows('source-count', 'data-value', sources + 1);
    await page.fill('[data-testid="source-search"]', 'NEEDLE of');
    await browser.shows(`source-${planted.source}`);
    await browser.shows('source-count', 'data-value', 1);
  });

  test('Articles: stuck ones, and one found by its URL', async () => {
    await opens('/articles?stage=crawled', '[data-testid="article"]');
    await page.fill('[data-testid="find-article"]', planted.url);
    await page.keyboard.press('Enter');
    await browser.shows('reached-published', 'data-value', '1');
  });

  test('Events: filtered by the source', async () => {
    await opens('/events', 'tr[data-testid^="event-"]');
    await opens(`/events?source=${planted.source}`, `tr[data-testid^="event-"] >> text=${planted.url}`);
    assert.equal(await page.locator('tr[data-testid^="event-"]').count(), 2);
  });

  test('Export: every event once, newest first, in each format', async () => {
    const events = articles + articles / 10 + 2;
    const file = async (format) => {
      const begun = Date.now();
      const answer = await fetch(`http://${millrace.http}/api/v1/events/export?format=${format}`);
      const content = Buffer.from(await answer.arrayBuffer());
      console.log(`# export as ${format}: ${Date.now() - begun} ms, ${Math.round(content.length / 1_000)} kB`);
      assert.equal(answer.status, 200);
      return content;
    };
    const lines = (await file('ndjson')).toString().trim().split('\n').map((line) => JSON.parse(line));
    assert.equal(new Set(lines.map((line) => line.seq)).size, events);
    assert.equal(lines.length, events);
    const at = (line) => Date.parse(line.occurred_at);
    assert.ok(lines.every((line, i) => !i || at(line) <= at(lines[i - 1])));
    assert.equal((await file('csv')).toString().trim().split('\r\n').length, 1 + events);
    assert.equal((await file('parquet')).subarray(-4).toString(), 'PAR1');
  });

  test('the palette finds the source', async () => {
    await page.keyboard.press('Control+k');
    await page.fill('[data-testid="palette-input"]', 'needle');
    await browser.shows(`goal-source ${planted.source}`);
  });

  test('has thrown no errors', () => assert.deepEqual(browser.problems, []));
});
