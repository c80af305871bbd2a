import { createSyncStoragePersister } from '@tanstack/query-sync-storage-persister';
import { persistQueryClient } from '@tanstack/query-persist-client-core';
import { QueryClient } from '@tanstack/vue-query';
import { watch } from 'vue';
import { token } from './access';
import { ProblemError } from './client';

const day = 24 * 60 * 60_000;

/** How often pages ask again for what has no live view, while they are looked at. */
export const every = 15_000;

/**
 * The answers of the server. The last good ones stay while the server is away, and through a reload of the tab: they
 * are kept in the storage of the tab, like the token, so that a shared computer forgets them when the tab is closed.
 */
export const answers = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 2_000,
      gcTime: day,
      // The server may be on this machine, and there without any network.
      networkMode: 'always',
      retry: (failures, error) => failures < 1 && !(error instanceof ProblemError),
      retryDelay: 500,
    },
    mutations: { networkMode: 'always' },
  },
});

/** Reads what the tab has kept, and keeps what comes from now on. */
export function restoreAnswers(): Promise<void> {
  const persister = createSyncStoragePersister({
    storage: sessionStorage,
    key: 'millrace.answers',
    throttleTime: 2_000,
  });
  const [, restored] = persistQueryClient({
    queryClient: answers,
    persister,
    maxAge: day,
    dehydrateOptions: {
      // What was said once to one question, such as a search, is not worth keeping; bodies of messages must not be.
      shouldDehydrateQuery: ({ state, meta }) => state.data !== undefined && meta?.kept !== false,
    },
  });
  // Another token may see other things.
  watch(token, () => void answers.resetQueries());
  return restored;
}
