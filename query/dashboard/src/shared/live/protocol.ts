import type { Funnel, FunnelQuery, Problem } from '../api/types';

/** The messages of the live WebSocket. */

/** Names a snapshot: a reader that comes again with it gets nothing new, or a whole snapshot. */
export interface Position {
  /** Of the server's run; empty: none yet. */
  epoch: string;
  seq: number;
}

export const none: Position = { epoch: '', seq: 0 };

export type Request =
  | ({ op: 'subscribe'; id: string; view: 'funnel' } & FunnelQuery & Position)
  | { op: 'unsubscribe'; id: string };

export type Answer =
  | ({ id: string; funnel: Funnel; error?: undefined; unchanged?: undefined } & Position)
  | ({ id: string; unchanged: true; error?: undefined } & Position)
  | { id: string; error: Problem };

export function parseAnswer(data: unknown): Answer | null {
  if (typeof data !== 'string') return null;
  try {
    const message = JSON.parse(data) as { id?: unknown; error?: unknown; funnel?: unknown; unchanged?: unknown } | null;
    if (typeof message?.id !== 'string') return null;
    const known = message.error ?? message.funnel ?? (message.unchanged === true || null);
    return known ? (message as Answer) : null;
  } catch {
    return null;
  }
}

/** Browsers cannot set headers on a WebSocket, so the token travels as a subprotocol. */
export function protocolsFor(token: string): string[] {
  return token ? ['bearer', token] : [];
}
