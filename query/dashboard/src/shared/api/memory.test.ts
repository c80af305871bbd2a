// @vitest-environment happy-dom
import { beforeEach, describe, expect, it } from 'vitest';
import { most, recall, remember } from './memory';

describe('the memory of answers', () => {
  beforeEach(() => sessionStorage.clear());

  it('has the last answer to a question', () => {
    remember('a', { n: 1 });
    remember('a', { n: 2 });
    expect(recall('a')).toEqual({ n: 2 });
    expect(recall('b')).toBeNull();
  });

  it('forgets the oldest when there are many', () => {
    for (let i = 0; i <= most; i++) remember(`q${i}`, i, 1_000 + i);
    expect(recall('q0')).toBeNull();
    expect(recall('q1')).toBe(1);
    expect(recall(`q${most}`)).toBe(most);
  });

  it('does not trip over what others have written', () => {
    sessionStorage.setItem('millrace.answer x', '{');
    sessionStorage.setItem('millrace.token', 't');
    expect(recall('x')).toBeNull();
    for (let i = 0; i <= most; i++) remember(`q${i}`, i);
    expect(sessionStorage.getItem('millrace.token')).toBe('t');
  });
});
