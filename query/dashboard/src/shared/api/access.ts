import { computed, ref } from 'vue';

const key = 'millrace.token';

export type Scope = 'read' | 'work' | 'uploads' | 'admin';

/**
 * The token of a secured server. It is kept for the tab only: a shared computer forgets it when the tab is closed.
 */
export const token = ref(sessionStorage.getItem(key) ?? '');

/** True from the moment that the server refused us until a token is given. */
export const tokenWanted = ref(false);

export function giveToken(value: string): void {
  token.value = value.trim();
  tokenWanted.value = false;
  sessionStorage.setItem(key, token.value);
}

const scopes = computed(() => scopesOf(token.value));

/**
 * Whether the page offers what needs a scope. It decides only what is shown: the server checks every request. A server
 * that asks for no token allows everything.
 */
export function can(scope: Scope): boolean {
  const all = scopes.value;
  return all === null || all.includes(scope) || all.includes('admin') || (scope === 'uploads' && all.includes('work'));
}

/** The scopes that a token carries, as text or as a list; null for what is no token. */
export function scopesOf(jwt: string): string[] | null {
  const payload = jwt.split('.')[1];
  if (!payload) return null;
  try {
    const bytes = Uint8Array.from(atob(payload.replaceAll('-', '+').replaceAll('_', '/')), (c) => c.charCodeAt(0));
    const claims = JSON.parse(new TextDecoder().decode(bytes)) as { scope?: unknown; scopes?: unknown };
    return [claims.scope, claims.scopes].flatMap((list) =>
      typeof list === 'string' ? list.split(/\s+/).filter(Boolean) : Array.isArray(list) ? list.map(String) : [],
    );
  } catch {
    return null;
  }
}
