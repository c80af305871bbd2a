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

  /** By how many pixels the page can be scrolled sideways. */
  overflow() {
    return this.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  }
}
