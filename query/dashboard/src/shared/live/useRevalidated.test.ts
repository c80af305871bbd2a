// @vitest-environment happy-dom
import { flushPromises } from '@vue/test-utils';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { effectScope, nextTick, ref } from 'vue';
import type { EffectScope } from 'vue';
import { recall, remember } from '../api/memory';
import { useRevalidated } from './useRevalidated';
import type { Revalidated } from './useRevalidated';

const every = 15_000;

describe('an answer that is asked for again and again', () => {
  let scope: EffectScope;
  let answers: Map<string, () => Promise<Response>>;
  const address = ref('http://h/a');
  const again = ref(0);
  const good = (n: number) => () => Promise.resolve(new Response(JSON.stringify({ n })));
  const bad = () => Promise.reject(new TypeError('no network'));
  const use = () => scope.run(() => useRevalidated<{ n: number }>(() => address.value, () => again.value, every)) as Revalidated<{ n: number }>;

  beforeEach(() => {
    vi.useFakeTimers();
    sessionStorage.clear();
    scope = effectScope();
    address.value = 'http://h/a';
    answers = new Map([
      ['http://h/a', good(1)],
      ['http://h/b', good(2)],
    ]);
    vi.stubGlobal('fetch', (url: string) => answers.get(url)!());
  });
  afterEach(() => {
    scope.stop();
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  it('comes, and is remembered', async () => {
    const { value, stale } = use();
    expect([value.value, stale.value]).toEqual([null, true]);
    await flushPromises();
    expect([value.value, stale.value]).toEqual([{ n: 1 }, false]);
    expect(recall('http://h/a')).toEqual({ n: 1 });
  });

  it('is the remembered one at first, and stays when the server is away', async () => {
    remember('http://h/a', { n: 7 });
    answers.set('http://h/a', bad);
    const { value, stale } = use();
    expect([value.value, stale.value]).toEqual([{ n: 7 }, true]);
    await flushPromises();
    expect([value.value, stale.value]).toEqual([{ n: 7 }, true]);

    answers.set('http://h/a', good(8));
    await vi.advanceTimersByTimeAsync(every);
    expect([value.value, stale.value]).toEqual([{ n: 8 }, false]);
  });

  it('is stale again as soon as an answer fails', async () => {
    const { value, stale } = use();
    await flushPromises();
    answers.set('http://h/a', bad);
    again.value++;
    await flushPromises();
    expect([value.value, stale.value]).toEqual([{ n: 1 }, true]);
  });

  it('is not overtaken by that of an older question', async () => {
    let late = () => {};
    answers.set('http://h/a', () => new Promise((done) => (late = () => done(new Response('{"n":1}')))));
    const { value, stale } = use();
    address.value = 'http://h/b';
    await nextTick();
    await flushPromises();
    late();
    await flushPromises();
    expect([value.value, stale.value]).toEqual([{ n: 2 }, false]);
  });
});
