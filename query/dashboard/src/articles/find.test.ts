// @vitest-environment happy-dom
import { describe, expect, it } from 'vitest';
import { wantedBy } from './find';

describe('what is looked for', () => {
  it('is a hash, a URL or a trace', () => {
    const hash = 'A'.repeat(64);
    expect(wantedBy(` ${hash} `)).toEqual({ kind: 'hash', value: hash.toLowerCase() });
    expect(wantedBy('https://example.com/1')).toEqual({ kind: 'url', value: 'https://example.com/1' });
    expect(wantedBy('4bf92f3577b34da6')).toEqual({ kind: 'trace', value: '4bf92f3577b34da6' });
    expect(wantedBy('  ')).toBeNull();
  });
});
