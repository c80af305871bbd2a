/**
 * The last good answers, so that the page has numbers while the server is away and right after it is loaded again.
 * They are kept for the tab only, like the token: a shared computer forgets them when the tab is closed.
 */
const prefix = 'millrace.answer ';

/** More questions than anybody switches between. */
export const most = 12;

interface Kept {
  at: number;
  value: unknown;
}

export function remember(question: string, value: unknown, now = Date.now()): void {
  try {
    sessionStorage.setItem(prefix + question, JSON.stringify({ at: now, value } satisfies Kept));
  } catch {
    // A full storage: the page works without it.
  }
  forgetOldest();
}

export function recall<T>(question: string): T | null {
  return (read(prefix + question)?.value as T | undefined) ?? null;
}

function forgetOldest(): void {
  const keys = Object.keys(sessionStorage).filter((key) => key.startsWith(prefix));
  if (keys.length <= most) return;
  const age = (key: string) => read(key)?.at ?? 0;
  keys.sort((a, b) => age(b) - age(a));
  for (const key of keys.slice(most)) sessionStorage.removeItem(key);
}

function read(key: string): Kept | null {
  try {
    return JSON.parse(sessionStorage.getItem(key) ?? 'null') as Kept | null;
  } catch {
    return null;
  }
}
