// Keeps the files of the page, so that it can be loaded while the server is away. It never answers for the API.
const files = ["./","favicon.svg","assets/ActPage-CKoVuZ0e.css","assets/ActPage-ZOwxkSbw.js","assets/ActsPage-BYSI84gi.js","assets/ArticlesPage-Cxz0EaHB.js","assets/ArticlesPage-MjFvhJaG.css","assets/BatchItemPage-CgjsFMrX.js","assets/BatchItemPage-XQQmeCi8.css","assets/BatchPage-CHK6Jys1.css","assets/BatchPage-jic9h6qu.js","assets/BatchesPage-Bdw6R_2Q.js","assets/BatchesPage-CV6cCjI6.css","assets/BeginAct-Bdp5WCn2.js","assets/BeginAct-CJXkjUZp.css","assets/CommandPalette-Bemw8FYd.css","assets/CommandPalette-Drk-P-Mc.js","assets/ComparePanel-BPMAJ1Pi.css","assets/ComparePanel-Bk6lfKp2.js","assets/DriftPage-BcT3dtK7.js","assets/DriftPage-LtexHZH6.css","assets/DropZone-B2doR7Ll.js","assets/DropZone-jwYXydww.css","assets/EventsPage-B0ICsSOW.css","assets/EventsPage-C4hoHQK8.js","assets/FailureGroups-CCd-kdVm.js","assets/FailureGroups-D3qLvGWF.css","assets/FilePage-DS2K6NkK.js","assets/FilesPage-C82H65om.css","assets/FilesPage-DhPJsxKp.js","assets/ItemPage-B0BIaLaM.css","assets/ItemPage-jmw15bGQ.js","assets/ItemTable-BQhBVGYi.js","assets/JourneyPage-9Ou00Fru.js","assets/JourneyPage-Q-MuoiYX.css","assets/LetterPage-BAP_xUxZ.css","assets/LetterPage-D_olCGL4.js","assets/LettersPage-CTZBfeKu.js","assets/LettersPage-D1RhJ4gu.css","assets/NeedsAdmin-D2cS_4D4.css","assets/NeedsAdmin-Dfd1AFS-.js","assets/OperationsPage-DCBO2iz7.js","assets/OperationsPage-cgjjVSH7.css","assets/PacePanel-D1C7Q1LL.js","assets/PacePanel-gBJuYUnz.css","assets/PendingPage-BkoW1QM4.js","assets/QueueActs-B0ryBAGq.js","assets/QueueActs-DPmsstel.css","assets/QueuePage-CjMfxem7.js","assets/QueuesPage-8miB8f4K.js","assets/QueuesPage-CPjqNQJK.css","assets/ShortcutList-hdo9PLFK.css","assets/ShortcutList-wHeG5k3J.js","assets/SourcePanel-CBYz6mM1.css","assets/SourcePanel-DA_RAGa_.js","assets/SourcesPage-7Ko6YIMJ.css","assets/SourcesPage-BZcI2Aq2.js","assets/SystemPage-Buhq63tq.js","assets/SystemPage-DEFt_Usl.css","assets/UploadPage-DcuOQxiz.js","assets/UploadPage-DfxSVCV2.css","assets/UploadsPage-8Bygi9ok.css","assets/UploadsPage-Cs9o2Zd6.js","assets/act-R59jxtJ9.js","assets/acts-BdReRv6w.js","assets/base-CaTcYy4K.js","assets/base-CzOeEK1e.css","assets/checks-C4LLNwmT.js","assets/find-BbgsW_QT.js","assets/index-D-RUebLj.css","assets/index-dbffUIfe.js","assets/inter-latin-wght-normal-Dx4kXJAl.woff2","assets/items-CAMDu3RX.js","assets/items-DSqdw3VM.css","assets/parts-BO32ph1d.js","assets/preload-helper-DclECHGd.js","assets/shared-7lgjnycL.js","assets/shared-BogrtNfK.css","assets/stages-BNshboAw.js","assets/states-CR1QOHXt.js","assets/steps--UJk5kKb.js","assets/tabs-CMbNPFLr.js","assets/tabs-DnsKeF2f.css","assets/theme-D8MwLguf.js","assets/tone-BiohyZaw.js","assets/useActs-DCi4w6sk.js","assets/useOffered-BgASz1wQ.js","assets/useOffered-vM7kN1uO.css","assets/useStages-6hnFUSua.js","assets/useUploads-FUfMoKHm.js","assets/vue-mmzYRHno.js"];
const cacheName = `millrace-page-${"88eaccdc6bff"}`;
/** A server that takes longer is treated as away: the page that was kept asks it again by itself. */
const patience = 4_000;

const here = new URL('./', self.location.href);

self.addEventListener('install', (event) => {
  event.waitUntil(caches.open(cacheName).then((cache) => cache.addAll(files)).then(() => self.skipWaiting()));
});

self.addEventListener('activate', (event) => {
  const others = (names) => names.filter((name) => name.startsWith('millrace-page-') && name !== cacheName);
  event.waitUntil(
    caches.keys()
      .then((names) => Promise.all(others(names).map((name) => caches.delete(name))))
      .then(() => self.clients.claim()),
  );
});

self.addEventListener('fetch', (event) => {
  const { request } = event;
  const url = new URL(request.url);
  if (request.method !== 'GET' || url.origin !== here.origin || !url.pathname.startsWith(here.pathname)) return;
  const path = url.pathname.slice(here.pathname.length);
  if (path === '') event.respondWith(page(request));
  else if (path.startsWith('assets/') || path === 'favicon.svg') event.respondWith(asset(request));
});

/** The server's, as long as it is there: after an upgrade its page is another. */
async function page(request) {
  const cache = await caches.open(cacheName);
  try {
    const answer = await fetch(request, { signal: AbortSignal.timeout(patience) });
    // A proxy before a server that is away.
    if (answer.status < 500) return answer;
    return (await cache.match('./')) ?? answer;
  } catch (error) {
    const kept = await cache.match('./');
    if (kept) return kept;
    throw error;
  }
}

/** Names of assets carry a hash of their content, so one that is kept is right. */
async function asset(request) {
  const kept = await caches.match(request, { ignoreVary: true });
  return kept ?? fetch(request);
}
