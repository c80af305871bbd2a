import { ref } from 'vue';

const key = 'millrace.token';

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
