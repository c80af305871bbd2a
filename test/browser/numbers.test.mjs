// What the funnel page says while events flow: all numbers of a stage, wherever
// they stand on the page, are of one snapshot.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { Millrace } from '../node/millrace.mjs';
import { Browser, skip } from './browser.mjs';

const samples = 100;
// How many different snapshots the samples have at least.
const different = 20;
const stages = ['crawled', 'indexed', 'classified', 'routed', 'published'];

describe('numbers of the funnel page', { skip }, () => {
  let millrace, browser, page;

  before(async () => {
    millrace = await Millrace.start({ MILLRACE_INGEST_RATE: '0' });
    browser = await Browser.open();
    page = browser.page;
    await page.setViewportSize({ width: 1440, height: 1200 });
    await page.goto(`http://${millrace.http}/`);
  });

  after(async () => {
    await browser?.close();
    await millrace?.stop();
  });

  let next = 0; // article

  /** Publishes until stopped: most articles once at each stage, every seventh twice. */
  function flow() {
    let running = true;
    const event = (n, stage, again) => ({
      article_url: `https://example.com/${n}`, source_name: 'flow', stage, service_name: again ? 'again' : 'first',
      occurred_at: new Date().toISOString(), idempotency_key: `${stage}-${n}-${again}`,
    });
    const done = (async () => {
      while (running) {
        const articles = Array.from({ length: 20 }, () => next++);
        const events = stages.flatMap((stage, i) => articles.filter((of) => of % (i + 1) === 0)
          .flatMap((of) => (of % 7 ? [event(of, stage, 0)] : [event(of, stage, 0), event(of, stage, 1)])));
        assert.equal((await millrace.send('/events/batch', { events })).status, 201);
        await pause(20);
      }
    })();
    return () => { running = false; return done; };
  }

  /** Takes what the page says at some moments, each time all of it at once. */
  const observe = (count) => page.evaluate(([of, least, names]) => new Promise((resolve) => {
    const number = (text) => Number(text.replaceAll(/[^0-9]/g, ''));
    const look = () => {
      const rows = new Map([...document.querySelectorAll('main table tbody tr')].map((row) => [row.cells[0].textContent.trim(), [...row.cells]]));
      const [first, last] = document.querySelector('.course').textContent.split('→');
      return {
        header: { first: number(first), last: number(last), share: document.querySelector('.overall b').textContent },
        pills: [...document.querySelectorAll('.flow .pill')].map((pill) => pill.textContent.trim()),
        stages: names.map((name, i) => {
          const card = (what) => document.querySelector(`[data-testid="stage-${name}-${what}"]`);
          const repeats = card('count').parentElement.querySelector('.repeats');
          const [, unique, count, again, share, end] = rows.get(name).map((cell) => cell.textContent.trim());
          const [, tipUnique, tipCount] = document.querySelectorAll('.flow title')[i].textContent.split('\n');
          return {
            unique: { card: number(card('unique').textContent), table: number(unique), tip: number(tipUnique), value: Number(card('unique').dataset.value) },
            count: { card: number(card('count').textContent), table: number(count), tip: number(tipCount), value: Number(card('count').dataset.value) },
            repeats: { card: repeats ? number(repeats.firstChild.textContent) : 0, table: number(again) },
            share, end,
          };
        }),
      };
    };
    const seen = [];
    const timer = setInterval(() => {
      seen.push(look());
      const snapshots = new Set(seen.map((sample) => sample.stages[0].count.value)).size;
      if ((seen.length < of || snapshots < least) && seen.length < 20 * of) return;
      clearInterval(timer);
      resolve(seen);
    }, 37);
  }), [count, different, stages]);

  /** What of a sample cannot be, in words. */
  function contradictions({ header, pills, stages: shown }) {
    const wrong = [];
    const same = (what, values) => { if (new Set(values).size > 1) wrong.push(`${what}: ${values.join(', ')}`); };
    shown.forEach(({ unique, count, repeats, share }, i) => {
      same(`${stages[i]} unique`, Object.values(unique));
      same(`${stages[i]} events`, Object.values(count));
      same(`${stages[i]} repeats`, [...Object.values(repeats), count.card - unique.card]);
      if (unique.card > count.card) wrong.push(`${stages[i]}: ${unique.card} unique of ${count.card} events`);
      if (i > 0) same(`${stages[i]} of previous`, [share, pills[i - 1]]);
    });
    same('first of the header', [header.first, shown[0].unique.card]);
    same('last of the header', [header.last, shown.at(-1).unique.card]);
    same('end to end', [header.share, shown.at(-1).end]);
    return wrong;
  }

  test(`agree in ${samples} samples of ${different} snapshots while events flow`, async () => {
    const stop = flow();
    await page.waitForFunction(() => document.querySelectorAll('.flow .pill').length === 4);
    const seen = await observe(samples);
    await stop();
    const snapshots = new Set(seen.map((sample) => sample.stages[0].count.value)).size;
    assert.ok(snapshots >= different, `only ${snapshots} snapshots came in ${seen.length} samples`);
    const wrong = seen.map(contradictions).filter((found) => found.length);
    assert.deepEqual(wrong.slice(0, 3), [], `${wrong.length} of ${seen.length} samples contradict themselves`);
  });

  test('are called old, with the time they are from, while ClickHouse stands still and events flow', async () => {
    await browser.shows('connection', 'data-state', 'live');
    const stop = flow();
    await page.waitForFunction(() => /^[\d,.]+\/s$/.test(document.querySelector('.pace .num').textContent.trim()));
    await page.evaluate(() => {
      globalThis.pretended = [];
      globalThis.watching = setInterval(() => {
        const state = document.querySelector('[data-testid="connection"]').dataset.state;
        const rates = [...document.querySelectorAll('.pace .num')].map((rate) => rate.textContent.trim());
        if (rates[0] === '0/s') globalThis.pretended.push(`${state}: ${rates.join(' ')}`);
      }, 50);
    });
    const stalled = Date.now();
    const resume = await millrace.stallClickHouse();
    try {
      await browser.shows('connection', 'data-state', 'stale');
      const since = Date.parse(await page.getAttribute('[data-testid="behind-notice"]', 'data-since'));
      // What was on its way when ClickHouse was stopped came a little before.
      assert.ok(since > stalled - 30_000 && since < Date.now(), `numbers are said to be from ${new Date(since)}, stopped ${new Date(stalled)}`);
      assert.match(await browser.text('behind-notice'), /Numbers are from \d\d:\d\d:\d\d, \d+ s ago\..*events that have come since\s+are not counted yet/s);
      await page.waitForFunction(() => document.querySelector('.pace .num').textContent.trim() === '–');
      assert.ok(await page.$('.shown.stale'), 'the numbers look as if they were of now');
      await page.goto(`http://${millrace.http}/#/queues`);
      await browser.shows('behind-notice');
      await browser.shows('connection', 'data-state', 'stale');
      await page.goto(`http://${millrace.http}/#/`);
    } finally {
      resume();
    }
    await browser.shows('connection', 'data-state', 'live');
    await page.waitForSelector('[data-testid="behind-notice"]', { state: 'detached' });
    await page.waitForSelector('.shown:not(.stale)');
    await stop();
    const pretended = await page.evaluate(() => { clearInterval(globalThis.watching); return globalThis.pretended; });
    assert.deepEqual(pretended, [], 'the page said that nothing came');
  });

  test('has thrown no errors', () => assert.deepEqual(browser.problems, []));
});
