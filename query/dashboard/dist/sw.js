// Keeps the files of the page, so that it can be loaded while the server is away. It never answers for the API.
const files = ["./","favicon.svg","assets/ActPage-CXf9eE_J.css","assets/ActPage-DtvZKZYf.js","assets/ActsPage-C21_IYpV.js","assets/ArticlesPage-BHOkdI03.js","assets/ArticlesPage-jADewVKt.css","assets/BatchItemPage-BS1F7_2L.js","assets/BatchItemPage-XQQmeCi8.css","assets/BatchPage-CFPMIOSh.css","assets/BatchPage-ClGFvP-w.js","assets/BatchesPage-CEGEspm2.js","assets/BatchesPage-jLAfcdXD.css","assets/BeginAct-BaB7J_Fx.js","assets/BeginAct-DTtH8qF-.css","assets/CommandPalette-Bemw8FYd.css","assets/CommandPalette-C7itxKZO.js","assets/ComparePanel-18DV03SH.js","assets/ComparePanel-BPMAJ1Pi.css","assets/DriftPage-LtexHZH6.css","assets/DriftPage-aego2vgS.js","assets/DropZone-D-1677Ye.js","assets/DropZone-jwYXydww.css","assets/EventsPage-BfWuqbL2.css","assets/EventsPage-PT8SjRno.js","assets/FilePage-nfkcQSKH.js","assets/FilesPage-BzANJTdb.css","assets/FilesPage-DXHdSwdK.js","assets/ItemPage-COBVi3rt.css","assets/ItemPage-CnHqjjdm.js","assets/ItemTable-CplrZdvH.js","assets/JourneyPage-Bytm3XvY.css","assets/JourneyPage-jvNga7Is.js","assets/LetterPage-CD276TRq.css","assets/LetterPage-KS91jEMI.js","assets/LettersPage-BTQmQUhF.css","assets/LettersPage-CmyhqlNF.js","assets/NeedsAdmin-CqeemhQx.js","assets/NeedsAdmin-D2cS_4D4.css","assets/OperationsPage-DEyTwvFN.css","assets/OperationsPage-DzUhjB0b.js","assets/PacePanel-YJ1OKMrn.js","assets/PacePanel-gBJuYUnz.css","assets/PendingPage-BGZxUHpr.js","assets/QueueActs-BNTLVDJJ.js","assets/QueueActs-DPmsstel.css","assets/QueuePage-BETEDPL9.js","assets/QueuePage-D3qLvGWF.css","assets/QueuesPage-DBlFafyx.css","assets/QueuesPage-f6On8MJR.js","assets/ShortcutList-BK_hmI4D.js","assets/ShortcutList-hdo9PLFK.css","assets/SourcePanel-CBYz6mM1.css","assets/SourcePanel-UoJwZF35.js","assets/SourcesPage-BNLyRpok.css","assets/SourcesPage-Dp60j01c.js","assets/SystemPage--rd7-PO4.css","assets/SystemPage-DxITNhIG.js","assets/UploadPage-D8MO6Ajf.js","assets/UploadPage-OdHkKll7.css","assets/UploadsPage-3wdSZB_-.css","assets/UploadsPage-Cz1iRSXc.js","assets/act-fEtrmiKm.js","assets/acts-BR9wFo1R.js","assets/base-CaTcYy4K.js","assets/base-CzOeEK1e.css","assets/checks-DtGzNa3R.js","assets/find-BWFezOc4.js","assets/index-CGLEbBLg.js","assets/index-D-RUebLj.css","assets/inter-latin-wght-normal-Dx4kXJAl.woff2","assets/items-Bt7lRHbb.css","assets/items-Dc4ZgtgM.js","assets/parts-BO32ph1d.js","assets/preload-helper-DclECHGd.js","assets/shared-DSfkWHZ4.css","assets/shared-Dw0ThZpU.js","assets/stages-BNshboAw.js","assets/states-CR1QOHXt.js","assets/steps--UJk5kKb.js","assets/tabs-BzAqJc4G.js","assets/tabs-DnsKeF2f.css","assets/theme-D8MwLguf.js","assets/tone-6M6Rgg6s.js","assets/useActs-gQTyU93w.js","assets/useOffered-Bd80__cI.js","assets/useOffered-CdFpfzjP.css","assets/useStages-Ctwct36X.js","assets/useUploads-WhE0kxur.js","assets/vue-mmzYRHno.js"];
const cacheName = `millrace-page-${"dcd6eab91309"}`;
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
