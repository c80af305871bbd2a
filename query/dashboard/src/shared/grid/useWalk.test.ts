// @vitest-environment happy-dom
import { QueryClient, VueQueryPlugin } from '@tanstack/vue-query';
import { flushPromises, mount } from '@vue/test-utils';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { defineComponent, nextTick, ref } from 'vue';
import type { GridRows } from './rows';
import { useWalk } from './useWalk';
import type { WalkPage } from './useWalk';

type Rows = GridRows<number> & { ended: { value: boolean } };

/** A list of numbers from 0, in pages of ten; a cursor is the first number of a page. */
function listOf(numbers: () => readonly number[]) {
  return async (after: string): Promise<WalkPage<number>> => {
    const from = Number(after || 0);
    const items = numbers().filter((n) => n >= from).slice(0, 10);
    const next = numbers().find((n) => n > (items.at(-1) ?? Infinity));
    return next === undefined ? { items } : { items, next: String(next) };
  };
}

function walk(read: (after: string) => Promise<WalkPage<number>>) {
  const sight = ref({ from: 0, to: 5 });
  const key = ref('a');
  const asked: string[] = [];
  let rows!: Rows;
  const shown = mount(
    defineComponent(() => {
      rows = useWalk<number>({ key: () => [key.value], read: (after) => (asked.push(after), read(after)), sight, every: 3_000 });
      return () => `${rows.count.value}`;
    }),
    { global: { plugins: [[VueQueryPlugin, { queryClient: new QueryClient() }]] } },
  );
  const settle = async () => {
    for (let i = 0; i < 20; i++) {
      await vi.advanceTimersByTimeAsync(0);
      await flushPromises();
      await nextTick();
    }
  };
  return { rows, sight, key, asked, settle, end: () => shown.unmount() };
}

describe('a walk', () => {
  afterEach(() => void vi.useRealTimers());

  it('has each row once, to the end, and asks for no page before it is near', async () => {
    vi.useFakeTimers();
    const all = Array.from({ length: 95 }, (_, n) => n);
    const { rows, sight, asked, settle, end } = walk(listOf(() => all));
    await settle();
    expect(asked.length).toBeLessThan(5);
    const seen = new Set<number>();
    for (let from = 0; from < 95; from += 5) {
      sight.value = { from, to: from + 5 };
      await settle();
      for (let i = from; i < Math.min(from + 5, rows.count.value); i++) seen.add(rows.at(i)!);
    }
    expect([...seen]).toEqual(all);
    expect([rows.count.value, rows.ended.value]).toEqual([95, true]);
    end();
  });

  it('reads the beginning again, and behind it what has moved', async () => {
    vi.useFakeTimers();
    let all = Array.from({ length: 40 }, (_, n) => n);
    const { rows, settle, end } = walk(listOf(() => all));
    await settle();
    expect(rows.at(0)).toBe(0);
    all = all.filter((n) => n % 2 === 1); // half of them leave the list
    await vi.advanceTimersByTimeAsync(3_100);
    await settle();
    expect([0, 1, 9, 10].map((i) => rows.at(i))).toEqual([1, 3, 19, 21]);
    expect(rows.count.value).toBe(20);
    end();
  });

  it('waits where a page is empty and has its own cursor behind it, and goes on', async () => {
    vi.useFakeTimers();
    let held = true;
    const { rows, settle, end } = walk(async (after) => (held ? { items: [], next: 'begin' } : { items: after === 'begin' ? [7, 8] : [] }));
    await settle();
    expect(rows.count.value).toBe(0);
    held = false;
    await vi.advanceTimersByTimeAsync(1_100);
    await settle();
    expect([rows.count.value, rows.at(0)]).toEqual([2, 7]);
    end();
  });

  it('begins anew with another list', async () => {
    vi.useFakeTimers();
    let all = Array.from({ length: 30 }, (_, n) => n);
    const { rows, sight, key, settle, end } = walk(listOf(() => all));
    sight.value = { from: 20, to: 25 };
    await settle();
    all = [100];
    key.value = 'b';
    sight.value = { from: 0, to: 1 };
    await settle();
    expect([rows.count.value, rows.at(0)]).toEqual([1, 100]);
    end();
  });
});
