import type { Schema } from '../shared/api/types';

export const statuses = ['new', 'started', 'done', 'failed'] as const;

/** The stages of files, in their order, each with its column. */
export const stages = ['event-ingest', 'shard-splitter', 'shard-worker', 'mysql-sender'] as const;
export type FileStage = (typeof stages)[number];

const columns = {
  'event-ingest': ['event_ingest', 'event_ingest_status'],
  'shard-splitter': ['shard_splitter', 'shard_splitter_status'],
  'shard-worker': ['shard_worker', 'shard_worker_status'],
  'mysql-sender': ['mysql_sender', 'mysql_sender_status'],
} as const;

type Shard = Schema<'ShardState'>;

export function statusOf(shard: Shard, stage: FileStage): Shard['event_ingest_status'] {
  return shard[columns[stage][1]];
}

export function detailOf(shard: Shard, stage: FileStage): Schema<'StageDetail'> | undefined {
  return shard.stages?.[columns[stage][0]];
}

const tones = { new: '', started: 'accent', done: 'good', failed: 'bad' } as const;

export function toneOf(status: (typeof statuses)[number]): string {
  return tones[status];
}
