import { defaultOptions } from 'tus-js-client';
import type { PreviousUpload } from 'tus-js-client';
import { shallowRef } from 'vue';
import { token } from '../shared/api/access';

/** Keeps the addresses of files on their way in this browser, until all of a file has come in. */
export const storage = defaultOptions.urlStorage;

/** A file that an earlier visit has begun to send. */
interface Begun {
  readonly key: string;
  readonly url: string;
  readonly name: string;
  readonly size: number;
  /** Bytes that have come in. */
  readonly sent: number;
}

/** Files that go on when they are chosen again. */
export const begun = shallowRef<Begun[]>([]);

/** Asks for the files that earlier visits have begun. Those that are there, or gone, are forgotten. */
export async function findBegun(): Promise<void> {
  const found = await Promise.all((await storage.findAllUploads()).map(ask));
  begun.value = found.filter((one) => one !== null);
}

async function ask({ uploadUrl, urlStorageKey, size, metadata }: PreviousUpload): Promise<Begun | null> {
  if (!uploadUrl) return null;
  const answer = await call(uploadUrl, 'HEAD');
  const sent = Number(answer?.headers.get('Upload-Offset') ?? 0);
  if (answer?.status === 404 || (size !== null && sent >= size)) {
    await storage.removeUpload(urlStorageKey);
    return null;
  }
  return { key: urlStorageKey, url: uploadUrl, name: metadata.filename ?? '', size: size ?? 0, sent };
}

/** Gives a file up. The server would delete it by itself, later. */
export async function giveUp(one: Begun): Promise<void> {
  begun.value = begun.value.filter(({ key }) => key !== one.key);
  await storage.removeUpload(one.key);
  await call(one.url, 'DELETE');
}

/** Undefined: there is no answer. */
function call(url: string, method: string): Promise<Response | undefined> {
  const authorization: Record<string, string> = token.value ? { Authorization: `Bearer ${token.value}` } : {};
  return fetch(url, { method, headers: { 'Tus-Resumable': '1.0.0', ...authorization } }).catch(() => undefined);
}
