import { computed, reactive, shallowReactive } from 'vue';
import { DetailedError, Upload as Transfer } from 'tus-js-client';
import { token } from '../shared/api/access';
import { endpoint } from '../shared/api/address';
import { refusal } from '../shared/api/client';
import { storage } from './begun';
import { reload } from './useUploads';

interface Options {
  /** What makes results of the rows: "copy", or a queue. */
  processor: string;
  /** Waits with its first row until somebody has looked at it. */
  hold: boolean;
  /** Names of columns by field. */
  mapping: Record<string, string>;
}

/** A file on its way. */
export interface Sending {
  readonly key: number;
  readonly name: string;
  readonly size: number;
  state: 'waiting' | 'sending' | 'done' | 'failed';
  /** Bytes that are sent, and how many a second. */
  sent: number;
  rate: number;
  /** Bytes that had come in before, with an earlier visit; 0: it began anew. */
  resumed: number;
  /** Why it failed. */
  error: string;
  /** The upload, once its file is on disk. */
  job: string;
}

/** Files go on being sent while other pages are looked at. After a reload they go on when they are chosen again. */
export const sendings = shallowReactive<Sending[]>([]);
export const underWay = computed(() => sendings.filter(({ state }) => state === 'waiting' || state === 'sending').length);

/** Proxies often bound the size of a request; this is below what most of them do. */
const chunkSize = 64 * 2 ** 20;
/** A server that restarts is back within these milliseconds. */
const retryDelays = [0, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000];

const stops = new Map<number, AbortController>();
let keys = 0;
/** One file after the other: side by side none would be there sooner. */
let turn: Promise<void> = Promise.resolve();

window.addEventListener('beforeunload', (event) => {
  if (underWay.value) event.preventDefault();
});

export function send(file: File, options: Options): void {
  const one = reactive<Sending>({
    key: keys++, name: file.name, size: file.size, state: 'waiting', sent: 0, rate: 0, resumed: 0, error: '', job: '',
  });
  stops.set(one.key, new AbortController());
  sendings.unshift(one);
  turn = turn.then(() => sendNow(one, file, options));
}

async function sendNow(one: Sending, file: File, options: Options): Promise<void> {
  const signal = stops.get(one.key)?.signal;
  if (!signal) return; // it was dropped before its turn
  one.state = 'sending';
  try {
    one.job = await transfer(one, file, options, signal);
    one.sent = file.size;
    one.state = 'done';
  } catch (error) {
    one.state = 'failed';
    one.error = await reasonOf(error as Error);
  }
  stops.delete(one.key);
  reload();
}

/** Sends a file, or what is missing of it, and returns the upload's id. */
async function transfer(one: Sending, file: File, options: Options, signal: AbortSignal): Promise<string> {
  const begun = Date.now();
  let from = -1;
  return new Promise((resolve, reject) => {
    const upload = new Transfer(file, {
      endpoint: endpoint('api/v1/uploads/tus'),
      chunkSize,
      retryDelays,
      urlStorage: storage,
      removeFingerprintOnSuccess: true,
      metadata: metadataOf(file, options),
      onBeforeRequest: (request) => {
        if (token.value) request.setHeader('Authorization', `Bearer ${token.value}`);
        if (request.getMethod() === 'PATCH' && from < 0) one.resumed = from = Number(request.getHeader('Upload-Offset'));
      },
      onProgress: (sent) => {
        one.sent = sent;
        one.rate = (sent - from) / Math.max(0.001, (Date.now() - begun) / 1_000);
      },
      onError: reject,
      onSuccess: () => resolve(upload.url?.split('/').at(-1) ?? ''),
    });
    signal.addEventListener('abort', () => {
      upload.abort(true).catch(() => undefined); // the server deletes it by itself
      reject(new Error('It was stopped.'));
    });
    upload.findPreviousUploads().then(([before]) => {
      if (signal.aborted) return;
      if (before) upload.resumeFromPreviousUpload(before);
      upload.start();
    }, reject);
  });
}

/** What the server said, where it has answered. */
async function reasonOf(error: Error): Promise<string> {
  if (!(error instanceof DetailedError)) return error.message;
  const answer = error.originalResponse;
  if (!answer || answer.getStatus() === 0) return 'The connection broke. Choose the file again, and it goes on.';
  return (await refusal(new Response(answer.getBody(), { status: answer.getStatus() }))).message;
}

/** What the server is told of a file before its first byte. */
export function metadataOf(file: File, { processor, hold, mapping }: Options): Record<string, string> {
  const named = Object.entries(mapping).flatMap(([field, column]) => (column.trim() ? [[field, column.trim()]] : []));
  return {
    filename: file.name,
    ...(processor !== 'copy' && { processor }),
    ...(named.length && { mapping: JSON.stringify(Object.fromEntries(named)) }),
    ...(hold && { hold: 'true' }),
  };
}

/** Stops a file that is on its way, or forgets one that has come or failed. */
export function drop(one: Sending): void {
  stops.get(one.key)?.abort();
  stops.delete(one.key);
  const place = sendings.findIndex(({ key }) => key === one.key);
  if (place >= 0) sendings.splice(place, 1);
}
