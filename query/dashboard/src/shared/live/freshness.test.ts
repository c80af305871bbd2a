import { effectScope, nextTick, ref } from 'vue';
import { expect, it } from 'vitest';
import { stale, useFreshness } from './freshness';
import type { Freshness } from './freshness';

const since = '2026-02-10T15:42:00Z';

it('what the server said last holds, until nobody listens to it', async () => {
  const scope = effectScope();
  const [checks, funnel] = [ref<Freshness | null>(null), ref<Freshness | null>(null)];
  scope.run(() => {
    useFreshness(() => checks.value);
    useFreshness(() => funnel.value);
  });
  expect(stale.value).toBeNull();
  funnel.value = { at: 1, staleSince: since, behind: 7 };
  await nextTick();
  expect(stale.value).toMatchObject({ staleSince: since, behind: 7 });
  checks.value = { at: 2, staleSince: null, behind: 0 };
  await nextTick();
  expect(stale.value).toBeNull();
  funnel.value = { at: 3, staleSince: since, behind: 9 };
  await nextTick();
  expect(stale.value?.behind).toBe(9);
  scope.stop();
  expect(stale.value).toBeNull();
});
