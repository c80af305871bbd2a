import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Funnel } from '../api/types';
import { LiveClient, patience, silence } from './client';
import { healthOf } from './connection';
import type { Health } from './connection';
import type { Request } from './protocol';
import { runWhileSeen } from './visibility';

class FakeSocket {
  onopen: (() => void) | null = null;
  onclose: (() => void) | null = null;
  onmessage: ((message: { data: unknown }) => void) | null = null;
  readonly sent: Request[] = [];
  closed = false;

  constructor(
    readonly address: string,
    readonly protocols: string[],
  ) {}

  send(text: string): void {
    this.sent.push(JSON.parse(text) as Request);
  }
  close(): void {
    this.closed = true;
  }
  answer(body: object): void {
    this.onmessage?.({ data: JSON.stringify(body) });
  }
}

const query = { period: 'today', source: '', tz: 'UTC' };
const question = { view: 'funnel', params: query } as const;
const snapshot = (count: number) => ({ stages: [{ name: 'crawled', count, unique_articles: count }] }) as Funnel;
const delay = 1_000;

function setUp(token = '') {
  const sockets: FakeSocket[] = [];
  const healths: Health[] = [];
  const client = new LiveClient({
    address: () => 'ws://h/api/v1/live',
    token: () => token,
    changed: (connection) => {
      const health = healthOf(connection);
      if (healths.at(-1) !== health) healths.push(health);
    },
    open: (address, protocols) => {
      const socket = new FakeSocket(address, protocols);
      sockets.push(socket);
      return socket as unknown as WebSocket;
    },
    delay: () => delay,
  });
  const listener = { snapshot: vi.fn(), unchanged: vi.fn(), problem: vi.fn() };
  return { client, sockets, healths, listener, last: () => sockets.at(-1)! };
}

describe('the live client', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it('subscribes once it is open and hands every snapshot on', () => {
    const { client, last, listener, healths } = setUp();
    client.subscribe(question, listener);
    client.start();
    expect(last().sent).toEqual([]);

    last().onopen?.();
    expect(last().sent).toEqual([{ op: 'subscribe', id: 'funnel1', view: 'funnel', ...query, epoch: '', seq: 0 }]);

    last().answer({ id: 'funnel1', seq: 1, epoch: 'e', funnel: snapshot(1) });
    last().answer({ id: 'funnel1', seq: 2, epoch: 'e', funnel: snapshot(2) });
    expect(listener.snapshot.mock.calls.map(([funnel]) => funnel.stages[0].count)).toEqual([1, 2]);
    expect(healths).toEqual(['connecting', 'live']);
  });

  it('hands the state of each view to who asked for it', () => {
    const { client, last, listener } = setUp();
    const queues = vi.fn();
    client.subscribe(question, listener);
    client.subscribe({ view: 'queues' }, { snapshot: queues, problem: vi.fn() });
    client.start();
    last().onopen?.();
    expect(last().sent[1]).toEqual({ op: 'subscribe', id: 'queues1', view: 'queues', epoch: '', seq: 0 });
    last().answer({ id: 'queues1', seq: 1, epoch: 'e', queues: { queues: [] } });
    expect(queues).toHaveBeenCalledWith({ queues: [] });
    expect(listener.snapshot).not.toHaveBeenCalled();
  });

  it('sends the token as a subprotocol', () => {
    const { client, last } = setUp('a.b.c');
    client.start();
    expect(last().protocols).toEqual(['bearer', 'a.b.c']);
  });

  it('ends a subscription on the server and no longer reports it', () => {
    const { client, last, listener } = setUp();
    client.start();
    last().onopen?.();
    const end = client.subscribe(question, listener);
    end();
    end();
    expect(last().sent.slice(1)).toEqual([{ op: 'unsubscribe', id: 'funnel1' }]);
    last().answer({ id: 'funnel1', seq: 1, epoch: 'e', funnel: snapshot(1) });
    expect(listener.snapshot).not.toHaveBeenCalled();
  });

  it('reports the problem of a subscription and stays connected', () => {
    const { client, last, listener, healths } = setUp();
    client.subscribe({ view: 'funnel', params: { ...query, tz: 'Mars/Olympus' } }, listener);
    client.start();
    last().onopen?.();
    last().answer({ id: 'funnel1', error: { title: 'Bad request', field: 'tz' } });
    expect(listener.problem).toHaveBeenCalledWith({ title: 'Bad request', field: 'tz' });
    expect(healths).toEqual(['connecting', 'live']);
  });

  it('comes back by itself after a loss, with the position of its last snapshot', () => {
    const { client, sockets, last, listener, healths } = setUp();
    client.subscribe(question, listener);
    client.start();
    last().onopen?.();
    last().answer({ id: 'funnel1', seq: 7, epoch: 'e', funnel: snapshot(1) });
    last().onclose?.();
    expect(healths.at(-1)).toBe('lost');

    vi.advanceTimersByTime(delay - 1);
    expect(sockets).toHaveLength(1);
    vi.advanceTimersByTime(1);
    expect(sockets).toHaveLength(2);
    expect(healths.at(-1)).toBe('lost');

    last().onopen?.();
    expect(last().sent).toEqual([{ op: 'subscribe', id: 'funnel1', view: 'funnel', ...query, epoch: 'e', seq: 7 }]);
    expect(healths.at(-1)).toBe('live');

    last().answer({ id: 'funnel1', seq: 7, epoch: 'e', unchanged: true });
    expect(listener.snapshot).toHaveBeenCalledTimes(1);
    expect(listener.unchanged).toHaveBeenCalledTimes(1);
    vi.advanceTimersByTime(patience);
    expect(healths.at(-1)).toBe('live');

    last().answer({ id: 'funnel1', seq: 8, epoch: 'e', funnel: snapshot(2) });
    expect(listener.snapshot).toHaveBeenCalledTimes(2);
  });

  it('asks for a whole snapshot after a problem', () => {
    const { client, last, listener } = setUp();
    client.subscribe(question, listener);
    client.start();
    last().onopen?.();
    last().answer({ id: 'funnel1', seq: 7, epoch: 'e', funnel: snapshot(1) });
    last().answer({ id: 'funnel1', error: { title: 'Service Unavailable' } });
    last().onclose?.();
    vi.advanceTimersByTime(delay);
    last().onopen?.();
    expect(last().sent).toEqual([{ op: 'subscribe', id: 'funnel1', view: 'funnel', ...query, epoch: '', seq: 0 }]);
  });

  it('retries at once when it is woken', () => {
    const { client, sockets, last } = setUp();
    client.start();
    last().onclose?.();
    client.wake();
    expect(sockets).toHaveLength(2);
    vi.advanceTimersByTime(delay);
    expect(sockets).toHaveLength(2);
  });

  it('does not listen to a socket that it has given up', () => {
    const { client, sockets, listener, healths } = setUp();
    client.subscribe(question, listener);
    client.start();
    sockets[0]!.onclose?.();
    client.wake();
    sockets[1]!.onopen?.();
    sockets[0]!.onclose?.();
    sockets[0]!.answer({ id: 'funnel1', seq: 1, epoch: 'e', funnel: snapshot(9) });
    expect(listener.snapshot).not.toHaveBeenCalled();
    expect(healths.at(-1)).toBe('live');
  });

  it('gives up a connection that never opens', () => {
    const { client, sockets, healths } = setUp();
    client.start();
    vi.advanceTimersByTime(patience);
    expect(healths.at(-1)).toBe('lost');
    expect(sockets[0]!.closed).toBe(true);
  });

  it('asks again after a silence, and takes no answer for a loss', () => {
    const { client, last, listener, healths } = setUp();
    client.subscribe(question, listener);
    client.start();
    last().onopen?.();
    last().answer({ id: 'funnel1', seq: 1, epoch: 'e', funnel: snapshot(1) });

    vi.advanceTimersByTime(silence);
    expect(last().sent.slice(1)).toEqual([
      { op: 'unsubscribe', id: 'funnel1' },
      { op: 'subscribe', id: 'funnel1', view: 'funnel', ...query, epoch: 'e', seq: 1 },
    ]);
    last().answer({ id: 'funnel1', seq: 1, epoch: 'e', unchanged: true });
    expect(healths.at(-1)).toBe('live');

    vi.advanceTimersByTime(silence + patience);
    expect(healths.at(-1)).toBe('lost');
  });

  it('keeps quiet about messages that it does not understand', () => {
    const { client, last, listener, healths } = setUp();
    client.subscribe(question, listener);
    client.start();
    last().onopen?.();
    for (const data of ['{', 'null', '{"id":7}', '{"id":"funnel1"}', new ArrayBuffer(2)]) last().onmessage?.({ data });
    expect(listener.snapshot).not.toHaveBeenCalled();
    expect(listener.problem).not.toHaveBeenCalled();
    expect(healths.at(-1)).toBe('live');
  });

  it('opens a new connection for a new token', () => {
    const { client, sockets } = setUp();
    client.start();
    sockets[0]!.onopen?.();
    client.restart();
    expect(sockets[0]!.closed).toBe(true);
    expect(sockets).toHaveLength(2);
  });

  it('costs nothing in a hidden tab, and asks for what is newer when it is seen', () => {
    const { client, sockets, last, listener } = setUp();
    const page = {
      hidden: false,
      react: () => {},
      addEventListener(_: string, react: () => void) {
        page.react = react;
      },
    };
    const show = (seen: boolean) => {
      page.hidden = !seen;
      page.react();
    };
    client.subscribe(question, listener);
    runWhileSeen(client, page);
    last().onopen?.();
    last().answer({ id: 'funnel1', seq: 7, epoch: 'e', funnel: snapshot(1) });

    show(false);
    expect(last().closed).toBe(true);
    client.restart(); // for a new token
    expect(vi.getTimerCount()).toBe(0);
    expect(sockets).toHaveLength(1);

    show(true);
    last().onopen?.();
    expect(last().sent).toEqual([{ op: 'subscribe', id: 'funnel1', view: 'funnel', ...query, epoch: '', seq: 0 }]);
    last().answer({ id: 'funnel1', seq: 8, epoch: 'e', funnel: snapshot(2) });

    show(false);
    show(true);
    last().onopen?.();
    expect(sockets).toHaveLength(3);
    expect(last().sent).toEqual([{ op: 'subscribe', id: 'funnel1', view: 'funnel', ...query, epoch: 'e', seq: 8 }]);
  });

  it('does not connect from a tab that was opened in the background', () => {
    const { client, sockets } = setUp();
    runWhileSeen(client, { hidden: true, addEventListener: () => {} });
    expect(sockets).toHaveLength(0);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('stops for good', () => {
    const { client, sockets } = setUp();
    client.start();
    sockets[0]!.onclose?.();
    client.stop();
    vi.advanceTimersByTime(60_000);
    expect(sockets).toHaveLength(1);
  });
});
