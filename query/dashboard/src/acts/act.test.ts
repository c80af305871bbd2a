import { describe, expect, it } from 'vitest';
import { newKey, wordsOf } from './act';

describe('the words of a filter', () => {
  it.each([
    [{ queue: 'mail', state: 'dead' }, 'dead items of mail'],
    [{ queue: 'mail', group: 'shop', key: 'a' }, 'items of mail in group shop with key a'],
    [{ filename: '20250101000000' }, 'shards of 20250101000000'],
    [
      { queue: 'shard-worker', search: '2025', state: 'failed', fingerprint: 'shard ‹n› is torn' },
      'failed shards of shard-worker of files named like “2025” with the error “shard ‹n› is torn”',
    ],
  ])('%o are %s', (filter, want) => expect(wordsOf({ filter })).toBe(want));

  it.each([
    [{}, 'errors'],
    [{ code: 'TIMEOUT', job_id: 'j', batch_index: 0 }, 'TIMEOUT errors of batch 0 of the job j'],
    [{ job_id: 'j', platform: 'tiktok', from: '2026-02-10T00:00:00Z' }, 'errors of the job j from tiktok read since 2026-02-10T00:00:00Z'],
    [{ category: 'network', project_id: 'p', fingerprint: 'no route to ‹n›' }, 'errors of the category network of the project p with the message “no route to ‹n›”'],
  ])('%o of batches are %s', (errors, want) => expect(wordsOf({ errors })).toBe(want));
});

it('no two keys are alike', () => {
  expect(newKey()).toMatch(/^[0-9a-f]{32}$/);
  expect(newKey()).not.toBe(newKey());
});
