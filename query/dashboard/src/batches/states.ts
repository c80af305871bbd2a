import type { Schema } from '../shared/api/types';

type Batch = Schema<'CrawlBatch'>;
export const states = ['succeeded', 'partial', 'failed', 'retrying', 'empty'] as const;

const tones: Record<Batch['state'], string> = { succeeded: 'good', partial: 'warn', failed: 'bad', retrying: 'accent', empty: '' };
export const toneOf = (state: Batch['state']) => tones[state];
