// A headless Chromium for tests, with what they ask of its page.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

const executablePath = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome']
  .find((path) => path && existsSync(path));
const missing = 'Chromium is not installed: install it, or set CHROMIUM to its path';
// Nothing may pass in continuous integration by not being run.
export const skip = executablePath || process.env.CI ? false : missing;

/** In a short run, why a test that takes long is left out. */
export const long = process.env.SHORT ? 'takes long: make test-all runs it' : false;
/** Colour schemes, and whether only colours are checked in them. A short run has the light one. */
export const schemes = [['light', false], ['dark', true]].slice(0, long ? 1 : 2);

const args = [
  '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync',
];
const timeout = 60_000; // generous: a busy machine is no failure

const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8').catch(() => '');

export class Browser {
  problems = [];

  /** Opens a window with one page, whose errors are collected. */
  static async open() {
    assert.ok(executablePath, missing);
    const b = new Browser();
    b.profile = await mkdtemp(join(tmpdir(), 'millrace-browser-'));
    b.context = await chromium.launchPersistentContext(b.profile, { executablePath, headless: true, args, timeout });
    b.context.setDefaultTimeout(timeout);
    b.page = b.context.pages()[0] ?? (await b.context.newPage());
    const wait = b.page.waitForSelector.bind(b.page);
    b.page.waitForSelector = (...of) => wait(...of).catch(async (error) => {
      error.message += `\n${b.page.url()} has: ${await b.page.innerText('body').catch(String)}`;
      throw error;
    });
    b.page.on('pageerror', (error) => b.problems.push(String(error)));
    // The page reports its own mistakes there; that a server does not answer is none.
    b.page.on('console', (message) => {
      const text = message.text();
      if (message.type() === 'error' && !/Failed to load resource|WebSocket connection/.test(text)) b.problems.push(text);
    });
    return b;
  }

  async close() {
    await this.context?.close();
    if (this.profile) await rm(this.profile, { recursive: true, force: true, maxRetries: 5 });
  }

  /** Waits for an element by its data-testid, with a value if one is given. */
  shows(testid, attribute, value) {
    const of = attribute ? `[${attribute}="${value}"]` : '';
    return this.page.waitForSelector(`[data-testid="${testid}"]${of}`, { state: 'attached' });
  }

  click(testid) {
    return this.page.click(`[data-testid="${testid}"]`);
  }

  text(testid) {
    return this.page.textContent(`[data-testid="${testid}"]`);
  }

  /** What axe finds wrong with the page as it is, in words: by all of its rules, or by those that look at colours. */
  async violations({ colours = false } = {}) {
    await this.page.evaluate(axe);
    const rules = colours ? { runOnly: ['color-contrast', 'link-in-text-block'] } : {};
    const { violations } = await this.page.evaluate((only) => globalThis.axe.run({ resultTypes: ['violations'], ...only }), rules);
    return violations.flatMap((v) => v.nodes.map((node) => `${v.id}: ${node.target.join(' ')}: ${node.failureSummary}`));
  }

  /**
   * What lies under something else, beyond the edge of the window, or is cut off: of all that people can press or
   * type into, and of tables, where the window has room for them.
   */
  misplaced({ tables }) {
    return this.page.evaluate((wholeTables) => {
      const nameOf = (e) => `${e.tagName.toLowerCase()} “${(e.ariaLabel || e.dataset.testid || e.textContent).trim().slice(0, 40)}”`;
      const visible = (e) => e.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true }) && !e.closest('.visually-hidden, .skip, [aria-hidden="true"]');
      /** Of an element, or of a text, what its scrollable surroundings let one see. */
      const seen = (e) => {
        let { left, right, top, bottom } = e.getBoundingClientRect?.() ?? { left: -Infinity, right: Infinity, top: -Infinity, bottom: Infinity };
        for (let box = e.parentElement; box && box !== document.body; box = box.parentElement) {
          if (getComputedStyle(box).overflowX === 'visible') continue;
          const around = box.getBoundingClientRect();
          [left, right, top, bottom] = [Math.max(left, around.left), Math.min(right, around.right), Math.max(top, around.top), Math.min(bottom, around.bottom)];
        }
        return { left, right, top, bottom };
      };
      const scrolls = (e) => { for (let box = e.parentElement; box; box = box.parentElement) if (/auto|scroll/.test(getComputedStyle(box).overflowX) && box.scrollWidth > box.clientWidth) return true; return false; };
      const wrong = [];
      const all = [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [role="option"]')].filter(visible);
      const boxes = all.map((e) => ({ e, name: nameOf(e), whole: e.getBoundingClientRect(), box: seen(e) }))
        .filter(({ box }) => box.right - box.left > 1 && box.bottom - box.top > 1);
      for (const { e, name, whole, box } of boxes) {
        if (scrolls(e)) continue;
        if (whole.left < -0.5 || whole.right > innerWidth + 0.5) wrong.push(`${name} lies beyond the edge`);
        if (box.right - box.left < whole.width - 1 && !e.closest('.cut')) wrong.push(`${name} is cut off`);
        if (e.matches('button, a.button') && e.scrollWidth > e.clientWidth + 1) wrong.push(`the words of ${name} do not fit`);
      }
      for (const [i, a] of boxes.entries()) {
        for (const b of boxes.slice(i + 1)) {
          if (a.e.contains(b.e) || b.e.contains(a.e) || getComputedStyle(a.e).position === 'sticky' || a.e.closest('.bar, .side') || b.e.closest('.bar, .side')) continue;
          const wide = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
          const high = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top);
          if (wide > 1 && high > 1) wrong.push(`${a.name} and ${b.name} overlap`);
        }
      }
      for (const cell of document.querySelectorAll('td, th, dd')) {
        if (visible(cell) && cell.clientHeight > 160 && cell.textContent.trim().length < 100) wrong.push(`${nameOf(cell)} is squeezed`);
      }
      const words = [...document.querySelectorAll('main *')].filter((e) => visible(e) && !e.closest('.flow, svg') && getComputedStyle(e).clipPath === 'none').flatMap((e) =>
        [...e.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE && node.data.trim()).flatMap((node) => {
          const range = document.createRange();
          range.selectNodeContents(node);
          const around = seen(node);
          return [...range.getClientRects()].map((line) => ({
            node, text: node.data.trim().slice(0, 40),
            left: Math.max(line.left, around.left), right: Math.min(line.right, around.right),
            top: Math.max(line.top, around.top) + 2, bottom: Math.min(line.bottom, around.bottom) - 2, // lines may touch
          }));
        }));
      for (const [i, a] of words.entries()) {
        for (const b of words.slice(i + 1)) {
          const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
          const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
          if (a.node !== b.node && wide > 1 && high > 1) wrong.push(`the words “${a.text}” and “${b.text}” overlap`);
        }
      }
      // A grid has as many columns as a file has.
      for (const table of wholeTables ? document.querySelectorAll('.table-box:not([data-testid="grid"])') : []) {
        const by = table.scrollWidth - table.clientWidth;
        if (visible(table) && by > 0) wrong.push(`the table “${table.ariaLabel || table.getAttribute('aria-labelledby')}” is ${by} px wider than its box`);
      }
      return wrong;
    }, tables);
  }

  /** By how many pixels the page can be scrolled sideways. */
  overflow() {
    return this.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  }
}
