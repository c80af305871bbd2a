import { createRouter, createWebHashHistory } from 'vue-router';
import DriftPage from '../drift/DriftPage.vue';
import FunnelPage from '../funnel/FunnelPage.vue';

// Before the router reads the address.
adoptPlainQuery();

/**
 * Views live behind the "#": the page then has one address whatever prefix a proxy puts before it, and the server
 * needs no list of views. A view that is named in `meta.title` appears in the navigation.
 */
export const router = createRouter({
  history: createWebHashHistory(),
  routes: [
    { path: '/', name: 'funnel', component: FunnelPage, meta: { title: 'Funnel' } },
    { path: '/drift', name: 'drift', component: DriftPage, meta: { title: 'Drift' } },
    { path: '/:unknown(.*)*', redirect: { name: 'funnel' } },
  ],
});

router.afterEach((to) => {
  document.title = to.meta.title ? `${to.meta.title} · Millrace` : 'Millrace';
});

/** `…/?period=7d`, as people type it, means `…/#/?period=7d`. */
function adoptPlainQuery(): void {
  const { search, hash, pathname } = window.location;
  if (!search || hash.includes('?')) return;
  window.history.replaceState(window.history.state, '', `${pathname}${hash || '#/'}${search}`);
}

declare module 'vue-router' {
  interface RouteMeta {
    title?: string;
  }
}
