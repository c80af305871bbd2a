import { computed } from 'vue';
import { can } from '../shared/api/access';
import { usePendingOffered } from '../shared/api/usePending';
import { pages } from './pages';

/** The pages that the token has the scope for, and that the server has not switched off. */
export function useOffered() {
  const pending = usePendingOffered();
  return computed(() => pages.filter((page) => can(page.scope) && (page.name !== 'pending' || pending.value)));
}
