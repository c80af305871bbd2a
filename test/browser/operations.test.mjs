// Source operations over as many sources as a real installation has: found,
// changed, made, deleted, imported, exported, and all of them at once.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { Millrace, poll } from '../node/millrace.mjs';
import { Browser, schemes, skip } from './browser.mjs';

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
  const jobOf = async (id) => (await millrace.get(`/jobs/by-source/${id}`)).job;
  const named = async (name) => (await millrace.get(`/sources?q=${encodeURIComponent(name)}`)).items[0];

  /** The newest run of a source in a status, once there is one that is newer than the run `before`. */
  const execution = async (id, status, before = '') => {
    let found;
    await poll(`a run to be ${status}`, async () => {
      [found] = (await millrace.get(`/sources/${id}/executions?status=${status}`)).items;
      return found && found.id > before;
    });
    return found;
  };
  /** Takes items of the queue until one is there. */
  const take = async (item) => {
    let found;
    await poll('the item to be taken', async () => {
      const { body } = await millrace.send('/queues/crawl/take', { worker: 'test', limit: 1_000, lease_s: 3_600 });
      found = body.items.find(({ id }) => id === item);
      return found;
    });
    return found;
  };

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

  test('the page answers soon after it is loaded anew', async () => {
    await poll('each source to have its job', async () => (await millrace.get('/jobs/stats')).total_jobs === many);
    await page.goto('about:blank');
    const begun = Date.now();
    await page.goto(`http://${millrace.http}/#/operations`);
    await page.waitForSelector(row('Source 00042'));
    console.log(`# loaded, with ${many} sources, in ${Date.now() - begun} ms`);
    await page.waitForSelector(`${row('Source 00042')} [data-testid="job"]`);
    console.log(`# their jobs, after ${Date.now() - begun} ms`);
    await page.click(`${row('Source 00042')} a`);
    await shows('panel-status', 'data-value', 'true');
    console.log(`# a source is open ${Date.now() - begun} ms after the load began`);
    await page.keyboard.press('Escape');
    await gone('source-panel');
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
    for (const key of [...Array(12).fill('Tab'), ...Array(24).fill('Shift+Tab')]) {
      await page.keyboard.press(key);
      assert.ok(await page.evaluate(() => document.activeElement.closest('[data-testid="source-panel"]') !== null), `${key} leaves the panel`);
    }
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
    const { id } = await named('site-4242.');
    await millrace.send(`/jobs/${(await jobOf(id)).id}/force-run`, {}); // so that a run is cancelled
    await execution(id, 'queued');
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

  test('what breaks a rule of an override is told at its field; then the job runs by it', async () => {
    const { id } = await named('site-4242.');
    await goto(`/operations?open=${id}&tab=override&tz=Asia/Kolkata`);
    await page.check('[data-testid="kind-cron"]');
    await page.waitForFunction(() => document.querySelector('[data-testid="field-time_zone"]').value === 'Asia/Kolkata');
    await fill('field-cron', '61 12 1 * *');
    await fill('field-priority', '101');
    await click('save-override');
    await page.waitForSelector('[data-testid="hint-priority"] >> text=priority must be from 0 to 100');
    await page.waitForFunction(() => /^cron must/.test(document.querySelector('[data-testid="hint-cron"]').textContent));
    await page.waitForFunction(() => document.activeElement?.dataset.testid === 'field-cron');
    await fill('field-cron', '0 12 1 * *');
    await fill('field-time_zone', 'America/New_York');
    await fill('field-priority', '90');
    await fill('field-max_concurrent', '2');
    await fill('field-jitter_seconds', '30');
    await fill('field-max_attempts', '0');
    await page.click('[data-testid="save-override"]');
    await page.waitForSelector('[data-testid="hint-max_attempts"] >> text=max_attempts must be from 1 to 100');
    await fill('field-max_attempts', '3');
    await fill('field-retry_delay_seconds', '20');
    await fill('field-backoff_base_minutes', '10');
    await fill('field-backoff_max_minutes', '120');
    await page.check('[data-testid="windowed"]');
    await page.selectOption('[data-testid="field-crawl_window.start_hour"]', '20');
    await page.selectOption('[data-testid="field-crawl_window.end_hour"]', '23');
    await fill('field-crawl_window.time_zone', 'America/New_York');
    await page.check('[data-testid="day-1"]');
    await page.selectOption('[data-testid="field-overlap_policy"]', 'allow');
    await page.selectOption('[data-testid="field-catch_up_policy"]', 'recent');
    await fill('field-catch_up_window_seconds', '3600');
    await fill('field-catch_up_cap', '3');
    await fill('field-catch_up_spread_seconds', '60');
    await page.keyboard.press('Enter');
    await shows('setting-schedule', 'data-value', 'override');
    assert.match(await browser.text('setting-schedule'), /0 12 1 \* \* in America\/New_York/);
    assert.match(await browser.text('setting-window'), /20:00 to 23:00 on Monday, America\/New_York/);
    assert.deepEqual((await jobOf(id)).override, {
      cron: '0 12 1 * *', time_zone: 'America/New_York', priority: 90, max_concurrent: 2, jitter_seconds: 30,
      max_attempts: 3, retry_delay_seconds: 20, backoff_base_minutes: 10, backoff_max_minutes: 120,
      crawl_window: { start_hour: 20, end_hour: 23, days: [1], time_zone: 'America/New_York' },
      overlap_policy: 'allow', catch_up_policy: 'recent', catch_up_window_seconds: 3600, catch_up_cap: 3, catch_up_spread_seconds: 60,
    });
  });

  test('next runs are told in both zones, with changes of clocks and the crawl window; the next one is skipped', async () => {
    const { id } = await named('site-4242.');
    await page.waitForSelector('th >> text=Asia/Kolkata');
    await page.waitForSelector('th >> text=America/New York');
    // Between eight firsts of a month the clocks of New York change.
    await page.waitForSelector('[data-testid="clock-shift"] >> text=/clocks are set (ahead|back) by 60 min/');
    await page.waitForSelector('[data-testid="upcoming"]:nth-child(8) [data-testid="outside"]');
    const texts = await page.$$eval('[data-testid="upcoming"]:first-child time', (times) => times.map((time) => time.textContent));
    assert.match(texts[0], /, 2[12]:30 UTC\+5:30$/);
    assert.match(texts[1], /, 12:00 UTC-[45]$/);
    await click('skip-next');
    await page.waitForSelector('[data-testid="confirm"] h2 >> text=/Skip the run of .* 2[12]:30/');
    await click('confirm-act');
    await shows('skipped');
    assert.equal((await jobOf(id)).skip_next, true);
    await click('unskip-next');
    await click('skip-next');
    assert.equal((await jobOf(id)).skip_next, false);
    await click('confirm-act');
    await shows('skipped');
  });

  test('a job is automatic again after asking', async () => {
    const { id } = await named('site-4242.');
    await click('tab-override');
    await click('automate');
    await page.waitForSelector('[data-testid="confirm"] >> text=Crawl window: 20:00 to 23:00');
    await click('confirm-act');
    await shows('setting-schedule', 'data-value', 'computed');
    assert.deepEqual((await jobOf(id)).override, {});
  });

  test('why a due time did not run is told, and the panel follows', async () => {
    const { id } = await named('site-4242.');
    await click('tab-due');
    await page.selectOption('[data-testid="due-filter"]', 'missed');
    await page.waitForFunction(() => location.hash.includes('due=missed'));
    // The next due time was to be skipped. The log of the source gets a second page.
    for (let i = 0; i < 12; i++) {
      for (const operation of ['disable', 'enable']) assert.equal((await millrace.send(`/sources/${id}/${operation}`, {})).status, 200);
    }
    // Beside so many sources its next due time is somewhere in its interval: make that a minute.
    const job = await jobOf(id);
    const bulk = (operation, rest) => millrace.send('/jobs/bulk', { operation, ids: [job.id], ...rest });
    assert.equal((await bulk('override', { override: { interval_minutes: 1 } })).status, 200);
    await page.waitForSelector('[data-testid="due-time"][data-value="skipped"] >> text=It was skipped: somebody asked for it.', { timeout: 100_000 });
    // No due time comes between a run and a look at what became of it.
    assert.equal((await bulk('override', { override: { interval_minutes: 60 } })).status, 200);
    await page.selectOption('[data-testid="due-filter"]', 'caught_up');
    await page.waitForSelector('[data-testid="source-panel"] >> text=No due time is of this kind.');
    await click('tab-events');
    await page.waitForSelector('[data-testid="log-SOURCE_ENABLED"]');
    await page.click('[data-testid="source-panel"] [data-testid="next-page"]');
    await shows('log-SOURCE_CREATED');
    assert.match(page.url(), /at=/);
    await page.goBack();
    await gone('log-SOURCE_CREATED');
    await page.waitForSelector('[data-testid="log-SOURCE_ENABLED"]');
  });

  test('runs are told with what became of them', async () => {
    const { id } = await named('site-4242.');
    await goto(`/operations?open=${id}&tab=runs`);
    // A run of before is still there if the scheduler did not see its source disabled.
    const [before] = (await millrace.get(`/sources/${id}/executions`)).items;
    await millrace.send(`/jobs/${(await jobOf(id)).id}/force-run`, {});
    const { item_id: ours } = await execution(id, 'queued', before.id);
    await page.click(`[data-testid="source-panel"] a[href="#/queues/crawl/items/${ours}"]`);
    await page.waitForFunction(() => location.hash.startsWith('#/queues/crawl/items/'));
    await page.goBack();
    const taken = await take(ours);
    const report = { generation: taken.generation, error: '429: rate limit exceeded', permanent: true };
    assert.equal((await millrace.send(`/queues/crawl/items/${ours}/fail`, report)).status, 200);
    await page.waitForSelector('[data-testid^="run-"][data-value="failed"] >> text=429: rate limit exceeded');
    await page.selectOption('[data-testid="runs-status"]', 'cancelled');
    await page.waitForSelector('[data-testid^="run-"][data-value="cancelled"]'); // of when the source was disabled
    assert.match(page.url(), /runs=cancelled/);
    await shows('panel-health', 'data-value', 'warning');
    await goto('/operations?health=warning');
    await page.waitForSelector(`${row('Source 04242')} >> text=failed`);
    await shows('registered-count', 'data-value', '1');
  });

  test('jobs are paused by a filter and resumed by choice, and found by their status', async () => {
    await goto('/operations?q=site-10');
    await shows('registered-count', 'data-value', '878');
    await page.check('[data-testid="mark-page"]');
    await click('choose-all');
    await shows('chosen', 'data-value', '878');
    await click('bulk-pause');
    await page.waitForSelector('[data-testid="confirm"] h2 >> text=Pause 878 jobs?');
    await click('confirm-act');
    await shows('act-state', 'data-value', 'finished');
    await shows('act-done', 'data-value', '878');
    await page.waitForSelector('text=Pause jobs of sources in the list with “site-10” in their name or URL.');
    await goto('/operations?q=site-10');
    await page.waitForSelector(`${row('Source 00010')} [data-testid="job"][data-value="paused"]`);
    await shows('health-paused', 'data-value', '878');
    // What is chosen is forgotten with the filter before, and that is as late as the search is slow.
    await Promise.all([page.waitForResponse((answer) => answer.url().includes('/sources?job_status=paused&')), click('show-paused')]);
    await page.waitForFunction(() => location.hash === '#/operations?job_status=paused');
    await shows('registered-count', 'data-value', '878');
    await page.check(`${row('Source 00010')} input`);
    await page.check(`${row('Source 00100')} input`);
    const { id } = await named('site-100.');
    assert.equal((await millrace.send(`/sources/${id}/disable`, {})).status, 200);
    await poll('its job to follow', async () => (await jobOf(id)).paused_by === 'source');
    await click('bulk-resume');
    await click('confirm-act');
    await page.waitForSelector('[data-testid="bulk-outcome"] >> text=1 of 2 jobs resumed; 1 not.');
    await page.waitForSelector(`[data-testid="result-${id}"] >> text=enable the source to resume it`);
    assert.notEqual((await jobOf((await named('site-10.')).id)).status, 'paused');
    assert.equal((await millrace.send(`/sources/${id}/enable`, {})).status, 200);
    await shows('registered-count', 'data-value', '876');
  });

  test('an open panel and the list follow what others do', async () => {
    const { id } = await named('site-4242.');
    await goto(`/operations?q=site-4242.&open=${id}&tab=job`);
    await shows('pause-job');
    assert.equal((await millrace.send(`/jobs/${(await jobOf(id)).id}/pause`, {})).status, 200);
    await shows('job-status', 'data-value', 'paused');
    await shows('upcoming-paused');
    assert.equal(await page.isDisabled('[data-testid="skip-next"]'), true);
    await click('resume-job');
    await shows('pause-job');
  });

  test('a job without a source is listed, and opened by itself', async () => {
    const lost = '0199f0a2-7c1e-7000-8000-000000000009';
    const { items: [job] } = await millrace.get('/jobs?limit=1');
    const orphan = { ...job, source_id: lost, source_name: 'Left Behind', status: 'orphaned', next_run_at: null, source: null };
    const { health } = job;
    await page.route('**/api/v1/jobs?*status=orphaned*', (route) => route.fulfill({ json: { items: [orphan], total: 1 } }));
    await page.route(`**/api/v1/jobs/by-source/${lost}`, (route) => route.fulfill({ json: { job: orphan, source: null, health, recent_executions: [] } }));
    await goto('/operations?job_status=orphaned');
    await page.click(`[data-testid="orphan-${lost}"] a`);
    await shows('no-source');
    assert.equal(await browser.text('panel-name'), 'Left Behind');
    await shows('job-status', 'data-value', 'orphaned');
    assert.equal(await page.locator('[data-testid="tab-fields"], [data-testid="tab-edit"], [data-testid="pause-job"]').count(), 0);
    await page.keyboard.press('Escape');
    await gone('source-panel');
    await page.unrouteAll();
  });

  test('what an address says that cannot be is answered in words', async () => {
    for (const [wrong, told] of [
      ['job_status=broken', 'job_status=broken must be one of pending, running, paused, failed, orphaned'],
      ['health=ill', 'health=ill must be one of healthy, warning, failed'],
      ['tab=nothing', 'tab=nothing must be one of fields, job, runs, due, events, override, edit'],
      ['due=never', 'due=never must be one of missed, ran'],
    ]) {
      await goto(`/operations?${wrong}`);
      await page.waitForSelector(`[data-testid="address-wrong"] >> text=${told}`);
    }
    const { id } = await named('site-4242.');
    await goto(`/operations?open=${id}&tab=runs&at=nowhere`);
    await page.waitForSelector('[data-testid="source-panel"] >> text=cursor must be next_cursor of the page before');
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

  test('all that a filter selects are changed together, on every page, with a record', async () => {
    await goto('/operations?enabled=true');
    const left = String(many + 2 - 3);
    await shows('registered-count', 'data-value', left);
    await page.check('[data-testid="mark-page"]');
    await shows('chosen', 'data-value', '100');
    await click('choose-all');
    await shows('chosen', 'data-value', left);
    await click('bulk-disable');
    await page.waitForSelector(`[data-testid="confirm"] h2 >> text=Disable ${Number(left).toLocaleString('en')} sources?`);
    await fill('reason', 'all at once');
    await click('confirm-act');
    await shows('act-state', 'data-value', 'finished');
    await shows('act-done', 'data-value', left);
    await goto('/operations?enabled=true');
    await poll('all to be disabled', async () => (await millrace.get('/sources?enabled=true')).total === 0);
    await page.waitForSelector('[data-testid="nothing"] >> text=No registered source passes these filters');
  });

  // Schemes differ in their colours alone.
  for (const [scheme, colours] of schemes) {
    test(`no view breaks a rule of accessibility or scrolls sideways, ${scheme}`, async () => {
      await page.evaluate((value) => localStorage.setItem('millrace.theme', value), scheme);
      const broken = [];
      const check = async (what, phone = true) => {
        for (const width of [1920, 1440, 768, 390]) {
          await page.setViewportSize({ width, height: 900 });
          const by = await browser.overflow();
          if (by > 0) broken.push(`${what}: scrolls ${by} px sideways at ${width}`);
        }
        if (phone) broken.push(...(await browser.violations({ colours })).map((line) => `${what}, on a phone: ${line}`));
        await page.setViewportSize({ width: 1440, height: 900 });
        broken.push(...(await browser.violations({ colours })).map((line) => `${what}: ${line}`));
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
      for (const [tab, shown] of [['fields', 'tab-fields'], ['job', 'upcoming'], ['runs', 'runs-status'], ['due', 'due-time'], ['events', 'log-SOURCE_ENABLED'], ['override', 'save-override'], ['edit', 'save-source']]) {
        await goto(`/operations?open=${id}${tab === 'fields' ? '' : `&tab=${tab}`}`);
        await shows(shown);
        if (tab === 'override') {
          await page.check('[data-testid="kind-cron"]');
          await page.check('[data-testid="windowed"]');
        }
        await check(`the panel, ${tab}`, tab === 'job' || tab === 'override' || tab === 'fields');
      }
      assert.deepEqual(broken, []);
    });
  }

  test('a token to read shows no acts', async () => {
    const token = `e30.${Buffer.from(JSON.stringify({ scope: 'read' })).toString('base64url')}.x`;
    await page.evaluate((value) => sessionStorage.setItem('millrace.token', value), token);
    const { id } = await named('site-4242.');
    const acts = [
      'mark-page', 'import', 'new-source', 'tab-edit', 'field-name', 'enable-source', 'disable-source', 'delete-source',
      'bulk-pause', 'tab-override', 'override-form', 'pause-job', 'resume-job', 'run-now', 'skip-next',
    ];
    for (const [tab, shown] of [['edit', 'tab-fields'], ['override', 'tab-fields'], ['job', 'upcoming']]) {
      await goto(`/operations?open=${id}&tab=${tab}`);
      await page.reload();
      await shows('panel-status');
      await shows(shown);
      assert.equal(await page.locator(acts.map((name) => `[data-testid="${name}"]`).join(', ')).count(), 0);
    }
  });

  test('has thrown no errors', () => assert.deepEqual(browser.problems, []));
});
