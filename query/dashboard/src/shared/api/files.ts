import { token } from './access';
import { refusal } from './client';

/** Sends and takes files, which the typed client does not: what it sends and reads is JSON. */
export async function request(address: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (token.value) headers.set('Authorization', `Bearer ${token.value}`);
  const response = await fetch(address, { ...init, headers });
  if (!response.ok) throw await refusal(response);
  return response;
}
