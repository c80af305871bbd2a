// Uploads in a real browser: real files with what files have, and one of many
// rows, of which the page keeps what is in sight.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Millrace, poll } from '../node/millrace.mjs';
import { Browser, long, schemes, skip } from './browser.mjs';

/** As many that the grid is higher than what browsers draw. */
const many = long ? 300_000 : 1_000_000;
/** In Windows-1252: a no-break space, the euro sign, curly quotes, a dash; and cells with line breaks, quotes and spaces. */
const products = [
  ['sku', 'ProductName', 'price', 'note'],
  ['7', 'Stuhl\u00a0„Eiche“', '12,50 €', 'first line\nsecond line\r\nthird'],
  ['8', 'Tisch – groß', '99 €', ' spaces around '],
  ['9', 'He said "no"', '=1+1', ''],
];
const special = { '€': 0x80, '„': 0x84, '–': 0x96, '“': 0x93 };
const cp1252 = (text) => Buffer.from([...text].map((c) => special[c] ?? c.codePointAt(0)));
const csv = (rows) => rows.map((row) => row.map((cell) => `"${cell.replaceAll('"', '""')}"`).join(',')).join('\r\n');
const file = (name, buffer) => ({ name, mimeType: 'text/csv', buffer: Buffer.from(buffer) });

describe('Uploads', { skip }, () => {
  let millrace, browser, page;

  const goto = async (path) => {
    await page.goto(`http://${millrace.http}/#${path}`);
    await page.waitForFunction((wanted) => decodeURI(location.hash.slice(1)) === wanted, path);
  };
  const shows = (...what) => browser.shows(...what);
  const click = (testid) => browser.click(testid);
  const give = (name, buffer) => page.setInputFiles('[data-testid="upload-file"]', file(name, buffer));
  const named = async (name) => {
    let found;
    await poll(`the upload ${name}`, async () => {
      found = (await millrace.get('/uploads')).items.find((upload) => upload.name === name);
      return found;
    });
    return found;
  };
  const until = (name, state) => poll(`${name} to be ${state}`, async () => (await named(name)).queue_state === state);
  /** Uploads a file without the page. */
  const send = async (name, content, query = '') => {
    const form = new FormData();
    form.set('file', new Blob([content]), name);
    const answer = await fetch(`http://${millrace.http}/api/v1/uploads${query}`, { method: 'POST', body: form });
    assert.equal(answer.status, 201, await answer.text());
    return (await named(name)).jobId;
  };
  /** The cells of a row of the grid, by its place from 0. */
  const cells = (row) => page.$$eval(`[data-row="${row}"] > td, [data-row="${row}"] > th`, (all) => all.map((cell) => cell.textContent));
  const saved = async (act) => {
    const [download] = await Promise.all([page.waitForEvent('download'), act()]);
    return { name: download.suggestedFilename(), content: await readFile(await download.path()) };
  };

  before(async () => {
    millrace = await Millrace.start();
    browser = await Browser.open();
    page = browser.page;
    await page.setViewportSize({ width: 1280, height: 900 });
    await page.goto(`http://${millrace.http}/`);
    await shows('connection', 'data-state', 'live');
  });

  after(async () => {
    await browser?.close();
    await millrace?.stop();
  });

  test('a file is chosen, and is in the list with its counters', async () => {
    await goto('/uploads');
    await shows('nothing');
    await give('products.csv', cp1252(csv(products)));
    await shows('sending-products.csv', 'data-state', 'done');
    const { jobId } = await named('products.csv');
    const row = `[data-testid="upload-${jobId}"]`;
    await page.waitForSelector(`${row} [data-testid="state"][data-value="DONE"]`);
    await page.waitForSelector(`${row} [data-testid="items"][data-value="3"]`);
  });

  test('files are dropped, several at once', async () => {
    await page.evaluate(() => {
      const dataTransfer = new DataTransfer();
      for (const n of [1, 2]) dataTransfer.items.add(new File([`{"n":900719925474099${n}}\n`], `dropped-${n}.ndjson`));
      document.querySelector('main').dispatchEvent(new DragEvent('drop', { dataTransfer, bubbles: true, cancelable: true }));
    });
    await shows('sending-dropped-1.ndjson', 'data-state', 'done');
    await shows('sending-dropped-2.ndjson', 'data-state', 'done');
  });

  test('a file goes on after a reload at half, when it is chosen again', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'millrace-resume-'));
    const path = join(folder, 'resumed.csv');
    const content = csv([['n', 'text'], ...Array.from({ length: 60_000 }, (_, i) => [String(i), `row ${i} `.repeat(20)])]);
    await writeFile(path, content);
    const half = Math.floor(content.length / 2);
    // The server gets half of the file, and then nothing: the connection is slow.
    await page.route('**/uploads/tus/*', async (route) => {
      const request = route.request();
      if (request.method() !== 'PATCH') return route.continue();
      const answer = await fetch(request.url(), {
        method: 'PATCH', body: content.slice(0, half),
        headers: { 'Tus-Resumable': '1.0.0', 'Content-Type': 'application/offset+octet-stream', 'Upload-Offset': '0' },
      });
      assert.equal(answer.status, 204, await answer.text());
    });
    await goto('/uploads');
    await page.setInputFiles('[data-testid="upload-file"]', path);
    await shows('sending-resumed.csv', 'data-state', 'sending');
    const upload = async () => page.evaluate(() => Object.keys(localStorage).filter((key) => key.startsWith('tus::')).map((key) => JSON.parse(localStorage[key]).uploadUrl)[0]);
    await poll('half of the file to come in', async () => {
      const url = await upload();
      return url && Number((await fetch(url, { method: 'HEAD' })).headers.get('Upload-Offset')) === half;
    });
    page.once('dialog', (dialog) => dialog.accept()); // the page asks before it is left
    await page.unroute('**/uploads/tus/*');
    await page.reload();
    await shows('begun-resumed.csv', 'data-sent', String(half));
    await page.setInputFiles('[data-testid="upload-file"]', path);
    await shows('sending-resumed.csv', 'data-state', 'done');
    await shows('sending-resumed.csv', 'data-resumed', String(half));
    await page.waitForSelector('[data-testid="begun-resumed.csv"]', { state: 'detached' });
    const { file: kept } = await named('resumed.csv');
    assert.equal(kept.sha256, createHash('sha256').update(content).digest('hex'));
    assert.equal(await upload(), undefined, 'what has come in is still remembered');
    await rm(folder, { recursive: true });
  });

  test('a file that the server refuses is named with the rule', async () => {
    await page.click('main summary');
    await page.fill('[data-testid="map-title"]', 'a\u0001');
    await give('bad.csv', 'a\n1\n');
    await page.waitForSelector('[data-testid="sending-bad.csv"][data-state="failed"] >> text=control characters');
    await page.click('[aria-label="Forget bad.csv"]');
    await page.waitForSelector('[data-testid="sending-bad.csv"]', { state: 'detached' });
    await page.fill('[data-testid="map-title"]', '');
  });

  test('cells are shown exactly, in the grid and in an opened row', async () => {
    const { jobId } = await named('products.csv');
    await goto(`/uploads/${jobId}`);
    await page.waitForSelector('[data-row="2"] >> text=He said');
    for (const [i, row] of products.slice(1).entries()) assert.deepEqual((await cells(i)).slice(3), row);
    await page.click('[data-row="0"] .link');
    await shows('row-panel');
    const shown = await page.$$eval('[data-testid="cell"]', (all) => all.map((cell) => [cell.dataset.column, cell.textContent]));
    assert.deepEqual(shown, products[0].map((name, i) => [name, products[1][i]]));
    await page.keyboard.press('Escape');
  });

  test('numbers of JSON lines keep their digits', async () => {
    await goto(`/uploads/${(await named('dropped-1.ndjson')).jobId}`);
    await page.waitForSelector('[data-row="0"] >> text=9007199254740991');
    await goto(`/uploads/${(await named('dropped-2.ndjson')).jobId}`);
    await page.waitForSelector('[data-row="0"] >> text=9007199254740992');
  });

  test('the original file and the results are saved', async () => {
    await goto(`/uploads/${(await named('products.csv')).jobId}`);
    const original = await saved(() => click('original'));
    assert.equal(original.name, 'products.csv');
    assert.deepEqual(original.content, cp1252(csv(products)));
    await click('export');
    await click('export-ndjson');
    await shows('made-ndjson', 'data-state', 'DONE');
    const results = await saved(() => click('link-ndjson'));
    const lines = results.content.toString().trim().split('\n').map((line) => JSON.parse(line)).filter((line) => 'sku' in line);
    assert.deepEqual(lines.map((line) => products[0].map((name) => line[name])), products.slice(1));
  });

  test('a held file is previewed as encodings and delimiters have it, and goes on', async () => {
    const name = 'cyrillic.csv';
    // "цена;имя" in windows-1251, with too few letters for the server to be sure.
    const content = Buffer.concat([Buffer.from('id;text\n1;'), Buffer.from([0xf6, 0xe5, 0xed, 0xe0]), Buffer.from('\n2;a,b\n')]);
    await goto('/uploads');
    await page.check('[data-testid="hold"]');
    await give(name, content);
    await shows(`sending-${name}`, 'data-state', 'done');
    const { jobId, queue_state: state } = await named(name);
    assert.equal(state, 'PAUSED');
    await goto(`/uploads/${jobId}`);
    await shows('preview');
    await page.waitForSelector('[data-testid="previewed"]');
    await page.fill('[data-testid="encoding"]', 'windows-1251');
    await page.keyboard.press('Enter');
    await page.waitForSelector('[data-testid="previewed"] >> text=цена');
    await page.selectOption('[data-testid="delimiter"]', ',');
    await page.waitForSelector('[data-testid="previewed"] >> text=/the row has/');
    await page.selectOption('[data-testid="delimiter"]', ';');
    await page.waitForSelector('[data-testid="previewed"] >> text=a,b');
    await click('resume-as');
    await shows('state', 'data-value', 'DONE');
    await page.waitForSelector('[data-row="0"] >> text=цена');
    assert.deepEqual((await cells(0)).slice(3), ['1', 'цена']);
  });

  test('rejected rows have their lines and rules, and stand in the grid', async () => {
    const job = await send('rejected.csv', 'a,b\n1,2\n3\n"4\n4",5\n6,7,8\n9,10\n');
    await until('rejected.csv', 'DONE');
    await goto(`/uploads/${job}`);
    await shows('rejected', 'data-value', '2');
    await page.waitForSelector('[data-row="4"] >> text=10');
    assert.equal((await cells(1))[2], 'rejected');
    assert.deepEqual((await cells(2)).slice(3), ['4\n4', '5']);
    await click('show-rejected');
    await page.waitForSelector('[data-testid="rejected-row"][data-line="3"] >> text=the row has 1 cell');
    await page.waitForSelector('[data-testid="rejected-row"][data-line="6"] >> text=cells_count');
    const { content } = await saved(async () => {
      await page.click('[data-testid="export"] >> nth=1'); // the first one is of the results
      await click('export-csv');
    });
    assert.match(content.toString(), /cells_count/);
  });

  test(`a grid of ${many} rows has each of them, and draws those in sight`, async () => {
    const lines = Array.from({ length: many }, (_, n) => `${n + 1},Product ${n + 1},${(n * 7_919) % 1_000},${'x'.repeat(40)}`);
    const begun = Date.now();
    const job = await send('many.csv', `sku,title,price,text\n${lines.join('\n')}\n`);
    await until('many.csv', 'DONE');
    console.log(`# ${many} rows uploaded and processed in ${Date.now() - begun} ms`);
    await page.goto('about:blank');
    const opened = Date.now();
    await goto(`/uploads/${job}`);
    await page.waitForSelector('[data-row="0"] >> text=Product 1');
    console.log(`# opened in ${Date.now() - opened} ms`);
    const drawn = () => page.$$eval('[data-row]', (all) => all.length);
    assert.ok((await drawn()) < 60, `${await drawn()} rows are drawn`);

    await page.fill('[data-testid="find-row"]', String(many / 2));
    await page.keyboard.press('Enter');
    await page.waitForSelector(`[data-row="${many / 2 - 1}"] >> text=Product ${many / 2}`);
    await page.focus('[data-testid="grid"]');
    await page.keyboard.press('End');
    await page.waitForSelector(`[data-row="${many - 1}"] >> text=Product ${many}`);
    await page.keyboard.press('Home');
    await page.waitForSelector('[data-row="0"] >> text=Product 1');
    for (let i = 0; i < 20; i++) {
      await page.keyboard.press('PageDown');
      await page.waitForFunction((before) => Number(document.querySelector('[data-testid="sight"]').dataset.value) > before, i * 10);
    }
    const place = async () => Number(await page.getAttribute('[data-testid="sight"]', 'data-value'));
    let [first, before] = [await place(), -1];
    await poll('the rows to stand still', async () => {
      await page.waitForTimeout(300); // a step of a key takes less
      [before, first] = [first, await place()];
      return before === first;
    });
    await page.waitForSelector(`[data-row="${first}"] >> text=Product ${first + 1}`);
    assert.ok((await drawn()) < 60, `${await drawn()} rows are drawn`);
    const heap = await page.evaluate(() => performance.memory?.usedJSHeapSize ?? 0);
    console.log(`# ${await page.evaluate(() => document.querySelectorAll('*').length)} elements, ${Math.round(heap / 1e6)} MB in the heap`);
  });

  test('a filtered list goes on to its end, page by page', async () => {
    const lines = Array.from({ length: 450 }, (_, n) => `${n + 1},Thing ${n + 1}`);
    const job = await send('walk.csv', `sku,title\n${lines.join('\n')}\n`);
    await until('walk.csv', 'DONE');
    await goto(`/uploads/${job}?show=done`);
    await page.waitForSelector('[data-row="0"] >> text=Thing 1');
    const seen = new Set();
    for (let turn = 0; seen.size < 450 && turn < 200; turn++) {
      await page.waitForFunction(() => {
        const rows = [...document.querySelectorAll('[data-row]')];
        const first = Math.floor(document.querySelector('[data-testid="grid"]').scrollTop / 34);
        return Number(rows[0]?.dataset.row) === first && rows.every((row) => row.querySelector('[data-testid="item"]'));
      });
      for (const id of await page.$$eval('[data-testid="item"]', (all) => all.map((item) => item.dataset.value))) seen.add(id);
      await page.$eval('[data-testid="grid"]', (grid) => grid.scrollBy(0, grid.clientHeight / 2));
    }
    assert.equal(seen.size, 450);
  });

  test('workers of a queue make the results, and what failed is grouped', async () => {
    const post = async (path, body) => {
      const answer = await millrace.send(path, body);
      assert.ok(answer.status < 300, `${path}: ${JSON.stringify(answer.body)}`);
      return answer.body;
    };
    await post('/queues', { name: 'enrich', max_attempts: 3 });
    await goto('/uploads');
    await page.reload();
    await page.click('[data-testid="processor"]');
    await page.click('[role="option"] >> text=enrich');
    await give('enriched.csv', `sku,title\n${Array.from({ length: 6 }, (_, n) => `${n + 1},Thing ${n + 1}`).join('\n')}\n`);
    await shows('sending-enriched.csv', 'data-state', 'done');
    const { jobId, processor } = await named('enriched.csv');
    assert.equal(processor, 'enrich');
    const taken = [];
    await poll('the items to be taken', async () => {
      taken.push(...(await post('/queues/enrich/take', { worker: 'host-7', limit: 10, lease_s: 600 })).items);
      return taken.length === 6;
    });
    taken.sort((a, b) => a.payload.row_no - b.payload.row_no);
    await goto(`/uploads/${jobId}?show=pending`);
    await page.waitForSelector('[data-row="5"] >> text=processing');
    await page.waitForSelector('[data-row="0"] >> text=host-7');
    for (const [i, { id, generation }] of taken.entries()) {
      const path = `/queues/enrich/items/${id}`;
      if (i < 3) await post(`${path}/done`, { generation, result: { stock: 10 * i, name: `Found ${i + 1}` } });
      else if (i === 3) await post(`${path}/done`, { generation, skipped: true });
      else await post(`${path}/fail`, { generation, error: `no such product ${i}`, class: 'invalid' });
    }
    await until('enriched.csv', 'DONE');
    await goto(`/uploads/${jobId}`);
    await page.waitForSelector('[data-row="2"] >> text=Found 3');
    const head = await page.$$eval('[data-testid="grid"] thead th', (all) => all.map((cell) => cell.textContent));
    const at = (name) => head.indexOf(name) + 1; // behind the boxes to tick
    assert.equal((await cells(1))[at('stock')], '10');
    assert.equal((await cells(3))[2], 'skipped');
    await click('show-error');
    await page.waitForSelector('[data-row="1"] >> text=no such product 5');
    await shows('failure-count', 'data-value', '2');
  });

  test('chosen items are processed again', async () => {
    const { jobId } = await named('products.csv');
    await goto(`/uploads/${jobId}`);
    await page.check('[aria-label="Choose row 1"]');
    await page.check('[aria-label="Choose row 3"]');
    await shows('chosen', 'data-value', '2');
    await click('reprocess-chosen');
    await page.uncheck('[data-testid="again-ERROR"]');
    await page.uncheck('[data-testid="again-NOT_FOUND"]');
    assert.ok(await page.isDisabled('[data-testid="confirm-act"]'));
    await page.check('[data-testid="again-DONE"]');
    await page.check('[data-testid="reset-attempts"]');
    await click('confirm-act');
    await shows('reprocessed', 'data-value', '2');
    await click('confirm-act');
    await page.waitForSelector('[data-testid="chosen"]', { state: 'detached' });
    await until('products.csv', 'DONE');
    const { items } = await millrace.get(`/uploads/${jobId}/items`);
    assert.ok(items[0].version > items[1].version && items[2].version > items[1].version, JSON.stringify(items));
  });

  test('what is paused is pending: on its page, on that of all uploads, and processed now', async () => {
    const job = await send('paused.csv', 'sku,title\n1,Lamp\n2,Sofa\n', '?hold=true');
    const post = async (path, body) => assert.ok((await millrace.send(`/uploads/${job}${path}`, body)).status < 300, path);
    await post('/resume', {});
    await until('paused.csv', 'DONE');
    // Items of a paused upload stay pending until it is resumed: here by processing them again, twice, and pausing between.
    let pending = 0;
    await poll('the upload to be paused with pending items', async () => {
      await millrace.send(`/uploads/${job}/reprocess`, { statuses: ['DONE'], resetAttempts: true });
      await millrace.send(`/uploads/${job}/pause`, {});
      const upload = await millrace.get(`/uploads/${job}`);
      pending = upload.statuses.PENDING;
      if (upload.queue_state === 'PAUSED' && pending > 0) return true;
      await millrace.send(`/uploads/${job}/resume`, {});
      return false;
    });
    await goto(`/uploads/${job}?show=pending`);
    await page.waitForSelector('[data-testid="item"]');
    assert.equal(await page.locator('[data-testid="item"]').count(), pending);

    await goto('/pending');
    await page.waitForSelector(`[data-testid="item"][data-value^="${job}"]`);
    await page.selectOption('[data-testid="pending-type"]', 'xlsx');
    await shows('nothing');
    await goto(`/pending?job=${job}`);
    await page.waitForSelector(`[data-testid="item"][data-value^="${job}"]`);
    await goto('/pending?from=2099-01-01T00:00:00Z');
    await shows('nothing');
    await goto('/pending?to=2001-01-01T00:00:00Z');
    await shows('nothing');
    await goto('/pending');
    await page.click('main a[title^="Go to the upload"]');
    await page.waitForFunction((id) => location.hash.includes(id), job);
    await click('resume');
    await shows('state', 'data-value', 'DONE');
  });

  test('an upload is cancelled, and deleted', async () => {
    const job = await send('gone.csv', 'a\n1\n', '?hold=true');
    await goto(`/uploads/${job}`);
    await shows('preview');
    await click('cancel');
    await click('confirm-act');
    await page.waitForSelector('[data-testid="confirm"]', { state: 'detached' });
    await until('gone.csv', 'DONE');
    await page.waitForSelector('main >> text=cancelled');
    await click('delete');
    await click('confirm-act');
    await page.waitForFunction(() => location.hash.startsWith('#/uploads') && !location.hash.includes('/uploads/'));
    assert.equal((await millrace.get('/uploads')).items.find((upload) => upload.jobId === job), undefined);
  });

  // Schemes differ in their colours alone.
  for (const [scheme, colours] of schemes) {
    test(`no page breaks a rule of accessibility, ${scheme}`, async () => {
      await page.evaluate((value) => localStorage.setItem('millrace.theme', value), scheme);
      const held = await send(`held-${scheme}.csv`, 'a,b\n1,2\n3\n', '?hold=true');
      const { jobId: rejected } = await named('rejected.csv');
      const broken = [];
      for (const path of ['/uploads', `/uploads/${held}`, `/uploads/${rejected}`, `/uploads/${rejected}?show=done`, `/uploads/${rejected}?show=rejected`, '/pending']) {
        await page.setViewportSize({ width: 1440, height: 900 });
        await goto(path);
        await page.reload();
        await page.waitForSelector('main table tbody td, main [data-testid="nothing"]');
        for (const line of await browser.violations({ colours })) broken.push(`${path}: ${line}`);
        for (const width of [360, 768, 1024, 1920]) {
          await page.setViewportSize({ width, height: 900 });
          const by = await browser.overflow();
          if (by > 0) broken.push(`${path}: scrolls ${by} px sideways at ${width}`);
        }
      }
      await page.setViewportSize({ width: 390, height: 800 });
      await goto(`/uploads/${rejected}`);
      const check = async (what) => broken.push(...(await browser.violations({ colours })).map((line) => `${what}: ${line}`));
      await page.click('[data-row="0"] .link');
      await shows('row-panel');
      await check('a row');
      await page.keyboard.press('Escape');
      await click('reprocess');
      await shows('reset-attempts');
      await check('processing again');
      await page.keyboard.press('Escape');
      await page.waitForSelector('[data-testid="confirm"]', { state: 'detached' });
      assert.deepEqual(broken, []);
    });
  }

  test('has thrown no errors', () => assert.deepEqual(browser.problems, []));
});

describe('the pending page, switched off', { skip }, () => {
  test('is not offered, and says why when it is asked for', async () => {
    const millrace = await Millrace.start({ MILLRACE_PENDING_DASHBOARD: 'false' });
    const browser = await Browser.open();
    try {
      const { page } = browser;
      await page.goto(`http://${millrace.http}/#/pending`);
      await browser.shows('pending-off');
      await page.waitForSelector('nav >> text=Uploads');
      assert.equal(await page.locator('nav >> text=Pending').count(), 0);
    } finally {
      await browser.close();
      await millrace.stop();
    }
  });
});
