import { computed, inject, onScopeDispose, readonly, ref, shallowRef, watch } from 'vue';
import type { App, ComputedRef, InjectionKey, Ref, ShallowRef } from 'vue';
import { token } from '../api/access';
import { liveAddress } from '../api/address';
import type { Funnel, FunnelQuery, Problem } from '../api/types';
import { recall, remember } from '../api/memory';
import { LiveClient } from './client';
import { healthOf, stopped } from './connection';
import type { Connection, Health } from './connection';

export interface Live {
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
  document.addEventListener('visibilitychange', () => {
    if (document.visibilityState === 'visible') client.wake();
  });
  app.provide(key, { client, connection: readonly(connection), health: computed(() => healthOf(connection.value)) });
  client.start();
}

export function useLive(): Live {
  const live = inject(key);
  if (!live) throw new Error('installLive was not called');
  return live;
}

export interface LiveFunnel {
  /**
   * The newest snapshot. Until a query is answered it is the last one that this tab has had of it, else that of the
   * query before.
   */
  funnel: ShallowRef<Funnel | null>;
  problem: ShallowRef<Problem | null>;
  /** True from a change of the query until its first answer. */
  pending: Ref<boolean>;
}

/** Follows the funnel of a query for as long as the component lives; nothing while the query is null. */
export function useFunnel(query: () => FunnelQuery | null): LiveFunnel {
  const { client } = useLive();
  const funnel = shallowRef<Funnel | null>(null);
  const problem = shallowRef<Problem | null>(null);
  const pending = ref(true);
  let end = () => {};

  watch(
    // Compared as text, so that an equal query in a new object changes nothing.
    () => JSON.stringify(query()),
    () => {
      end();
      end = () => {};
      const wanted = query();
      if (!wanted) {
        funnel.value = null;
        return;
      }
      pending.value = true;
      const key = `funnel ${JSON.stringify(wanted)}`;
      funnel.value = recall<Funnel>(key) ?? funnel.value;
      end = client.subscribe(wanted, {
        funnel(snapshot) {
          funnel.value = snapshot;
          remember(key, snapshot);
          problem.value = null;
          pending.value = false;
        },
        problem(found) {
          problem.value = found;
          pending.value = false;
        },
      });
    },
    { immediate: true },
  );
  onScopeDispose(() => end());
  return { funnel, problem, pending };
}
