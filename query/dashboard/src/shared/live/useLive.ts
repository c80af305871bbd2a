import { keepPreviousData, skipToken, useQuery } from '@tanstack/vue-query';
import { computed, inject, onScopeDispose, readonly, shallowRef, watch } from 'vue';
import type { App, ComputedRef, InjectionKey, Ref, ShallowRef } from 'vue';
import { token } from '../api/access';
import { liveAddress } from '../api/address';
import { answers } from '../api/answers';
import type { Problem } from '../api/types';
import { LiveClient } from './client';
import { healthOf, stopped } from './connection';
import type { Connection, Health } from './connection';
import type { ViewName, Views } from './protocol';
import { runWhileSeen } from './visibility';

interface Live {
  client: LiveClient;
  connection: Readonly<Ref<Connection>>;
  health: ComputedRef<Health>;
}

const key: InjectionKey<Live> = Symbol('live');

/** One connection for the whole page, whatever its views subscribe to. */
export function installLive(app: App): void {
  const connection = shallowRef<Connection>(stopped);
  const client = new LiveClient({
    address: () => liveAddress(),
    token: () => token.value,
    changed: (state) => (connection.value = state),
  });
  watch(token, () => client.restart());
  window.addEventListener('online', () => client.wake());
  // A cut network is not noticed by the socket; asking for an answer finds out.
  window.addEventListener('offline', () => client.wake());
  app.provide(key, { client, connection: readonly(connection), health: computed(() => healthOf(connection.value)) });
  runWhileSeen(client, document);
}

export function useLive(): Live {
  const live = inject(key);
  if (!live) throw new Error('installLive was not called');
  return live;
}

interface LiveState<T> {
  /**
   * The newest snapshot. Until a question is answered it is the last one that this tab has had of it, else that of the
   * question before.
   */
  state: ComputedRef<T | undefined>;
  /** When it came, in milliseconds; 0 before there was any. */
  at: ComputedRef<number>;
  problem: ShallowRef<Problem | null>;
  /** True from a change of the question until its first answer. */
  pending: Readonly<Ref<boolean>>;
}

/** Follows a view for as long as the component lives; nothing while the parameters are null. */
export function useLiveView<V extends ViewName>(
  view: V,
  params: () => Record<string, string> | null = () => ({}),
): LiveState<Views[V]> {
  const { client } = useLive();
  const problem = shallowRef<Problem | null>(null);
  const pending = shallowRef(true);
  const asked = computed(() => ['live', view, params()] as const);
  const { data, dataUpdatedAt } = useQuery<Views[V]>({
    queryKey: asked,
    queryFn: skipToken,
    staleTime: Infinity,
    placeholderData: keepPreviousData,
  });
  let end = () => {};

  watch(
    // Compared as text, so that an equal question in a new object changes nothing.
    () => JSON.stringify(params()),
    () => {
      end();
      end = () => {};
      const wanted = params();
      if (!wanted) return;
      pending.value = true;
      const settle = (found: Problem | null) => {
        problem.value = found;
        pending.value = false;
      };
      end = client.subscribe(
        { view, params: wanted },
        {
          snapshot(state) {
            answers.setQueryData(['live', view, wanted], state);
            settle(null);
          },
          // Its time is told anew, so that it does not look old.
          unchanged() {
            answers.setQueryData(['live', view, wanted], (state: Views[V] | undefined) => state);
            settle(null);
          },
          problem: settle,
        },
      );
    },
    { immediate: true },
  );
  onScopeDispose(() => end());
  return {
    state: computed(() => data.value as Views[V] | undefined),
    at: computed(() => dataUpdatedAt.value),
    problem,
    pending,
  };
}
