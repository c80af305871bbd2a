// Starts the built program for a test, on ports of its own.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, readFile, readdir, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const binary = process.env.MILLRACE_BIN ?? fileURLToPath(new URL('../../bin/millrace', import.meta.url));
const limit = 90_000; // generous: a busy machine is no failure

/** Calls until the result is true; throws when it does not become so in time. */
export async function poll(what, holds, most = limit) {
  for (const end = Date.now() + most; !(await holds());) {
    if (Date.now() > end) throw new Error(`waited ${most / 1000} s for ${what}`);
    await pause(20);
  }
}

export class Millrace {
  #child;
  #log = '';

  /** Starts a server in an empty data folder, with settings, and waits until it is ready. */
  static async start(settings = {}) {
    const m = new Millrace();
    m.settings = settings;
    m.data = await mkdtemp(join(tmpdir(), 'millrace-node-'));
    await chmod(m.data, 0o711); // Postgres may run as another user
    const [http, nats, clickhouse, clickhouseHTTP, postgres] = await freeAddresses(5);
    Object.assign(m, { http, nats, clickhouse, clickhouseHTTP, postgres });
    await m.begin();
    return m;
  }

  /** Starts the process, again after it has ended. */
  async begin() {
    this.#log = '';
    const child = spawn(binary, ['up', '--no-demo', '--data', this.data], {
      stdio: ['ignore', 'ignore', 'pipe'],
      env: {
        ...process.env,
        MILLRACE_DEDUP_WINDOW: '1m', // for clients that send message ids
        MILLRACE_HTTP_ADDR: this.http,
        MILLRACE_NATS_LISTEN: this.nats,
        MILLRACE_CLICKHOUSE_LISTEN: this.clickhouse,
        MILLRACE_CLICKHOUSE_HTTP: this.clickhouseHTTP,
        MILLRACE_POSTGRES_LISTEN: this.postgres,
        ...this.settings,
      },
    });
    this.#child = child;
    process.once('exit', () => child.kill('SIGKILL'));
    child.stderr.setEncoding('utf8').on('data', (text) => (this.#log += text));
    await poll('the server to be ready', async () => {
      if (child.exitCode !== null) throw new Error(`the server has ended:\n${this.#log}`);
      const answer = await fetch(`http://${this.http}/ready`).catch(() => undefined);
      return answer?.ok;
    });
  }

  /** Ends the process as kill -9 does. */
  async kill() {
    await this.#end('SIGKILL');
  }

  /** Has ClickHouse stand still, as a disk that does not answer does. Returns what has it go on. */
  async stallClickHouse() {
    const pids = await descendants(this.#child.pid, (args) => args.includes('clickhouse'));
    if (pids.length === 0) throw new Error('no process of ClickHouse was found');
    const signal = (name) => pids.forEach((pid) => process.kill(pid, name));
    signal('SIGSTOP');
    return () => signal('SIGCONT');
  }

  /** Ends the process and removes its data. Returns its exit status. */
  async stop() {
    const [status] = await this.#end('SIGTERM');
    await rm(this.data, { recursive: true, force: true });
    return status;
  }

  async #end(signal) {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return [this.#child.exitCode];
    const exit = once(this.#child, 'exit');
    this.#child.kill(signal);
    return exit;
  }

  async get(path) {
    const answer = await fetch(`http://${this.http}/api/v1${path}`);
    if (!answer.ok) throw new Error(`GET ${path}: ${answer.status}: ${await answer.text()}`);
    return answer.json();
  }

  /** Posts a document; returns the status and the answer. */
  async send(path, body) {
    const answer = await fetch(`http://${this.http}/api/v1${path}`, {
      method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body),
    });
    return { status: answer.status, body: await answer.json() };
  }

  /** Publishes over HTTP; returns the status. */
  async post(event) {
    return (await this.send('/events', event)).status;
  }

  /** Asks ClickHouse as an analyst; the rows are objects. */
  async ask(sql) {
    const answer = await fetch(`http://${this.clickhouseHTTP}/?user=analyst&default_format=JSONEachRow`, { method: 'POST', body: sql });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${sql}: ${answer.status}: ${text}`);
    return text.split('\n').filter(Boolean).map((line) => JSON.parse(line));
  }

  /** Waits until every event of the stream is counted. */
  async caughtUp() {
    await poll('the funnel to catch up', async () => (await this.get('/funnel?period=24h')).stream.behind === 0);
  }
}

/** The children of a process whose arguments match, with all that they have started. Needs /proc. */
async function descendants(parent, matches) {
  const children = [];
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number)) {
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => ''); // it may have ended
    if (Number(stat.split(') ')[1]?.split(' ')[1]) !== parent) continue;
    const args = (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')).split('\0');
    if (matches(args)) children.push(pid, ...(await descendants(pid, () => true)));
  }
  return children;
}

/**
 * Addresses that nobody listens on, below the range that outgoing connections
 * take theirs from.
 */
async function freeAddresses(count) {
  const found = new Set();
  while (found.size < count) {
    const port = 15_000 + Math.floor(Math.random() * 17_000);
    const server = createServer();
    const free = await new Promise((resolve) => {
      server.once('error', () => resolve(false)).listen(port, '127.0.0.1', () => resolve(true));
    });
    if (free) {
      await new Promise((resolve) => server.close(resolve));
      found.add(`127.0.0.1:${port}`);
    }
  }
  return found;
}
