// Keeps the files of the page, so that it can be loaded while the server is away. It never answers for the API.
const files = ["./","favicon.svg","assets/ActPage-BmXondJt.js","assets/ActPage-CXf9eE_J.css","assets/ActsPage-Cmu5ZE8b.js","assets/ArticlesPage-BshYnX2f.js","assets/ArticlesPage-zxjtEA86.css","assets/BatchItemPage-CX-Cf4N8.js","assets/BatchItemPage-XQQmeCi8.css","assets/BatchPage-C1srjcs8.js","assets/BatchPage-CGSG_MAD.css","assets/BatchesPage-BFDCFKeO.css","assets/BatchesPage-DN1_4pYv.js","assets/BeginAct-DTtH8qF-.css","assets/BeginAct-DyasFSeo.js","assets/CommandPalette-Bemw8FYd.css","assets/CommandPalette-Cdhh9HgQ.js","assets/ComparePanel-BPMAJ1Pi.css","assets/ComparePanel-BdNagrxs.js","assets/DriftPage-DL-uQ2Sb.js","assets/DriftPage-LtexHZH6.css","assets/DropZone-B2kXp9B3.js","assets/DropZone-jwYXydww.css","assets/EventsPage-C53Sb_Df.js","assets/EventsPage-CpJ2JjiJ.css","assets/FailureGroups-D3qLvGWF.css","assets/FailureGroups-DpFgu-34.js","assets/FilePage-BA96VrRS.js","assets/FilesPage-BOsK5ZOJ.css","assets/FilesPage-QSm0kb-j.js","assets/ItemPage-4lNOF7Gj.js","assets/ItemPage-COBVi3rt.css","assets/ItemTable-AJ0_i_Ld.js","assets/JourneyPage-Br6iuNLs.js","assets/JourneyPage-Bytm3XvY.css","assets/LetterPage-BZr-RD9U.js","assets/LetterPage-CD276TRq.css","assets/LettersPage-C3WwjSfe.css","assets/LettersPage-CKICsZub.js","assets/NeedsAdmin-D2cS_4D4.css","assets/NeedsAdmin-DrWHwZGb.js","assets/OperationsPage-CjxJ49bB.css","assets/OperationsPage-yrQeHjAE.js","assets/PacePanel-Dtb7qoix.js","assets/PacePanel-gBJuYUnz.css","assets/PendingPage-AfIgfhIH.js","assets/QueueActs-5mY5F_dy.js","assets/QueueActs-DPmsstel.css","assets/QueuePage-kb06WqFA.js","assets/QueuesPage-CM4-O0SM.js","assets/QueuesPage-DBlFafyx.css","assets/ShortcutList-DoCcx0DZ.js","assets/ShortcutList-hdo9PLFK.css","assets/SourcePanel-CBYz6mM1.css","assets/SourcePanel-CMbuUuZI.js","assets/SourcesPage-DRLj9lOz.css","assets/SourcesPage-DXvW2hNo.js","assets/SystemPage--rd7-PO4.css","assets/SystemPage-BnvVbFad.js","assets/UploadPage-DlssmEp_.js","assets/UploadPage-OdHkKll7.css","assets/UploadsPage-By1zvudp.css","assets/UploadsPage-DwG1JgNg.js","assets/act-fEtrmiKm.js","assets/acts-DvnIZ7NM.js","assets/base-CaTcYy4K.js","assets/base-CzOeEK1e.css","assets/checks-CUDcIGEF.js","assets/find-QriBOJKr.js","assets/index-D-RUebLj.css","assets/index-D7h0YY5R.js","assets/inter-latin-wght-normal-Dx4kXJAl.woff2","assets/items-BaE2g9oO.js","assets/items-D_6_U3H3.css","assets/parts-BO32ph1d.js","assets/preload-helper-DclECHGd.js","assets/shared-C82NndNf.js","assets/shared-DSfkWHZ4.css","assets/stages-BNshboAw.js","assets/states-CR1QOHXt.js","assets/steps--UJk5kKb.js","assets/tabs-DKKGkgxr.js","assets/tabs-DnsKeF2f.css","assets/theme-D8MwLguf.js","assets/tone-Bw25umzs.js","assets/useActs-C4dCoO8r.js","assets/useOffered-2abAhT6t.js","assets/useOffered-CdFpfzjP.css","assets/useStages-Gurns1fZ.js","assets/useUploads-CngQ0mL0.js","assets/vue-mmzYRHno.js"];
const cacheName = `millrace-page-${"77eddfcac424"}`;
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
