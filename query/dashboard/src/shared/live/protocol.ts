import type { Problem, Schema } from '../api/types';

/** The messages of the live WebSocket. */

/** What each view shows, by its name. */
export type Views = Required<Pick<Schema<'LiveSnapshot'>, 'funnel' | 'queues' | 'lag' | 'dlq' | 'uploads'>>;
export type ViewName = keyof Views;

/** What is asked: a view, and its parameters. */
export interface Question<V extends ViewName = ViewName> {
  view: V;
  params?: Record<string, string>;
}

/** Names a snapshot: a reader that comes again with it gets nothing new, or a whole snapshot. */
export interface Position {
  /** Of the server's run; empty: none yet. */
  epoch: string;
  seq: number;
}

export const none: Position = { epoch: '', seq: 0 };

export type Request = ({ op: 'subscribe'; id: string; view: string } & Position) | { op: 'unsubscribe'; id: string };

type Answer =
  | ({ id: string; unchanged?: boolean; error?: undefined } & Position & Partial<Views>)
  | { id: string; error: Problem };

export function parseAnswer(data: unknown): Answer | null {
  if (typeof data !== 'string') return null;
  try {
    const message = JSON.parse(data) as Partial<Answer> | null;
    if (typeof message?.id !== 'string') return null;
    return message.error || ('epoch' in message && typeof message.epoch === 'string') ? (message as Answer) : null;
  } catch {
    return null;
  }
}

/** Browsers cannot set headers on a WebSocket, so the token travels as a subprotocol. */
export function protocolsFor(token: string): string[] {
  return token ? ['bearer', token] : [];
}
