// Keeps the files of the page, so that it can be loaded while the server is away. It never answers for the API.
const files = ["./","favicon.svg","assets/ActPage-DausAQYK.css","assets/ActPage-HZ653QRB.js","assets/ActsPage-5DlS-yrW.js","assets/ArticlesPage-DPwtdgTo.js","assets/ArticlesPage-zxjtEA86.css","assets/BatchItemPage-B5oQaFZQ.js","assets/BatchItemPage-XQQmeCi8.css","assets/BatchPage-CGSG_MAD.css","assets/BatchPage-CSaJ-Oah.js","assets/BatchesPage-BFDCFKeO.css","assets/BatchesPage-BQImhU1U.js","assets/BeginAct-BZgPZKLp.js","assets/BeginAct-CJXkjUZp.css","assets/CommandPalette-Bemw8FYd.css","assets/CommandPalette-CoH7PeCt.js","assets/ComparePanel-BPMAJ1Pi.css","assets/ComparePanel-D81ZAk3q.js","assets/DriftPage-C7fnsIIM.js","assets/DriftPage-LtexHZH6.css","assets/DropZone-Cyu5lY3w.js","assets/DropZone-jwYXydww.css","assets/EventsPage-Bdm2QNbG.js","assets/EventsPage-CpJ2JjiJ.css","assets/FailureGroups-D3qLvGWF.css","assets/FailureGroups-cWBN0aH9.js","assets/FilePage-B8HgSb-T.js","assets/FilesPage-BOsK5ZOJ.css","assets/FilesPage-CRx07w1d.js","assets/ItemPage-COBVi3rt.css","assets/ItemPage-Ddughlgk.js","assets/ItemTable-CSF_TQFf.js","assets/JourneyPage-BCw-Njpu.js","assets/JourneyPage-Bytm3XvY.css","assets/LetterPage-CD276TRq.css","assets/LetterPage-DCVQRjEQ.js","assets/LettersPage-BJo9Nvrm.js","assets/LettersPage-C3WwjSfe.css","assets/NeedsAdmin-BINEzeri.js","assets/NeedsAdmin-D2cS_4D4.css","assets/OperationsPage-DV-mIi8Z.js","assets/OperationsPage-d-6cmrXe.css","assets/PacePanel-DYS1tJRL.js","assets/PacePanel-gBJuYUnz.css","assets/PendingPage--L5AF5XS.js","assets/QueueActs-DHwKEyzO.js","assets/QueueActs-DPmsstel.css","assets/QueuePage-B5Sgz2fn.js","assets/QueuesPage-BRBOijrs.js","assets/QueuesPage-DBlFafyx.css","assets/ShortcutList-BWNdoIBf.js","assets/ShortcutList-hdo9PLFK.css","assets/SourcePanel-CBYz6mM1.css","assets/SourcePanel-CGcDXxGO.js","assets/SourcesPage-CH9MvzE4.js","assets/SourcesPage-DRLj9lOz.css","assets/SystemPage--rd7-PO4.css","assets/SystemPage-DhOUmrNy.js","assets/UploadPage-C1u1WxdW.js","assets/UploadPage-DfxSVCV2.css","assets/UploadsPage-BTdAtL0W.js","assets/UploadsPage-BwkJh1VN.css","assets/act-R59jxtJ9.js","assets/acts-DTie4R2O.js","assets/base-CaTcYy4K.js","assets/base-CzOeEK1e.css","assets/checks-BZD2yWSA.js","assets/find-DSdTzA4X.js","assets/index-D-RUebLj.css","assets/index-DyMq570V.js","assets/inter-latin-wght-normal-Dx4kXJAl.woff2","assets/items-Crw2FbCE.css","assets/items-DGy4PquX.js","assets/parts-BO32ph1d.js","assets/preload-helper-DclECHGd.js","assets/shared-DSfkWHZ4.css","assets/shared-DigSK4xQ.js","assets/stages-BNshboAw.js","assets/states-CR1QOHXt.js","assets/steps--UJk5kKb.js","assets/tabs-DnsKeF2f.css","assets/tabs-DztcQlr6.js","assets/theme-D8MwLguf.js","assets/tone-BLEOXDjz.js","assets/useActs-DbocO4MN.js","assets/useOffered-CdFpfzjP.css","assets/useOffered-DZeH5GIK.js","assets/useStages-DE5Xp8MG.js","assets/useUploads-C1YCM0e1.js","assets/vue-mmzYRHno.js"];
const cacheName = `millrace-page-${"c707e0a0e546"}`;
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
