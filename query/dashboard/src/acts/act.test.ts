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

  it.each([
    [{}, 'all sources'],
    [{ q: 'news', enabled: 'false', priority: 'low' }, 'disabled sources with “news” in their name or URL of low priority'],
    [{ job_status: 'paused', health: 'failed' }, 'sources whose job is paused whose health is failed'],
  ] as const)('%o of sources are %s', (sources, want) => expect(wordsOf({ sources })).toBe(want));

  it.each([
    [{ priority: -1 }, 'jobs'],
    [{ priority: -1, has_source: 'true', status: 'paused' }, 'paused jobs of sources in the list'],
    [{ priority: -1, has_source: 'false' }, 'jobs without a source in the list'],
    [{ priority: 0, status: 'paused', auto_managed: 'false' }, 'paused manual jobs of priority 0'],
    [{ priority: -1, q: 'news', enabled: 'true', source_priority: 'high' }, 'jobs of enabled sources with “news” in their name or URL of high priority'],
  ] as const)('%o of jobs are %s', (jobs, want) => expect(wordsOf({ jobs })).toBe(want));
});

it('no two keys are alike', () => {
  expect(newKey()).toMatch(/^[0-9a-f]{32}$/);
  expect(newKey()).not.toBe(newKey());
});
