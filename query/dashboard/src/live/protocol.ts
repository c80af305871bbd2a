import type { Funnel, FunnelQuery, Problem } from '../api/types';

/** The messages of the live WebSocket. */

export type Request =
  | ({ op: 'subscribe'; id: string; view: 'funnel' } & FunnelQuery)
  | { op: 'unsubscribe'; id: string };

export type Answer =
  | { id: string; seq: number; funnel: Funnel; error?: undefined }
  | { id: string; error: Problem };

export function parseAnswer(data: unknown): Answer | null {
  if (typeof data !== 'string') return null;
  try {
    const message = JSON.parse(data) as Partial<Answer> | null;
    if (typeof message?.id !== 'string') return null;
    const known = message.error ?? ('funnel' in message && message.funnel);
    return known ? (message as Answer) : null;
  } catch {
    return null;
  }
}

/** Browsers cannot set headers on a WebSocket, so the token travels as a subprotocol. */
export function protocolsFor(token: string): string[] {
  return token ? ['bearer', token] : [];
}
