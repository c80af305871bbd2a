import { describe, expect, it } from 'vitest';
import { endpoint, liveAddress } from './address';

describe('addresses', () => {
  it.each([
    ['http://localhost:8075/', 'http://localhost:8075/api/v1/funnel'],
    ['http://localhost:8075/?period=7d#/', 'http://localhost:8075/api/v1/funnel'],
    ['https://example.com/api/pipeline/', 'https://example.com/api/pipeline/api/v1/funnel'],
    ['https://example.com/api/pipeline/index.html', 'https://example.com/api/pipeline/api/v1/funnel'],
  ])('stay below the folder of the page %s', (base, want) => {
    expect(endpoint('api/v1/funnel', {}, base)).toBe(want);
  });

  it('leave out empty parameters and encode the others', () => {
    const url = endpoint('api/v1/funnel/sources', { period: 'today', source: '', tz: 'Asia/Kathmandu' }, 'http://h/');
    expect(url).toBe('http://h/api/v1/funnel/sources?period=today&tz=Asia%2FKathmandu');
  });

  it('of the live view follow the security of the page', () => {
    expect(liveAddress('http://h/p/?a#/b')).toBe('ws://h/p/api/v1/live');
    expect(liveAddress('https://h/p/')).toBe('wss://h/p/api/v1/live');
  });
});
