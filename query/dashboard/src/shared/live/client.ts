import type { Problem } from '../api/types';
import { backoff } from './backoff';
import { next, stopped } from './connection';
import type { Connection, ConnectionEvent } from './connection';
import { none, parseAnswer, protocolsFor } from './protocol';
import type { Position, Question, Request, ViewName, Views } from './protocol';

interface Listener<V extends ViewName = ViewName> {
  snapshot(state: Views[V]): void;
  /** What was shown last is still what there is. */
  unchanged?(): void;
  problem(problem: Problem): void;
}

interface LiveOptions {
  address: () => string;
  token: () => string;
  changed: (connection: Connection) => void;
  /** The ones of the browser unless given; tests bring their own. */
  open?: (address: string, protocols: string[]) => WebSocket;
  delay?: (failures: number) => number;
}

interface Subscription {
  readonly id: string;
  question: Question;
  listener: Listener;
  /** Of the last snapshot. */
  last: Position;
  /** The server knows of it on the present connection. */
  asked: boolean;
}

/** The server is silent while nothing changes; after this long we ask again, to learn whether it is still there. */
export const silence = 20_000;
/** How long an opening connection, or an answer that is due, is waited for. */
export const patience = 8_000;

/**
 * One WebSocket with any number of subscriptions. It reconnects by itself and subscribes again, with the position of
 * the last snapshot: the answer is that nothing is new, or a whole snapshot.
 */
export class LiveClient {
  private connection: Connection = stopped;
  private socket: WebSocket | null = null;
  private readonly subscriptions = new Set<Subscription>();
  private readonly ids = new Map<ViewName, number>();
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly options: LiveOptions) {}

  start(): void {
    this.take('start');
  }

  stop(): void {
    this.take('stop');
  }

  /** For a new token: the server reads it only when a connection opens. What was stopped stays so. */
  restart(): void {
    const ran = this.connection.phase !== 'stopped';
    this.stop();
    // It may see other things, so nothing that was shown before is known to be the same.
    for (const subscription of this.subscriptions) subscription.last = none;
    if (ran) this.start();
  }

  /** The network came back, or went: retry now, or make sure that the connection still lives. */
  wake(): void {
    if (this.connection.phase === 'live') this.renew();
    else this.take('wake');
  }

  /** Returns the function that ends the subscription. */
  subscribe<V extends ViewName>(question: Question<V>, listener: Listener<V>): () => void {
    // The server sends the same message to all whose ids are equal, so they are counted and not random.
    const n = (this.ids.get(question.view) ?? 0) + 1;
    this.ids.set(question.view, n);
    const subscription: Subscription = {
      id: `${question.view}${n}`, question, listener: listener as Listener, last: none, asked: false,
    };
    this.subscriptions.add(subscription);
    if (this.connection.phase === 'live') this.ask(subscription);
    return () => {
      if (!this.subscriptions.delete(subscription) || this.connection.phase !== 'live') return;
      this.send({ op: 'unsubscribe', id: subscription.id });
      // Its answer may have been the one we were waiting for.
      this.expectSilence();
    };
  }

  private take(event: ConnectionEvent): void {
    const before = this.connection;
    this.connection = next(before, event, this.options.delay ?? backoff);
    if (this.connection === before) return;
    if (this.connection.phase !== before.phase) this.enter(this.connection);
    this.options.changed(this.connection);
  }

  private enter(connection: Connection): void {
    clearTimeout(this.timer);
    switch (connection.phase) {
      case 'connecting':
        this.connect();
        this.timer = setTimeout(() => this.take('closed'), patience);
        break;
      case 'live':
        this.renew();
        break;
      case 'lost':
        this.hangUp();
        this.timer = setTimeout(() => this.take('retry'), connection.retryIn);
        break;
      case 'stopped':
        this.hangUp();
    }
  }

  private connect(): void {
    const open = this.options.open ?? ((address, protocols) => new WebSocket(address, protocols));
    const socket = open(this.options.address(), protocolsFor(this.options.token()));
    this.socket = socket;
    // A socket that was given up may still report; only the present one is listened to.
    const current = (react: () => void) => () => {
      if (this.socket === socket) react();
    };
    socket.onopen = current(() => this.take('opened'));
    socket.onclose = current(() => this.take('closed'));
    socket.onmessage = (message) => current(() => this.receive(message.data))();
  }

  private hangUp(): void {
    this.socket?.close();
    this.socket = null;
    for (const subscription of this.subscriptions) subscription.asked = false;
  }

  private receive(data: unknown): void {
    const answer = parseAnswer(data);
    if (!answer) return;
    this.take('answered');
    this.expectSilence();
    for (const subscription of this.subscriptions) {
      if (subscription.id !== answer.id) continue;
      if (answer.error) {
        // What comes next is told again: this problem has taken the snapshot's place.
        subscription.last = none;
        subscription.listener.problem(answer.error);
        continue;
      }
      subscription.last = { epoch: answer.epoch, seq: answer.seq };
      const state = answer[subscription.question.view];
      if (state) subscription.listener.snapshot(state);
      else subscription.listener.unchanged?.();
    }
  }

  /** Asks for every subscription anew. */
  private renew(): void {
    for (const subscription of this.subscriptions) {
      if (subscription.asked) this.send({ op: 'unsubscribe', id: subscription.id });
      this.ask(subscription);
    }
  }

  private ask(subscription: Subscription): void {
    subscription.asked = true;
    const { view, params } = subscription.question;
    this.send({ op: 'subscribe', id: subscription.id, view, ...params, ...subscription.last });
    this.expectAnswer();
  }

  private send(request: Request): void {
    this.socket?.send(JSON.stringify(request));
  }

  private expectAnswer(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.take('closed'), patience);
  }

  private expectSilence(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.renew(), silence);
  }
}
