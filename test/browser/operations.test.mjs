// Source operations over as many sources as a real installation has: found,
// changed, made, deleted, imported, exported, and all of them at once.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { Millrace, poll } from '../node/millrace.mjs';
import { Browser, skip } from './browser.mjs';

const many = 10_767;
const priorities = ['low', 'normal', 'high', 'critical'];
const csv = (lines) => ['name,url,priority', ...lines].join('\n');
const file = (name, text) => ({ name, mimeType: 'text/plain', buffer: Buffer.from(text) });

describe(`Source operations over ${many} sources`, { skip }, () => {
  let millrace, browser, page;

  const goto = async (path) => {
    await page.goto(`http://${millrace.http}/#${path}`);
    await page.waitForFunction((wanted) => decodeURI(location.hash.slice(1)) === wanted, path);
  };
  const shows = (...what) => browser.shows(...what);
  const click = (testid) => browser.click(testid);
  const fill = (testid, text) => page.fill(`[data-testid="${testid}"]`, text);
  const gone = (testid) => page.waitForSelector(`[data-testid="${testid}"]`, { state: 'detached' });
  const row = (name) => `tr[data-testid^="registered-"]:has-text("${name}")`;
  const named = async (name) => (await millrace.get(`/sources?q=${encodeURIComponent(name)}`)).items[0];

  before(async () => {
    millrace = await Millrace.start();
    const lines = Array.from({ length: many }, (_, n) => `Source ${String(n).padStart(5, '0')},https://site-${n}.example/feed,${priorities[n % 4]}`);
    const answer = await fetch(`http://${millrace.http}/api/v1/sources/import`, {
      method: 'POST', headers: { 'Content-Type': 'text/csv' }, body: csv(lines),
    });
    assert.equal((await answer.json()).created, many);
    browser = await Browser.open();
    page = browser.page;
    await page.goto(`http://${millrace.http}/`);
    await shows('connection', 'data-state', 'live');
  });

  after(async () => {
    await browser?.close();
    await millrace?.stop();
  });

  test('the list is there, in pages', async () => {
    const begun = Date.now();
    await goto('/operations');
    await page.waitForSelector(row('Source 00099'));
    console.log(`# shown in ${Date.now() - begun} ms`);
    await shows('registered-count', 'data-value', String(many));
    const elements = await page.evaluate(() => document.querySelectorAll('*').length);
    assert.ok(elements < 5_000, `${elements} elements`);
    await click('next-page');
    await page.waitForSelector(row('Source 00100'));
    await page.goBack();
    await page.waitForSelector(row('Source 00000'));
  });

  test('filters are in the address, and can be saved', async () => {
    await fill('registered-search', 'SITE-77');
    await shows('registered-count', 'data-value', '111');
    await page.selectOption('[data-testid="filter-priority"]', 'normal');
    await shows('registered-count', 'data-value', '28');
    assert.match(page.url(), /q=SITE-77&priority=normal/);
    await click('save-filter');
    await fill('filter-name', 'seventy-seven');
    await page.keyboard.press('Enter');
    await shows('saved-seventy-seven');
    await goto('/operations?priority=urgent');
    await page.waitForSelector('[data-testid="address-wrong"] >> text=priority=urgent must be one of low, normal, high, critical');
    await page.reload();
    await shows('registered-count', 'data-value', String(many));
    await click('saved-seventy-seven');
    await shows('registered-count', 'data-value', '28');
    await page.click('[aria-label="Forget the filter seventy-seven"]');
    await gone('saved-seventy-seven');
  });

  test('one source is opened and closed by keys, and has an address', async () => {
    await goto('/operations?q=site-4242.');
    await page.focus(`${row('Source 04242')} a`);
    await page.keyboard.press('Enter');
    await shows('panel-status', 'data-value', 'true');
    assert.equal(await browser.text('panel-name'), 'Source 04242');
    const address = page.url();
    await page.keyboard.press('Escape');
    await gone('source-panel');
    await page.waitForFunction(() => document.activeElement?.textContent === 'Source 04242');
    await page.goto(address);
    await shows('source-panel');
    await goto('/operations?open=none');
    await page.waitForSelector('[data-testid="source-panel"] >> text=id must be a UUID');
  });

  test('what breaks rules is told at each field, and then saved', async () => {
    const { id } = await named('site-4242.');
    await goto(`/operations?open=${id}&tab=edit`);
    await fill('field-name', '');
    await fill('field-rate_limit', 'many');
    await fill('field-selectors', '{"title": ');
    await page.waitForSelector('[data-testid="hint-selectors"] >> text=must be a JSON object');
    assert.equal(await page.isDisabled('[data-testid="save-source"]'), true);
    await fill('field-selectors', '{"title": "h1", "order": 9007199254740993}');
    await click('save-source');
    await page.waitForSelector('[data-testid="hint-name"] >> text=name must not be empty');
    await page.waitForSelector('[data-testid="hint-rate_limit"] >> text=rate_limit must be a whole number');
    await page.waitForFunction(() => document.activeElement?.dataset.testid === 'field-name');
    await fill('field-name', 'Source 04242, renamed');
    await fill('field-rate_limit', '7');
    await page.keyboard.press('Enter');
    await page.waitForSelector('[data-testid="panel-name"] >> text=renamed');
    await page.waitForSelector('pre >> text=9007199254740993');
    const { name, rate_limit, max_depth } = await named('site-4242.');
    assert.deepEqual({ name, rate_limit, max_depth }, { name: 'Source 04242, renamed', rate_limit: 7, max_depth: 1 });
  });

  test('a source is disabled and enabled, with a reason', async () => {
    await click('disable-source');
    await fill('reason', 'robots.txt');
    await click('confirm-act');
    await shows('panel-status', 'data-value', 'false');
    assert.equal((await named('site-4242.')).enabled, false);
    await click('enable-source');
    await fill('reason', 'x'.repeat(255));
    await click('confirm-act');
    await shows('panel-status', 'data-value', 'true');
  });

  test('the job of a source is paused, resumed and run, and its events are told', async () => {
    const { id } = await named('site-4242.');
    await poll('its events to be taken', async () =>
      (await millrace.get(`/events/log?source_id=${id}`)).items.some(({ event_type: type }) => type === 'SOURCE_ENABLED'));
    await goto(`/operations?open=${id}&tab=job`);
    await click('pause-job');
    await shows('job-status', 'data-value', 'paused');
    assert.equal(await page.isDisabled('[data-testid="run-now"]'), true);
    await click('resume-job');
    await shows('pause-job');
    await Promise.all([
      page.waitForResponse((answer) => answer.url().endsWith('/force-run') && answer.ok()),
      click('run-now'),
    ]);
    await click('tab-events');
    await shows('log-SOURCE_CREATED');
    await page.waitForSelector('[data-testid="log-SOURCE_UPDATED"] >> text=rate_limit');
    assert.match(page.url(), /tab=events/);
    await page.keyboard.press('Escape');
    await gone('source-panel');
    await shows('health-sources', 'data-value', String(many));
  });

  test('a source is made, and deleted after asking', async () => {
    await goto('/operations');
    await click('new-source');
    await fill('field-url', 'new.example/feed');
    await click('save-source');
    await page.waitForSelector('[data-testid="hint-url"] >> text=must be an absolute http or https URL');
    await fill('field-name', 'Brand New');
    await fill('field-url', 'https://new.example/feed');
    await page.selectOption('[data-testid="field-priority"]', 'critical');
    await page.uncheck('[data-testid="field-enabled"]');
    await click('save-source');
    await shows('panel-status', 'data-value', 'false');
    const { id, priority } = await named('new.example');
    assert.equal(priority, 'critical');
    assert.ok(page.url().includes(id));
    await click('delete-source');
    await page.waitForSelector('[data-testid="confirm"] h2 >> text=Delete “Brand New”?');
    await click('confirm-act');
    await gone('source-panel');
    assert.equal(await named('new.example'), undefined);
    await shows('registered-count', 'data-value', String(many));
  });

  test('a list is imported by choosing a file, and by dropping one; its lines are answered', async () => {
    await click('import');
    await page.setInputFiles('[data-testid="import-file"]', file('more.csv', csv([
      'Imported,https://imported.example/,high', 'Again,https://imported.example/,low', 'Bad,ftp://imported.example/,urgent',
    ])));
    await click('send-import');
    for (const [what, n] of Object.entries({ created: 1, updated: 0, unchanged: 0, repeated: 1, refused: 1 })) {
      await shows(`import-${what}`, 'data-value', String(n));
    }
    assert.deepEqual(
      await page.$$eval('[data-testid="refused-line"]', (rows) => rows.map((line) => [...line.cells].slice(0, 2).map((cell) => cell.textContent))),
      [['4', 'url'], ['4', 'priority']],
    );
    await page.evaluate(() => {
      const dataTransfer = new DataTransfer();
      const opml = '<opml version="2.0"><body><outline text="Dropped" xmlUrl="https://dropped.example/feed"/></body></opml>';
      dataTransfer.items.add(new File([opml], 'feeds.opml'));
      document.querySelector('[data-testid="import-dialog"]').dispatchEvent(new DragEvent('drop', { dataTransfer, bubbles: true, cancelable: true }));
    });
    await page.waitForSelector('[data-testid="import-dialog"] >> text=feeds.opml');
    await gone('import-report');
    await click('send-import');
    await shows('import-created', 'data-value', '1');
    await page.setInputFiles('[data-testid="import-file"]', file('list.txt', 'no header\n'));
    assert.equal(await page.isDisabled('[data-testid="send-import"]'), true);
    await page.selectOption('[data-testid="import-kind"]', 'text/csv');
    await click('send-import');
    await page.waitForSelector('[data-testid="import-error"] >> text=url');
    await click('close-import');
    await shows('registered-count', 'data-value', String(many + 2));
    assert.equal((await named('dropped.example')).name, 'Dropped');
  });

  test('an export has what passes the filters, on every page', async () => {
    await goto('/operations?priority=high');
    await shows('registered-count', 'data-value', String(Math.ceil((many - 2) / 4) + 1));
    await click('export');
    const [saved] = await Promise.all([page.waitForEvent('download'), click('export-csv')]);
    assert.equal(saved.suggestedFilename(), 'sources.csv');
    const lines = (await readFile(await saved.path(), 'utf8')).trim().split('\n');
    assert.equal(lines.length, 1 + Math.ceil((many - 2) / 4) + 1);
    assert.ok(lines.slice(1).every((line) => line.includes(',high')));
  });

  test('an act on several says what became of each', async () => {
    await goto('/operations?q=site-555');
    for (const name of ['Source 00555', 'Source 05550', 'Source 05551']) await page.check(`${row(name)} input`);
    await shows('chosen', 'data-value', '3');
    const { id } = await named('site-5550.');
    assert.equal((await fetch(`http://${millrace.http}/api/v1/sources/${id}`, { method: 'DELETE' })).status, 204);
    await click('bulk-disable');
    await page.waitForSelector('[data-testid="confirm"] h2 >> text=Disable 3 sources?');
    await click('confirm-act');
    await page.waitForSelector('[data-testid="bulk-outcome"] >> text=2 of 3 sources disabled; 1 not.');
    await shows(`result-${id}`, 'data-value', 'false');
    await page.waitForSelector(`[data-testid="result-${id}"] >> text=there is no such source`);
    assert.equal((await millrace.get('/sources?enabled=false')).total, 2);
    await click('close-outcome');
    await gone('bulk-outcome');
  });

  test('all that a filter selects are chosen, on every page, and changed together', async () => {
    await goto('/operations?enabled=true');
    const left = String(many + 2 - 3);
    await shows('registered-count', 'data-value', left);
    await page.check('[data-testid="mark-page"]');
    await shows('chosen', 'data-value', '100');
    await click('choose-all');
    await shows('chosen', 'data-value', left);
    await click('bulk-disable');
    await click('confirm-act');
    await shows('bulk-outcome');
    await poll('all to be disabled', async () => (await millrace.get('/sources?enabled=true')).total === 0);
    await page.waitForSelector('[data-testid="nothing"] >> text=No registered source passes these filters');
  });

  for (const scheme of ['light', 'dark']) {
    test(`no view breaks a rule of accessibility or scrolls sideways, ${scheme}`, async () => {
      await page.evaluate((value) => localStorage.setItem('millrace.theme', value), scheme);
      const broken = [];
      const check = async (what) => {
        for (const width of [1920, 1440, 768, 390]) {
          await page.setViewportSize({ width, height: 900 });
          const by = await browser.overflow();
          if (by > 0) broken.push(`${what}: scrolls ${by} px sideways at ${width}`);
        }
        broken.push(...(await browser.violations()).map((line) => `${what}, on a phone: ${line}`));
        await page.setViewportSize({ width: 1440, height: 900 });
        broken.push(...(await browser.violations()).map((line) => `${what}: ${line}`));
      };
      const { id } = await named('site-4242.');
      await goto('/operations?q=site-424');
      await page.reload();
      await page.check('[data-testid="mark-page"]');
      await check('the list');
      for (const [open, shown] of [['bulk-delete', 'confirm'], ['import', 'import-dialog'], ['new-source', 'new-source-dialog']]) {
        await click(open);
        await shows(shown);
        await check(shown);
        await page.keyboard.press('Escape');
        await gone(shown);
      }
      for (const [tab, shown] of [['fields', 'tab-fields'], ['job', 'job-status'], ['events', 'log-SOURCE_CREATED'], ['edit', 'save-source']]) {
        await goto(`/operations?open=${id}${tab === 'fields' ? '' : `&tab=${tab}`}`);
        await shows(shown);
        await check(`the panel, ${tab}`);
      }
      assert.deepEqual(broken, []);
    });
  }

  test('a token to read shows no acts', async () => {
    const token = `e30.${Buffer.from(JSON.stringify({ scope: 'read' })).toString('base64url')}.x`;
    await page.evaluate((value) => sessionStorage.setItem('millrace.token', value), token);
    const { id } = await named('site-4242.');
    await goto(`/operations?open=${id}&tab=edit`);
    await page.reload();
    await shows('panel-status');
    const acts = ['mark-page', 'import', 'new-source', 'tab-edit', 'field-name', 'enable-source', 'disable-source', 'delete-source'];
    assert.equal(await page.locator(acts.map((name) => `[data-testid="${name}"]`).join(', ')).count(), 0);
    await shows('tab-fields');
  });

  test('has thrown no errors', () => assert.deepEqual(browser.problems, []));
});
