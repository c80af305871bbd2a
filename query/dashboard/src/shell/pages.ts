import type { RouteRecordRaw } from 'vue-router';
import type { Scope } from '../shared/api/access';
import FunnelPage from '../funnel/FunnelPage.vue';
import NotFound from './NotFound.vue';

/** What the rail and the palette list. */
interface PageMeta {
  title: string;
  /** Pages of one kind stand together in the rail. */
  group: 'Pipeline' | 'Work' | 'Server';
  /** Path of a 20 × 20 outline. */
  icon: string;
  /** Goes there, after "g". */
  key: string;
  /** What its address shares with that of other pages, and a link from one to the other keeps. */
  keeps: readonly ('period' | 'source' | 'tz')[];
  scope: Scope;
}

export interface Page extends PageMeta {
  name: string;
  path: string;
}

const page = (name: string, path: string, meta: PageMeta, component: RouteRecordRaw['component']) =>
  ({ name, path, component, meta: { page: { name, path, ...meta }, title: meta.title } }) as RouteRecordRaw;

/** A page of one thing, below a page of the list. */
const below = (of: string, name: string, path: string, title: string, component: RouteRecordRaw['component']) =>
  ({ name, path, component, meta: { title, of } }) as RouteRecordRaw;

export const routes: RouteRecordRaw[] = [
  page(
    'funnel',
    '/',
    {
      title: 'Funnel',
      group: 'Pipeline',
      key: 'f',
      keeps: ['period', 'source', 'tz'],
      scope: 'read',
      icon: 'M3 4h14l-5 6.5V16l-4-2v-3.5z',
    },
    FunnelPage,
  ),
  page(
    'articles',
    '/articles',
    {
      title: 'Articles',
      group: 'Pipeline',
      key: 'a',
      keeps: ['source', 'tz'],
      scope: 'read',
      icon: 'M5 3h7l3 3v11H5zM8 9h4M8 12h4',
    },
    () => import('../articles/ArticlesPage.vue'),
  ),
  below('articles', 'journey', '/articles/:hash', 'Journey', () => import('../articles/JourneyPage.vue')),
  page(
    'events',
    '/events',
    {
      title: 'Events',
      group: 'Pipeline',
      key: 'e',
      keeps: ['source', 'tz'],
      scope: 'read',
      icon: 'M3 5h14M3 10h14M3 15h9',
    },
    () => import('../events/EventsPage.vue'),
  ),
  page(
    'sources',
    '/sources',
    {
      title: 'Sources',
      group: 'Pipeline',
      key: 's',
      keeps: ['period', 'tz'],
      scope: 'read',
      icon: 'M10 3v14M4 7l6-4 6 4M4 7v6l6 4 6-4V7',
    },
    () => import('../sources/SourcesPage.vue'),
  ),
  page(
    'drift',
    '/drift',
    {
      title: 'Drift',
      group: 'Pipeline',
      key: 'd',
      keeps: ['tz'],
      scope: 'read',
      icon: 'M3 13c3 0 3-7 7-7s4 7 7 7M3 16h14',
    },
    () => import('../drift/DriftPage.vue'),
  ),
  page(
    'queues',
    '/queues',
    {
      title: 'Queues',
      group: 'Work',
      key: 'q',
      keeps: ['tz'],
      scope: 'read',
      icon: 'M3 4h14v4H3zM3 12h14v4H3z',
    },
    () => import('../queues/QueuesPage.vue'),
  ),
  below('queues', 'queue', '/queues/:queue', 'Queue', () => import('../queues/QueuePage.vue')),
  below('queues', 'item', '/queues/:queue/items/:item', 'Item', () => import('../queues/ItemPage.vue')),
  page(
    'files',
    '/files',
    {
      title: 'Files',
      group: 'Work',
      key: 'l',
      keeps: ['tz'],
      scope: 'read',
      icon: 'M3 5h5l2 2h7v9H3z',
    },
    () => import('../files/FilesPage.vue'),
  ),
  below('files', 'file', '/files/:file', 'File', () => import('../files/FilePage.vue')),
  page(
    'batches',
    '/batches',
    {
      title: 'Batches',
      group: 'Work',
      key: 'h',
      keeps: ['tz'],
      scope: 'read',
      icon: 'M3 6l7-3 7 3-7 3zM3 10l7 3 7-3M3 14l7 3 7-3',
    },
    () => import('../batches/BatchesPage.vue'),
  ),
  below('batches', 'batch', '/batches/:job/:index(\\d+)', 'Batch', () => import('../batches/BatchPage.vue')),
  below('batches', 'batch-item', '/batch-items/:id', 'Crawled item', () => import('../batches/BatchItemPage.vue')),
  page(
    'uploads',
    '/uploads',
    {
      title: 'Uploads',
      group: 'Work',
      key: 'u',
      keeps: ['tz'],
      scope: 'uploads',
      icon: 'M10 13V4M6 7.5L10 4l4 3.5M3 13v3h14v-3',
    },
    () => import('../uploads/UploadsPage.vue'),
  ),
  below('uploads', 'upload', '/uploads/:job', 'Upload', () => import('../uploads/UploadPage.vue')),
  page(
    'pending',
    '/pending',
    {
      title: 'Pending',
      group: 'Work',
      key: 'p',
      keeps: ['tz'],
      scope: 'uploads',
      icon: 'M10 3a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM10 6v4l3 2',
    },
    () => import('../uploads/PendingPage.vue'),
  ),
  page(
    'operations',
    '/operations',
    {
      title: 'Source operations',
      group: 'Work',
      key: 'o',
      keeps: ['tz'],
      scope: 'read',
      icon: 'M10 3a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM3 10h14M10 3c2.5 2 3.5 4.5 3.5 7s-1 5-3.5 7c-2.5-2-3.5-4.5-3.5-7s1-5 3.5-7',
    },
    () => import('../operations/OperationsPage.vue'),
  ),
  page(
    'acts',
    '/acts',
    {
      title: 'Bulk actions',
      group: 'Work',
      key: 'b',
      keeps: ['tz'],
      scope: 'read',
      icon: 'M3 5l2 2 3-4M3 14l2 2 3-4M11 5h6M11 14h6',
    },
    () => import('../acts/ActsPage.vue'),
  ),
  below('acts', 'act', '/acts/:act(\\d+)', 'Bulk action', () => import('../acts/ActPage.vue')),
  page(
    'letters',
    '/letters',
    {
      title: 'Dead letters',
      group: 'Work',
      key: 'x',
      keeps: ['tz'],
      scope: 'admin',
      icon: 'M3 5h14v10H3zM3 5l7 6 7-6',
    },
    () => import('../letters/LettersPage.vue'),
  ),
  below('letters', 'letter', '/letters/:letter(.*)', 'Dead letter', () => import('../letters/LetterPage.vue')),
  page(
    'system',
    '/system',
    {
      title: 'System',
      group: 'Server',
      key: 'y',
      keeps: ['tz'],
      scope: 'read',
      icon: 'M3 10h3l2-5 4 10 2-5h3',
    },
    () => import('../system/SystemPage.vue'),
  ),
  { path: '/:unknown(.*)*', name: 'unknown', component: NotFound, meta: { title: 'Not found' } },
];

export const pages: readonly Page[] = routes.flatMap((route) => (route.meta?.page ? [route.meta.page as Page] : []));

/** The part of an address that another page understands, too. */
export function keptBy(page: Page, query: Record<string, unknown>): Record<string, string> {
  return Object.fromEntries(
    page.keeps.flatMap((name) => (typeof query[name] === 'string' ? [[name, query[name]]] : [])),
  );
}
