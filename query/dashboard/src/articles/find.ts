import { api } from '../shared/api/client';

/** What a text that somebody looks for may be. */
type Wanted = { kind: 'hash' | 'url' | 'trace'; value: string };

export function wantedBy(text: string): Wanted | null {
  const value = text.trim();
  if (value === '') return null;
  if (/^[0-9a-f]{64}$/i.test(value)) return { kind: 'hash', value: value.toLowerCase() };
  return { kind: /^[a-z][a-z0-9+.-]*:\/\//i.test(value) ? 'url' : 'trace', value };
}

/**
 * The hash of the article that a URL or a trace is of; null when no event names it. The server is asked, because a page
 * that was not served over TLS cannot hash, and an article may go by another URL.
 */
export async function findArticle({ kind, value }: Wanted, signal?: AbortSignal): Promise<string | null> {
  if (kind === 'hash') return value;
  const query = kind === 'url' ? { article_url: value, limit: 1 } : { trace_id: value, limit: 1 };
  const { data } = await api.GET('/events', { params: { query }, signal: signal ?? null });
  return data?.events?.[0]?.url_hash ?? null;
}
