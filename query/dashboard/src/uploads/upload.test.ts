import { describe, expect, it } from 'vitest';
import { behindRow, isHeld, leftOf, partsOf, sinceTime, wordOf, wordsOf } from './upload';
import type { Upload } from './upload';

const upload = (some: Partial<Upload>): Upload => ({
  jobId: 'j', name: 'n', file: { name: 'n', size: 1, sha256: '', format: 'csv' }, user: '', address: '', processor: 'copy',
  mapping: {}, encoding: 'utf-8', delimiter: ',', columns: ['a'], queue_state: 'RUNNING', cancelled: false, persisted: true,
  total_items: 10, processed_items: 4, failed_items: 1, rejected_rows: 2,
  statuses: { PENDING: 5, PROCESSING: 1, DONE: 3, ERROR: 1, NOT_FOUND: 0, SKIPPED: 0 },
  attempts: 1, last_error: null, last_heartbeat: '', created_at: '', started_at: null, finished_at: null, rows_sec: 0, items_sec: 0,
  ...some,
});

describe('an upload', () => {
  it('says how far it is', () => {
    expect(wordsOf(upload({}), String)).toBe('3 of 10 done, 5 pending, 1 processing, 1 error');
    expect(partsOf(upload({})).reduce((sum, { size }) => sum + size, 0)).toBe(10);
    expect(wordOf('NOT_FOUND')).toBe('not found');
  });

  it('has a time left only where it can be known', () => {
    expect(leftOf(upload({}), 2)).toBe(3);
    expect(leftOf(upload({}), 0)).toBeNull();
    expect(leftOf(upload({}), null)).toBeNull();
    expect(leftOf(upload({ persisted: false }), 2)).toBeNull();
    expect(leftOf(upload({ queue_state: 'PAUSED' }), 2)).toBeNull();
  });

  it('is held until a row of it is read', () => {
    const held = { queue_state: 'PAUSED', total_items: 0, rejected_rows: 0, columns: [] } as const;
    expect(isHeld(upload({ ...held, columns: [] }))).toBe(true);
    expect(isHeld(upload({ ...held, columns: [], rejected_rows: 1 }))).toBe(false);
    expect(isHeld(upload({}))).toBe(false);
  });
});

describe('a cursor', () => {
  it('is what the API gives', () => {
    expect(behindRow('0199f0a2-7c1e-7000-8000-000000000001', 7)).toBe('fDAxOTlmMGEyLTdjMWUtNzAwMC04MDAwLTAwMDAwMDAwMDAwMS03');
    expect(behindRow('j', 0)).toBe('');
    expect(atob(sinceTime('2026-02-10T12:00:00Z', 'j'))).toBe('2026-02-10T11:59:59.999Z|j-2147483646');
  });
});
