import { describe, expect, it } from 'vitest';
import { fingerprint, groupsOf } from './fingerprint';

describe('the fingerprint of an error', () => {
  it.each([
    ['550 no such user 17', '‹n› no such user ‹n›'],
    ['GET https://a.example/x?y=1: timeout after 3.5s', 'GET ‹url› timeout after ‹n›s'],
    ['item 6f1f0b3e-9a3c-4a0e-8f53-0f3a1c2d4e5f is gone', 'item ‹id› is gone'],
    ['dial tcp 10.0.0.7:25: connection refused', 'dial tcp ‹n›: connection refused'],
    ['checksum deadbeef01 differs', 'checksum ‹id› differs'],
    ['the deadline has passed', 'the deadline has passed'],
  ])('of %s is %s', (error, want) => expect(fingerprint(error)).toBe(want));

  it('puts failures together, with first and last', () => {
    const items = [
      { error: 'user 1 is gone', updated_at: '2026-02-10T12:00:02Z' },
      { error: 'timeout', updated_at: '2026-02-10T12:00:03Z' },
      { error: 'user 2 is gone', updated_at: '2026-02-10T12:00:01Z' },
    ];
    expect(groupsOf(items)).toEqual([
      {
        fingerprint: 'user ‹n› is gone',
        count: 2,
        example: 'user 1 is gone',
        first: '2026-02-10T12:00:01Z',
        last: '2026-02-10T12:00:02Z',
      },
      {
        fingerprint: 'timeout',
        count: 1,
        example: 'timeout',
        first: '2026-02-10T12:00:03Z',
        last: '2026-02-10T12:00:03Z',
      },
    ]);
  });
});
