import { createRouter, createWebHashHistory } from 'vue-router';
import { routes } from './pages';
import type { Page } from './pages';

// Before the router reads the address.
adoptPlainQuery();

/**
 * Pages live behind the "#": the whole then has one address whatever prefix a proxy puts before it, and the server
 * needs no list of pages.
 */
export const router = createRouter({
  history: createWebHashHistory(),
  routes,
  scrollBehavior: (to, from, saved) => saved ?? (to.path === from.path ? {} : { top: 0 }),
});

router.afterEach((to) => {
  const thing = Object.values(to.params).flat().join(' ');
  document.title = [to.name === 'unknown' ? '' : thing, to.meta.title, 'Millrace'].filter(Boolean).join(' · ');
});

/** `…/?period=7d`, as people type it, means `…/#/?period=7d`. */
function adoptPlainQuery(): void {
  const { search, hash, pathname } = window.location;
  if (!search || hash.includes('?')) return;
  window.history.replaceState(window.history.state, '', `${pathname}${hash || '#/'}${search}`);
}

declare module 'vue-router' {
  interface RouteMeta {
    title: string;
    page?: Page;
    /** The name of the page that this one is below. */
    of?: string;
  }
}
