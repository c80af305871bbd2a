import type { Schema } from '../shared/api/types';

export type Upload = Schema<'Upload'>;
export type Item = Schema<'UploadItem'>;
export type State = Upload['queue_state'];
export type Status = Item['status'];

export const states = ['QUEUED', 'RUNNING', 'PAUSED', 'DONE', 'FAILED'] as const satisfies readonly State[];
export const statuses = ['PENDING', 'PROCESSING', 'DONE', 'ERROR', 'NOT_FOUND', 'SKIPPED'] as const satisfies readonly Status[];
export const kinds = ['csv', 'ndjson', 'xlsx', 'zip'] as const satisfies readonly Item['job_type'][];
/** Items that the server processes again when it is asked to. */
export const final = ['ERROR', 'NOT_FOUND', 'DONE', 'SKIPPED'] as const satisfies readonly Status[];

type Tone = 'good' | 'warn' | 'bad' | 'accent' | '';
const tones: Record<State | Status, Tone> = {
  QUEUED: '', RUNNING: 'accent', PAUSED: 'warn', DONE: 'good', FAILED: 'bad',
  PENDING: '', PROCESSING: 'accent', ERROR: 'bad', NOT_FOUND: 'warn', SKIPPED: '',
};
export const toneOf = (state: State | Status): Tone => tones[state];

/** A status or state as people read it: "not found". */
export const wordOf = (state: State | Status): string => state.toLowerCase().replaceAll('_', ' ');

export const isOpen = ({ queue_state: state }: Upload): boolean => state === 'QUEUED' || state === 'RUNNING' || state === 'PAUSED';
/** It goes on when it is resumed: a queue that was gone may be there again. */
export const isResumable = ({ queue_state: state, processor, cancelled }: Upload): boolean =>
  !cancelled && (state === 'PAUSED' || (state === 'FAILED' && processor !== 'copy'));
/** It changes by itself. */
export const isMoving = ({ queue_state: state }: Upload): boolean => state === 'QUEUED' || state === 'RUNNING';
/** Its file can be read otherwise: nothing of it is persisted. */
export const isHeld = ({ queue_state: state, total_items: items, rejected_rows: rejected, columns }: Upload): boolean =>
  state === 'PAUSED' && items === 0 && rejected === 0 && columns.length === 0;

/** Rows of the file that have been read. */
export const rowsOf = ({ total_items: items, rejected_rows: rejected }: Upload): number => items + rejected;
export const pendingOf = ({ statuses: { PENDING, PROCESSING } }: Upload): number => PENDING + PROCESSING;

/** How far the items of an upload are. */
export function partsOf({ statuses: of }: Upload): { tone: Tone; size: number }[] {
  return [
    { tone: 'good', size: of.DONE },
    { tone: 'bad', size: of.ERROR },
    { tone: 'warn', size: of.NOT_FOUND },
    { tone: 'accent', size: of.PROCESSING },
    { tone: '', size: of.PENDING + of.SKIPPED },
  ];
}

/** The same in words: "1,200 of 3,000 done, 3 error". */
export function wordsOf({ statuses: of, total_items: all }: Upload, format: (n: number) => string): string {
  const others = statuses.filter((status) => status !== 'DONE' && of[status]).map((status) => `${format(of[status])} ${wordOf(status)}`);
  return [`${format(of.DONE)} of ${format(all)} done`, ...others].join(', ');
}

/** Seconds until all rows are processed, at so many a second; null where nobody can know. */
export function leftOf(upload: Upload, rate: number | null): number | null {
  if (!isMoving(upload) || !upload.persisted || !rate) return null;
  return pendingOf(upload) / rate;
}

/** The cursor behind a row, in the order of the file: what the API calls updated_at|id, without a time. */
export const behindRow = (job: string, row: number): string => (row > 0 ? encode(`|${job}-${row}`) : '');

/** The cursor before all items that changed at a time or later, in the order of changes. */
export const sinceTime = (at: string, job: string): string => encode(`${new Date(Date.parse(at) - 1).toISOString()}|${job}-2147483646`);

const encode = (text: string): string => btoa(text).replaceAll('+', '-').replaceAll('/', '_');
