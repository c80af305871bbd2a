// Keeps the files of the page, so that it can be loaded while the server is away. It never answers for the API.
const files = ["./","favicon.svg","assets/ActPage-BPfZzcgx.js","assets/ActPage-CXf9eE_J.css","assets/ActsPage-wEe_nQEU.js","assets/ArticlesPage-B5RZMih1.js","assets/ArticlesPage-jADewVKt.css","assets/BatchItemPage-CbGrGlpc.js","assets/BatchItemPage-XQQmeCi8.css","assets/BatchPage-CFPMIOSh.css","assets/BatchPage-Cx4y6ekB.js","assets/BatchesPage-B1hybKBy.js","assets/BatchesPage-jLAfcdXD.css","assets/BeginAct-B9aYH0WP.js","assets/BeginAct-DTtH8qF-.css","assets/CommandPalette-BCepfI0C.js","assets/CommandPalette-Bemw8FYd.css","assets/ComparePanel-BDbnSUZ9.js","assets/ComparePanel-BPMAJ1Pi.css","assets/DriftPage-6KBR5qVD.js","assets/DriftPage-LtexHZH6.css","assets/DropZone-CyhnVzW8.js","assets/DropZone-jwYXydww.css","assets/EventsPage-BfWuqbL2.css","assets/EventsPage-DvwlaZuW.js","assets/FailureGroups-Cp2hbbTO.js","assets/FailureGroups-D3qLvGWF.css","assets/FilePage-DhThpU2a.js","assets/FilesPage-BH6DFFz3.js","assets/FilesPage-BzANJTdb.css","assets/ItemPage-BUtgXj4e.js","assets/ItemPage-COBVi3rt.css","assets/ItemTable-BUkImhki.js","assets/JourneyPage-Bytm3XvY.css","assets/JourneyPage-ComkaLxT.js","assets/LetterPage-Bn8n2nc6.js","assets/LetterPage-CD276TRq.css","assets/LettersPage-BTQmQUhF.css","assets/LettersPage-ufZWAQ3C.js","assets/NeedsAdmin-D2cS_4D4.css","assets/NeedsAdmin-W3gJV-YH.js","assets/OperationsPage-BuTIFoRC.js","assets/OperationsPage-DEyTwvFN.css","assets/PacePanel-CJK1tfOJ.js","assets/PacePanel-gBJuYUnz.css","assets/PendingPage-CNOzN7Tt.js","assets/QueueActs-DPmsstel.css","assets/QueueActs-DiHN3RDR.js","assets/QueuePage-0YEBt9IL.js","assets/QueuesPage-D6I7D3V1.js","assets/QueuesPage-DBlFafyx.css","assets/ShortcutList-BP6APTHC.js","assets/ShortcutList-hdo9PLFK.css","assets/SourcePanel--HtqBqwc.js","assets/SourcePanel-CBYz6mM1.css","assets/SourcesPage-BNLyRpok.css","assets/SourcesPage-DFhdy9_N.js","assets/SystemPage--rd7-PO4.css","assets/SystemPage-CeGKsmHz.js","assets/UploadPage-CPL_NdeK.js","assets/UploadPage-OdHkKll7.css","assets/UploadsPage-Boivso7t.css","assets/UploadsPage-D62D7G9O.js","assets/act-fEtrmiKm.js","assets/acts-DV4_vm9E.js","assets/base-CaTcYy4K.js","assets/base-CzOeEK1e.css","assets/checks-DJ9RILMW.js","assets/find-CD-V05bq.js","assets/index-D-RUebLj.css","assets/index-Eib4uIM7.js","assets/inter-latin-wght-normal-Dx4kXJAl.woff2","assets/items-BAssF013.js","assets/items-D_6_U3H3.css","assets/parts-BO32ph1d.js","assets/preload-helper-DclECHGd.js","assets/shared-CZUzHZG5.js","assets/shared-DSfkWHZ4.css","assets/stages-BNshboAw.js","assets/states-CR1QOHXt.js","assets/steps--UJk5kKb.js","assets/tabs-DnsKeF2f.css","assets/tabs-FW2_OuyP.js","assets/theme-D8MwLguf.js","assets/tone-CaUMc_u7.js","assets/useActs-BrrTAThG.js","assets/useOffered-C4mYN9W_.js","assets/useOffered-CdFpfzjP.css","assets/useStages-B71OK9zC.js","assets/useUploads-CuJif0Om.js","assets/vue-mmzYRHno.js"];
const cacheName = `millrace-page-${"1832c6231bc2"}`;
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
