// Keeps the files of the page, so that it can be loaded while the server is away. It never answers for the API.
const files = ["./","favicon.svg","assets/ActPage-B6EauTE9.js","assets/ActPage-CXf9eE_J.css","assets/ActsPage-Bsh8di1L.js","assets/ArticlesPage-DLRHDoD6.js","assets/ArticlesPage-jADewVKt.css","assets/BatchItemPage-DLIpPoKM.js","assets/BatchItemPage-XQQmeCi8.css","assets/BatchPage-CFPMIOSh.css","assets/BatchPage-D10xf1YK.js","assets/BatchesPage-5cxCHpzT.css","assets/BatchesPage-CiWTxGaH.js","assets/BeginAct-DIrh6vM_.js","assets/BeginAct-DTtH8qF-.css","assets/CommandPalette-BdwCkdzc.js","assets/CommandPalette-Bemw8FYd.css","assets/ComparePanel-BPMAJ1Pi.css","assets/ComparePanel-DfU-5W7b.js","assets/DriftPage-DYsvmLa7.js","assets/DriftPage-LtexHZH6.css","assets/DropZone-CbWA3Km2.js","assets/DropZone-jwYXydww.css","assets/EventsPage-BfWuqbL2.css","assets/EventsPage-CZKyVjr0.js","assets/FailureGroups-3uNBS-fV.js","assets/FailureGroups-D3qLvGWF.css","assets/FilePage-DCZ09drk.js","assets/FilesPage-BzANJTdb.css","assets/FilesPage-CWvlUjOL.js","assets/ItemPage-COBVi3rt.css","assets/ItemPage-DEQfVI7B.js","assets/ItemTable-An8qQVLn.js","assets/JourneyPage-Bytm3XvY.css","assets/JourneyPage-xgwspIfi.js","assets/LetterPage-CD276TRq.css","assets/LetterPage-IfP7z3Zm.js","assets/LettersPage-BTQmQUhF.css","assets/LettersPage-kHhaFbSa.js","assets/NeedsAdmin-CVTtlqkT.js","assets/NeedsAdmin-D2cS_4D4.css","assets/OperationsPage-CS4plxGy.js","assets/OperationsPage-DEyTwvFN.css","assets/PacePanel-ELNbdgFV.js","assets/PacePanel-gBJuYUnz.css","assets/PendingPage-PN-YoCok.js","assets/QueueActs-DPmsstel.css","assets/QueueActs-cQ_hqmnq.js","assets/QueuePage-K-sb85g3.js","assets/QueuesPage-CrezUXHf.js","assets/QueuesPage-DBlFafyx.css","assets/ShortcutList-DNbu3IO4.js","assets/ShortcutList-hdo9PLFK.css","assets/SourcePanel-BLRcPR7l.js","assets/SourcePanel-CBYz6mM1.css","assets/SourcesPage-BNLyRpok.css","assets/SourcesPage-Dcl3tDQ-.js","assets/SystemPage--rd7-PO4.css","assets/SystemPage-DnyY6RU3.js","assets/UploadPage-DIpDw6v_.js","assets/UploadPage-OdHkKll7.css","assets/UploadsPage-B-sS0Ckt.js","assets/UploadsPage-Boivso7t.css","assets/act-fEtrmiKm.js","assets/acts-ChP08Fdj.js","assets/base-CaTcYy4K.js","assets/base-CzOeEK1e.css","assets/checks-l3Dh6asW.js","assets/find-onEZgJ4O.js","assets/index-CsFdDJfH.js","assets/index-D-RUebLj.css","assets/inter-latin-wght-normal-Dx4kXJAl.woff2","assets/items-CgWMKcN2.js","assets/items-D_6_U3H3.css","assets/parts-BO32ph1d.js","assets/preload-helper-DclECHGd.js","assets/shared-DSfkWHZ4.css","assets/shared-M_jOGXMz.js","assets/stages-BNshboAw.js","assets/states-CR1QOHXt.js","assets/steps--UJk5kKb.js","assets/tabs-5SOA_OEu.js","assets/tabs-DnsKeF2f.css","assets/theme-D8MwLguf.js","assets/tone-r4EGRfhL.js","assets/useActs-u1W-po6B.js","assets/useOffered-BMK7WfUw.js","assets/useOffered-CdFpfzjP.css","assets/useStages-B6bOnAmZ.js","assets/useUploads-CnSZfqt8.js","assets/vue-mmzYRHno.js"];
const cacheName = `millrace-page-${"5808c9c29d87"}`;
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
