// Every page of a server with something on each, and every act on it, in a
// real browser.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { stable } from '../../query/dashboard/build/api.mjs';
import { Millrace, poll } from '../node/millrace.mjs';
import { Browser, schemes, skip } from './browser.mjs';
import { events, files, letters, long, queues, url } from './world.mjs';

describe('the pages', { skip }, () => {
  let millrace, browser, page;
  let hash = '';

  const goto = async (path) => {
    await page.goto(`http://${millrace.http}/#${path}`);
    await page.waitForFunction((wanted) => decodeURI(location.hash.slice(1)) === wanted, path);
  };
  const shows = (...what) => browser.shows(...what);
  const click = (testid) => browser.click(testid);
  const confirm = () => browser.click('confirm-act');

  before(async () => {
    millrace = await Millrace.start();
    hash = await events(millrace);
    await queues(millrace);
    await files(millrace);
    await letters(millrace);
    await millrace.caughtUp();
    browser = await Browser.open();
    page = browser.page;
    await page.goto(`http://${millrace.http}/`);
  });

  after(async () => {
    await browser?.close();
    await millrace?.stop();
  });

  test('the API is as openapi.json says; if not, run "npm run api -- ADDRESS" in query/dashboard', async () => {
    const given = await (await fetch(`http://${millrace.http}/openapi.json`)).json();
    const known = JSON.parse(await readFile(new URL('../../query/dashboard/openapi.json', import.meta.url), 'utf8'));
    assert.deepEqual(stable(given), known);
  });

  test('Queues: shows depth and failures, and an item with what happened to it', async () => {
    await goto('/queues');
    await page.waitForSelector('[data-testid="queue-mail"] [data-testid="ready"][data-value="10"]');
    await page.waitForSelector('[data-testid="queue-mail"] [data-testid="failed"][data-value="3"]');
    await page.fill('[data-testid="queue-filter"]', 'mai');
    await page.waitForSelector('[data-testid="queue-shard-worker"]', { state: 'detached' });
    assert.match(page.url(), /q=mai/);
    await page.click('[data-testid="queue-mail"] a');
    await click('state-failed');
    await page.waitForSelector('[data-testid="failure"] >> text=‹n› no such user ‹n›');
    assert.equal(await page.locator('[data-testid="failure"]').count(), 2);
    await page.click('[data-testid^="item-"] a');
    await shows('item-state', 'data-value', 'failed');
    await page.waitForSelector('td >> text=550 no such user 17');
    await click('retry-item');
    await confirm();
    await shows('item-state', 'data-value', 'new');
  });

  test('Queues: pauses, limits, resumes, and retries what has failed, with its number', async () => {
    await goto('/queues/mail?state=failed');
    await shows('failed', 'data-value', '2');
    await click('pause');
    await confirm();
    await poll('the queue to be paused', async () => (await millrace.get('/queues/mail')).paused);
    await click('limits');
    await page.fill('[data-testid="limit-concurrency"]', '7');
    await click('limits-save');
    await poll('the limit', async () => (await millrace.get('/queues/mail')).concurrency === 7);
    await click('resume');
    await poll('the queue to go on', async () => !(await millrace.get('/queues/mail')).paused);
    await click('retry-failed');
    await page.waitForSelector('[data-testid="confirm"] h2 >> text=Retry 2 items?');
    await confirm();
    await shows('act-state', 'data-value', 'finished');
    await shows('act-done', 'data-value', '2');
    assert.equal((await millrace.get('/queues/mail')).states.failed, 0);
    await page.click('main a >> text=Go to mail');
    await shows('failed', 'data-value', '0');
    await click('state-new');
    await page.click('[data-testid^="item-"] a');
    await click('cancel-item');
    await confirm();
    await shows('item-state', 'data-value', 'cancelled');
  });

  test('Queues: an item is tried again with another payload, whose numbers stay as they are', async () => {
    await click('replay-item');
    await page.waitForFunction(() => document.querySelector('[data-testid="payload"]').value.includes('@example.com'));
    await page.fill('[data-testid="payload"]', '{"order": 9007199254740993');
    assert.equal(await page.isDisabled('[data-testid="confirm-act"]'), true);
    await page.fill('[data-testid="payload"]', '{"order": 9007199254740993}');
    await confirm();
    await shows('item-state', 'data-value', 'new');
    await shows('payload-before');
    await click('cancel-item');
    await confirm();
    await click('replay-item');
    await page.waitForFunction(() => document.querySelector('[data-testid="payload"]').value.includes('9007199254740993'));
    await page.keyboard.press('Escape');
    await page.waitForSelector('[data-testid="confirm"]', { state: 'detached' });
  });

  test('Queues: items are found by what their payloads hold, by attempts before, and by what has not changed', async () => {
    const rows = () => page.locator('tr[data-testid^="item-"]');
    await goto('/queues/mail?state=new');
    await page.waitForFunction(() => document.querySelectorAll('tr[data-testid^="item-"]').length > 8);
    await page.fill('[data-testid="payload"]', '12@EXAMPLE');
    await page.waitForResponse(/queues.mail.items/); // what is typed stays while the list is drawn anew
    await page.evaluate(() => new Promise(requestAnimationFrame));
    await page.keyboard.press('Enter');
    await page.waitForFunction(() => document.querySelectorAll('tr[data-testid^="item-"]').length === 1);
    assert.match(await rows().textContent(), /order-12/);
    assert.match(page.url(), /payload=12@EXAMPLE/);
    await page.waitForSelector('[data-testid="cancel-all"]', { state: 'detached' });
    await page.fill('[data-testid="payload"]', '');
    await page.keyboard.press('Enter');
    await page.waitForSelector('[data-testid="cancel-all"]');
    await click('retried');
    await page.waitForFunction(() => {
      const shown = [...document.querySelectorAll('tr[data-testid^="item-"]')];
      return shown.length > 0 && shown.every((row) => row.children[4].textContent !== '0');
    });
    await page.selectOption('[data-testid="unchanged"]', '1d');
    await page.waitForSelector('main >> text=No item is new and passes these filters.');
  });

  test('Queues: what a worker says that it is at stands at the item', async () => {
    const { body } = await millrace.send('/queues/mail/take', { worker: 'host-7', limit: 1 });
    const [{ id, generation }] = body.items;
    const said = await millrace.send(`/queues/mail/items/${id}/extend`, { generation, progress: '3 of 10 sent' });
    assert.equal(said.status, 200, JSON.stringify(said.body));
    await goto('/queues/mail?state=started');
    await page.waitForSelector(`[data-testid="item-${id}"] [data-testid="progress"] >> text=3 of 10 sent`);
    await goto(`/queues/mail/items/${id}`);
    await page.waitForSelector('[data-testid="progress"] >> text=3 of 10 sent');
    await millrace.send(`/queues/mail/items/${id}/release`, { generation });
    await page.waitForSelector('[data-testid="progress"]', { state: 'detached' });
  });

  test('Dead letters: by rule, with their bodies; replayed and deleted after saying what would be done', async () => {
    await goto('/letters');
    await shows('letter-count', 'data-value', '3');
    await page.click('[data-testid="group-stage_unknown"] a');
    await page.waitForFunction(() => document.querySelectorAll('[data-testid^="letter-"] th').length === 2);
    await page.click('tr[data-testid^="letter-"] a');
    await page.waitForSelector('[data-testid="letter-body"] >> text=cooked');
    await page.goBack();
    await click('replay');
    await shows('plan-kept', 'data-value', '2');
    assert.equal(await page.isDisabled('[data-testid="confirm-act"]'), true);
    await page.keyboard.press('Escape');
    await click('purge');
    await shows('plan', 'data-value', '2');
    assert.equal(await page.textContent('[data-testid="confirm-act"]'), 'Delete 2 dead letters');
    await confirm();
    assert.match(await browser.text('outcome'), /2 dead letters deleted/);
    await poll('the letters to be gone', async () => (await millrace.get('/dlq')).letters.length === 1);
    await shows('letter-count', 'data-value', '1');
  });

  test('Events: newest first, filtered, in pages, and paused', async () => {
    await page.mouse.move(0, 0);
    await goto('/events?stage=crawled');
    await shows('running', 'data-value', 'true');
    await page.waitForFunction(() => document.querySelectorAll('tr[data-testid^="event-"]').length === 50);
    await page.hover('tr[data-testid^="event-"]');
    await shows('running', 'data-value', 'false');
    await page.mouse.move(0, 0);
    await shows('running', 'data-value', 'true');
    await click('next-page');
    await page.waitForFunction(() => document.querySelectorAll('tr[data-testid^="event-"]').length === 11);
    await page.goBack();
    await page.waitForFunction(() => document.querySelectorAll('tr[data-testid^="event-"]').length === 50);
    await click('pause-events');
    await shows('running', 'data-value', 'false');
    await click('export');
    const [saved] = await Promise.all([page.waitForEvent('download'), click('export-csv')]);
    assert.match(saved.suggestedFilename(), /^events-\d{8}T\d{6}Z\.csv$/);
    const lines = (await readFile(await saved.path(), 'utf8')).trim().split('\r\n');
    assert.equal(lines.length, 1 + 61); // those of all pages that pass the filter, and the heading
    assert.ok(lines.slice(1).every((line) => line.includes(',crawled,')));
    await goto('/events?trace=trace-999');
    await page.waitForFunction(() => document.querySelectorAll('tr[data-testid^="event-"]').length === 5);
    await page.click('tr[data-testid^="event-"] a');
    await page.waitForSelector('pre >> text="step": 4');
  });

  test('Articles: stuck and slow ones, and one found by its URL with its journey', async () => {
    await goto('/articles?stage=indexed');
    await page.waitForFunction(() => document.querySelectorAll('[data-testid="article"]').length === 50);
    await click('slowest');
    await page.waitForFunction(() => document.querySelectorAll('[data-testid="article"]').length === 1);
    await page.fill('[data-testid="find-article"]', 'https://example.com/none');
    await page.keyboard.press('Enter');
    await page.waitForSelector('[data-testid="find-answer"] >> text=No event names the URL');
    await page.fill('[data-testid="find-article"]', url(999));
    await page.keyboard.press('Enter');
    await shows('reached-published', 'data-value', '1');
    assert.ok(page.url().includes(hash));
    await page.waitForSelector('[data-testid="reached-classified"] >> text=+2 min');
  });

  test('Articles: all that a filter finds are saved as a file', async () => {
    await goto('/articles?stage=indexed');
    await page.waitForFunction(() => document.querySelectorAll('[data-testid="article"]').length === 50);
    await click('export');
    const [saved] = await Promise.all([page.waitForEvent('download'), click('export-ndjson')]);
    assert.match(saved.suggestedFilename(), /^articles-\d{8}T\d{6}Z\.ndjson$/);
    const lines = (await readFile(await saved.path(), 'utf8')).trim().split('\n').map((line) => JSON.parse(line));
    assert.equal(new Set(lines.map((line) => line.article_url)).size, 60);
    assert.ok(lines.every((line) => line.stage === 'indexed'));
  });

  test('Sources: found by a part of their name', async () => {
    await goto('/sources');
    await page.waitForSelector('[data-testid="source-example_com"] svg path[d*="v-22"]');
    await click('export');
    const [saved] = await Promise.all([page.waitForEvent('download'), click('export-csv')]);
    const [head, ...rows] = (await readFile(await saved.path(), 'utf8')).trim().split('\r\n');
    assert.match(head, /^rank,name,count,/);
    assert.deepEqual(rows.map((row) => row.split(',').slice(0, 3)), [['1', 'example_com', '113'], ['2', long, '12']]);
    await page.fill('[data-testid="source-search"]', 'much longer');
    await page.waitForSelector('[data-testid="source-example_com"]', { state: 'detached' });
    await page.click(`[data-testid="source-${long}"] >> text=funnel`);
    await shows('stage-crawled-unique', 'data-value', '12');
  });

  test('Funnel: beside the period before, of which it says that there is none', async () => {
    await goto('/?period=24h');
    await click('compare');
    await page.waitForSelector('[data-testid="compare-none"] >> text=Nothing was counted in the period before');
    assert.match(page.url(), /compare=before/);
    await goto('/?period=24h&compare=nothing');
    await shows('address-wrong');
    await page.waitForSelector('[data-testid="compare-none"]', { state: 'detached' });
  });

  test('System: what is up, and how far behind', async () => {
    await goto('/system');
    await shows('readiness', 'data-value', 'ready');
    await shows('check-nats', 'data-value', 'up');
    await shows('behind', 'data-value', '0');
  });

  test('Files: by status, and one with its shards at each stage', async () => {
    await goto('/files');
    await shows('file-20250102000000');
    await page.selectOption('[data-testid="file-status"]', 'failed');
    await page.waitForSelector('[data-testid="file-20250102000000"]', { state: 'detached' });
    await page.click('[data-testid="file-20250101000000"] a');
    await page.waitForSelector('[data-testid="shard-1"] >> text=the shard is torn');
  });

  test('Files: failed shards of a file are retried, and a file is cancelled', async () => {
    await goto('/files/20250101000000');
    await click('retry-file');
    await page.waitForSelector('[data-testid="confirm"] h2 >> text=Retry 1 shard?');
    await confirm();
    await shows('act-done', 'data-value', '1');
    await page.click('main a >> text=Go to 20250101000000');
    await page.waitForSelector('[data-testid="shard-1"]');
    await page.waitForSelector('[data-testid="retry-file"]', { state: 'detached' });
    await goto('/files/20250102000000');
    await click('cancel-file');
    await confirm();
    await page.waitForSelector('main header >> text=cancelled');
    assert.equal(await page.locator('[data-testid="cancel-file"]').count(), 0);
  });

  test('the palette goes to pages, articles, queues, files and sources', async () => {
    const find = async (text, goal) => {
      await page.keyboard.press('Control+k');
      await page.fill('[data-testid="palette-input"]', text);
      // Enter goes to what is highlighted.
      await page.waitForSelector(`[data-testid="goal-${goal}"][data-highlighted]`);
      await page.keyboard.press('Enter');
      await page.waitForSelector('[data-testid="palette"]', { state: 'detached' });
    };
    await page.mouse.move(0, 0);
    await goto('/');
    await find('dead', 'page letters');
    await page.waitForFunction(() => location.hash.startsWith('#/letters'));
    await find(url(999), 'article');
    await shows('reached-published');
    await find('mail', 'queue mail');
    await page.waitForFunction(() => location.hash.startsWith('#/queues/mail'));
    await find('20250102', 'file 20250102000000');
    await shows('shard-0');
    await find('example_c', 'source example_com');
    await page.waitForFunction(() => location.hash.includes('source=example_com'));
  });

  test('a source and a zone are chosen by typing, and the focus stays', async () => {
    await goto('/?period=24h');
    await click('source-filter');
    await page.waitForSelector('[role="option"] >> text=All');
    await page.keyboard.type('much longer');
    await page.waitForSelector(`[role="option"][data-highlighted] >> text=${long}`);
    await page.keyboard.press('Enter');
    await shows('source-filter', 'data-value', long);
    assert.equal(await page.evaluate(() => document.activeElement.dataset.testid), 'source-filter');
    await page.keyboard.press('Tab');
    await click('timezone');
    await page.keyboard.type('kathm');
    await page.waitForSelector('[role="option"][data-highlighted] >> text=Asia/Kathmandu');
    await page.keyboard.press('Enter');
    await shows('timezone', 'data-value', 'Asia/Kathmandu');
    assert.match(page.url(), /tz=Asia\/Kathmandu/);
    await page.click('[aria-label="Clear: Source"]');
    await shows('source-filter', 'data-value', '');
  });

  test('keys: pages by two letters, the list of shortcuts, the way past the rail', async () => {
    await goto('/');
    await page.reload();
    await shows('connection', 'data-state', 'live');
    await page.keyboard.press('Tab');
    assert.match(await page.evaluate(() => document.activeElement.textContent), /Skip to the content/);
    await page.keyboard.press('Enter');
    assert.equal(await page.evaluate(() => document.activeElement.id), 'main');
    await page.keyboard.press('?');
    await shows('shortcuts');
    await page.keyboard.press('Escape');
    await page.waitForSelector('[data-testid="shortcuts"]', { state: 'detached' });
    await page.keyboard.press('g');
    await page.keyboard.press('q');
    await page.waitForFunction(() => location.hash.startsWith('#/queues'));
  });

  test('an address that cannot be is answered in words', async () => {
    await goto('/?period=8d&tz=Mars/Olympus&colour=red');
    const wrong = await (await shows('address-wrong')).textContent();
    for (const part of ['period=8d must be one of today, 24h, 7d, 30d', 'Mars/Olympus', 'colour is not a parameter']) assert.ok(wrong.includes(part), wrong);
    await goto('/nowhere');
    await page.waitForSelector('h1 >> text=There is no page');
    await goto('/queues/none');
    await page.waitForSelector('text=There is no queue “none”');
  });

  test('acts show only with the scopes of the token', async () => {
    const token = (scope) => `e30.${Buffer.from(JSON.stringify({ scope })).toString('base64url')}.x`;
    await page.evaluate((value) => sessionStorage.setItem('millrace.token', value), token('read'));
    await goto('/queues/mail');
    await page.reload();
    await shows('ready');
    assert.equal(await page.locator('[data-testid="pause"], [data-testid="retry-failed"]').count(), 0);
    await goto('/acts/1');
    await shows('act-done');
    assert.equal(await page.locator('nav >> text=Dead letters').count(), 0);
    await goto('/letters');
    await shows('needs-admin');
    await page.evaluate(() => sessionStorage.removeItem('millrace.token'));
    await page.reload();
    await shows('letter-count');
  });

  const paths = ['/?period=24h&compare=before', '/articles?stage=indexed', '/events', '/sources', '/drift', '/queues', '/queues/mail?state=new', '/files', '/files/20250101000000', '/acts', '/acts/1', '/letters', '/system'];
  // Schemes differ in their colours alone.
  for (const [scheme, colours] of schemes) {
    test(`no page breaks a rule of accessibility or scrolls sideways, ${scheme}`, async () => {
      await page.evaluate((value) => localStorage.setItem('millrace.theme', value), scheme);
      const broken = [];
      for (const path of [...paths, `/articles/${hash}`]) {
        await page.setViewportSize({ width: 1440, height: 900 });
        await goto(path);
        await page.reload();
        await page.waitForSelector('main table, main [data-testid="nothing"], main [data-testid="act-done"]');
        for (const line of await browser.violations({ colours })) broken.push(`${path}: ${line}`);
        for (const width of [390, 768, 1024, 1920]) {
          await page.setViewportSize({ width, height: 900 });
          const by = await browser.overflow();
          if (by > 0) broken.push(`${path}: scrolls ${by} px sideways at ${width}`);
        }
      }
      const check = async (what) => broken.push(...(await browser.violations({ colours })).map((line) => `${what}: ${line}`));
      await page.setViewportSize({ width: 390, height: 800 });
      await goto('/?period=24h');
      await shows('connection', 'data-state', 'live');
      await check('on a phone');
      await click('menu');
      await page.waitForSelector('[role="dialog"] nav');
      await check('the menu');
      await page.keyboard.press('Escape');
      await page.setViewportSize({ width: 1440, height: 900 });
      await click('fold');
      await check('with the rail folded');
      await click('fold');
      for (const [open, shown] of [['open-palette', 'palette'], ['source-filter', null], ['theme', null]]) {
        await click(open);
        await page.waitForSelector(shown ? `[data-testid="${shown}"]` : '[role="option"], [role="menuitemradio"]');
        await check(open);
        await page.keyboard.press('Escape');
      }
      await goto('/queues/mail?state=new');
      for (const [open, shown] of [['pause', 'confirm'], ['limits', 'limits-dialog']]) {
        await click(open);
        await shows(shown);
        await check(shown);
        await page.keyboard.press('Escape');
        await page.waitForSelector(`[data-testid="${shown}"]`, { state: 'detached' });
      }
      assert.deepEqual(broken, []);
    });
  }

  test('the API reference sends requests to where the API is, and has a way back', async () => {
    await page.setViewportSize({ width: 390, height: 800 });
    await page.goto(`http://${millrace.http}/docs#get-/funnel/sources`);
    const button = 'rapi-doc >> [part~="btn-try"]';
    await page.waitForSelector(button);
    const [request] = await Promise.all([
      page.waitForRequest((sent) => sent.url().includes('/funnel/sources')),
      page.click(button),
    ]);
    assert.ok(request.url().startsWith(`http://${millrace.http}/api/v1/funnel/sources`), request.url());
    assert.equal((await request.response()).status(), 200);
    await page.click('.back');
    await shows('connection');
  });

  test('has thrown no errors', () => assert.deepEqual(browser.problems, []));
});
