import { computed, reactive, shallowReactive } from 'vue';
import { sendForm } from '../shared/api/send';
import type { Schema } from '../shared/api/types';
import { reload } from './useUploads';

export interface Options {
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
  /** Why it failed. */
  error: string;
  /** The upload, once its file is on disk. */
  job: string;
}

/** Files go on being sent while other pages are looked at; for as long as the tab is open. */
export const sendings = shallowReactive<Sending[]>([]);
export const underWay = computed(() => sendings.filter(({ state }) => state === 'waiting' || state === 'sending').length);

const stops = new Map<number, AbortController>();
let keys = 0;
/** One file after the other: side by side none would be there sooner. */
let turn: Promise<void> = Promise.resolve();

window.addEventListener('beforeunload', (event) => {
  if (underWay.value) event.preventDefault();
});

export function send(file: File, options: Options): void {
  const one = reactive<Sending>({ key: keys++, name: file.name, size: file.size, state: 'waiting', sent: 0, rate: 0, error: '', job: '' });
  stops.set(one.key, new AbortController());
  sendings.unshift(one);
  turn = turn.then(() => sendNow(one, file, options));
}

async function sendNow(one: Sending, file: File, options: Options): Promise<void> {
  const signal = stops.get(one.key)?.signal;
  if (!signal) return; // it was dropped before its turn
  const begun = Date.now();
  one.state = 'sending';
  try {
    const told = (sent: number, all: number) => {
      // What is sent has the form around the file, too.
      one.sent = Math.min(file.size, Math.round((sent / all) * file.size));
      one.rate = one.sent / Math.max(0.001, (Date.now() - begun) / 1_000);
    };
    one.job = (await sendForm<Schema<'UploadReceived'>>('uploads', formOf(file, options), told, signal)).jobId;
    one.state = 'done';
  } catch (error) {
    one.state = 'failed';
    one.error = (error as Error).message;
  }
  stops.delete(one.key);
  reload();
}

/** What the server is sent. Fields stand before the file, so that one that breaks a rule is refused before it is read. */
export function formOf(file: File, { processor, hold, mapping }: Options): FormData {
  const form = new FormData();
  const named = Object.entries(mapping).flatMap(([field, column]) => (column.trim() ? [[field, column.trim()]] : []));
  if (processor !== 'copy') form.set('processor', processor);
  if (named.length) form.set('mapping', JSON.stringify(Object.fromEntries(named)));
  if (hold) form.set('hold', 'true');
  form.set('file', file);
  return form;
}

/** Stops a file that is on its way, or forgets one that has come or failed. */
export function drop(one: Sending): void {
  stops.get(one.key)?.abort();
  stops.delete(one.key);
  const place = sendings.findIndex(({ key }) => key === one.key);
  if (place >= 0) sendings.splice(place, 1);
}
