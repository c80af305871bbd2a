// Every page on a phone, a small screen and a large one (in a short run on one of them, at random):
// nothing lies over something else or is cut off, and no page scrolls sideways. With SHOTS=folder
// each is saved as a picture.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { Millrace } from '../node/millrace.mjs';
import { Browser, long, skip } from './browser.mjs';
import { act, batches, events, files, letters, queues, sources, uploads } from './world.mjs';

const all = [360, 1280, 1440];
const widths = long ? [all[Math.floor(Math.random() * all.length)]] : all;
/** From here on tables have room for all of their columns. */
const roomy = 1280;

describe('the layout', { skip }, () => {
  let millrace, browser, page, paths;

  before(async () => {
    millrace = await Millrace.start();
    const hash = await events(millrace);
    await queues(millrace);
    await files(millrace);
    await letters(millrace);
    await sources(millrace);
    await act(millrace);
    await batches(millrace);
    const { done, held } = await uploads(millrace);
    await millrace.caughtUp();
    const [{ id: item }] = (await millrace.get('/queues/mail/items?state=new')).items;
    const [{ id: letter }] = (await millrace.get('/dlq')).letters;
    const [{ id: source }] = (await millrace.get('/sources')).items;
    paths = [
      '/?period=24h', '/?period=24h&compare=before', '/articles?stage=indexed', `/articles/${hash}`, '/events', '/sources', '/drift', '/queues',
      '/queues/mail?state=new', `/queues/mail/items/${item}`, '/queues/shard-splitter', '/files', '/files/20250101000000', '/operations', `/operations?open=${source}&tab=job`,
      ...['fields', 'runs', 'due', 'events', 'override', 'edit'].map((tab) => `/operations?open=${source}&tab=${tab}`),
      '/batches', '/batches/proj_x-brand-0/1', '/batch-items/item-1-4', '/uploads', `/uploads/${done}`, `/uploads/${done}?show=done`, `/uploads/${done}?show=rejected`, `/uploads/${held}`, '/pending', '/acts', '/acts/1', '/letters', `/letters/${letter}`, '/system', '/?period=30d&source=nobody',
    ];
    browser = await Browser.open();
    page = browser.page;
    await largeNumbers();
    await page.goto(`http://${millrace.http}/`);
  });

  after(async () => {
    await browser?.close();
    await millrace?.stop();
  });

  /** Has the page of the funnel show numbers as long as those of large installations. */
  async function largeNumbers() {
    const times = (funnel) => ({
      ...funnel, stages: funnel.stages.map((stage) => ({ ...stage, count: stage.count * 1_234_567, unique_articles: stage.unique_articles * 1_034_567 })),
    });
    await page.routeWebSocket(/\/api\/v1\/live/, (socket) => {
      const server = socket.connectToServer();
      server.onMessage((text) => {
        const message = JSON.parse(text);
        socket.send(JSON.stringify(message.funnel ? { ...message, funnel: times(message.funnel) } : message));
      });
    });
  }

  for (const width of widths) {
    test(`has room for everything at ${width} px`, async () => {
      const wrong = [];
      const behind = new Set(); // pages whose filters are behind a button
      await page.setViewportSize({ width, height: 900 });
      for (const path of paths) {
        await page.goto(`http://${millrace.http}/#${path}`);
        await page.reload();
        await browser.shows('connection', 'data-state', 'live');
        await page.waitForSelector('main table, main dl, main .empty, main [data-testid="nothing"]');
        await page.waitForLoadState('networkidle');
        const look = async (what) => {
          const by = await browser.overflow();
          if (by > 0) wrong.push(`${what}: scrolls ${by} px sideways`);
          for (const wrongly of await browser.misplaced({ tables: width >= roomy })) wrong.push(`${what}: ${wrongly}`);
        };
        await look(path);
        const filters = page.locator('[data-testid="filters"]:visible');
        if ((await filters.count()) && !(await page.locator(`[role="dialog"]`).count())) {
          await filters.click();
          await page.waitForSelector('.filters.open');
          await look(`${path} with its filters`);
          behind.add(path);
        }
        if (process.env.SHOTS) {
          await page.screenshot({ path: `${process.env.SHOTS}/${width}${path.replaceAll(/[^a-z0-9]+/gi, '-')}.png`, fullPage: true });
        }
      }
      assert.deepEqual(wrong, []);
      assert.equal(behind.size > 8, width <= 720, [...behind].join());
    });
  }

  test('is looked at on every page that there is', async () => {
    const text = await readFile(new URL('../../query/dashboard/src/shell/pages.ts', import.meta.url), 'utf8');
    const routes = [...text.matchAll(/(?:page\(\s*'[^']+',\s*|below\('[^']+', '[^']+', )'([^']+)'/g)].map(([, route]) => route);
    assert.ok(routes.length > 15, `pages.ts has ${routes.length} routes that are understood`);
    const missing = routes.filter((route) => {
      const matches = new RegExp(`^${route.replaceAll(/:[a-z]+(\([^)]*\))?/gi, '[^/]+')}$`);
      return !paths.some((path) => matches.test(path.replace(/\?.*$/, '')));
    });
    assert.deepEqual(missing, []);
  });

  test('has thrown no errors', () => assert.deepEqual(browser.problems, []));
});
