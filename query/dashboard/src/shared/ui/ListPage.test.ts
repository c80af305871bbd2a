// @vitest-environment happy-dom
import { VueQueryPlugin, useQuery } from '@tanstack/vue-query';
import { flushPromises, mount } from '@vue/test-utils';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { computed, defineComponent, h } from 'vue';
import { createMemoryHistory, createRouter } from 'vue-router';
import { cursor, text } from '../address/fields';
import { useAddress } from '../address/useAddress';
import { given } from '../api/client';
import { installLive } from '../live/useLive';
import FilterField from './FilterField.vue';
import ListPage from './ListPage.vue';
import { useList } from './useList';

interface Reviews {
  items: { id: string; page: string; state: string }[];
  next_cursor?: string;
}

/** The page of a system whose list is GET /reviews: what the platform asks of one. */
const ReviewsPage = defineComponent(() => {
  const address = useAddress({ page: text(), cursor: cursor() });
  const { values: chosen } = address;
  const query = computed(() => String(new URLSearchParams(given(chosen.value))));
  const answer = useQuery({
    queryKey: ['reviews', query],
    queryFn: async () => (await (await fetch(`/api/v1/reviews?${query.value}`)).json()) as Reviews,
  });
  const reviews = computed(() => answer.data.value?.items ?? []);
  const list = useList(address, answer, reviews);
  return () =>
    h(
      ListPage,
      { title: 'Reviews', label: 'Reviews', words: 'newer ones on the next page', ...list.value },
      {
        filters: () =>
          h(FilterField, {
            label: 'Page',
            modelValue: chosen.value.page,
            'onUpdate:modelValue': (page: string) => address.filter({ page }),
          }),
        empty: () => 'There are no reviews.',
        default: () => reviews.value.map((r) => h('tr', [r.id, r.page, r.state].map((cell) => h('td', cell)))),
      },
    );
});

const pages: Record<string, Reviews> = {
  '': { items: [{ id: 'r-1', page: '/a', state: 'done' }], next_cursor: '7' },
  'cursor=7': { items: [{ id: 'r-2', page: '/b', state: 'new' }] },
  'page=%2Fc': { items: [] },
};

describe('the page of a list', () => {
  afterEach(() => vi.unstubAllGlobals());

  it('shows pages, filters and nothing', async () => {
    vi.stubGlobal('fetch', (address: string) => Promise.resolve(Response.json(pages[address.split('?')[1] ?? ''])));
    const router = createRouter({ history: createMemoryHistory(), routes: [{ path: '/', component: ReviewsPage }] });
    await router.push('/');
    const shown = mount(ReviewsPage, { global: { plugins: [router, VueQueryPlugin, installLive] } });
    await vi.waitFor(() => expect(shown.find('td').text()).toBe('r-1'));
    await shown.get('[data-testid=next-page]').trigger('click');
    await vi.waitFor(() => expect(shown.find('td').text()).toBe('r-2'));
    expect(router.currentRoute.value.query).toEqual({ cursor: '7' });
    await shown.get('input').setValue('/c');
    await flushPromises();
    await vi.waitFor(() => expect(shown.text()).toContain('There are no reviews.'));
    expect(router.currentRoute.value.query).toEqual({ page: '/c' });
    const filters = shown.get('[data-testid=filters]');
    expect([filters.text(), filters.attributes('aria-expanded')]).toEqual(['Filters: 1', 'false']);
    await filters.trigger('click');
    expect(filters.attributes('aria-expanded')).toBe('true');
    await shown.get('[data-testid=clear-filters]').trigger('click');
    await vi.waitFor(() => expect(shown.find('td').text()).toBe('r-1'));
    expect([router.currentRoute.value.query, filters.text()]).toEqual([{}, 'Filters']);
    shown.unmount();
  });
});
