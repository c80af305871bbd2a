import { api, given } from '../shared/api/client';
import type { operations } from '../shared/api/schema';
import type { Schema } from '../shared/api/types';
import { parseExactly } from '../shared/format/exactJson';
import type { WalkPage } from '../shared/grid/useWalk';
import { sinceTime } from './upload';
import type { Item, Status } from './upload';

export type ItemsQuery = NonNullable<operations['list-upload-items']['parameters']['query']>;

/** What a list shows of an item, of one upload or of many. */
export type Listed = Omit<Schema<'PendingItem'>, 'user_id' | 'job_state' | 'job_total_items' | 'job_processed_items' | 'locked_at'> &
  Partial<Schema<'PendingItem'>> & { last_error?: string | null; result?: unknown; image_link?: string };

/** A page of items, with the numbers of results as they are written. */
export async function readItems(job: string, query: ItemsQuery, signal: AbortSignal): Promise<Schema<'UploadItemPage'>> {
  const params = { path: { jobId: job }, query };
  const { data } = await api.GET('/uploads/{jobId}/items', { params, signal, parseAs: 'text' });
  return parseExactly(data!) as Schema<'UploadItemPage'>;
}

/** How many items a page of a list has. */
const pageSize = 100;

export interface PendingFilter {
  statuses: readonly Status[];
  /** Only of files of this format; empty: of any. */
  kind: Item['job_type'] | '';
  /** Of all users, which is for admins. */
  all: boolean;
  /** Only of this upload; empty: of all. */
  job: string;
  /** Only items that changed then or later, and before; empty: any time. */
  from: string;
  to: string;
}

const zero = '00000000-0000-0000-0000-000000000000';

/** A page of items in the order of their changes. */
export async function readPending(filter: PendingFilter, after: string, signal: AbortSignal): Promise<WalkPage<Listed>> {
  const { job, from, to, kind, all } = filter;
  const common = { statuses: filter.statuses.join(','), pageSize, ...given({ after: after || (from && sinceTime(from, job || zero)) }) };
  const page: { items: Listed[]; next?: string } = job
    ? await readItems(job, { ...common, sort: 'updated_at' }, signal)
    : (await api.GET('/pending', { params: { query: { ...common, ...given({ jobType: kind }), userId: all ? 'all' : 'me' } }, signal })).data!;
  const items = page.items.filter((item) => !kind || item.job_type === kind);
  // Behind the first one that changed too late, all did.
  const end = to ? items.findIndex((item) => Date.parse(item.updated_at) >= Date.parse(to)) : -1;
  return end < 0 ? { items, ...given({ next: page.next ?? '' }) } : { items: items.slice(0, end) };
}
