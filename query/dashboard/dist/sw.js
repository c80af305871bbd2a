// Keeps the files of the page, so that it can be loaded while the server is away. It never answers for the API.
const files = ["./","favicon.svg","assets/ActPage-DHR0pU8W.js","assets/ActPage-DTluYt0l.css","assets/ActsPage-tlnV0rTV.js","assets/ArticlesPage-B-SBB1Ol.css","assets/ArticlesPage-FX4CRCBC.js","assets/BatchItemPage-B7zVf5XM.css","assets/BatchItemPage-WijXuO9q.js","assets/BatchPage-Dq5AUzgU.js","assets/BatchPage-eu00MBvf.css","assets/BatchesPage-CblZ2Zte.css","assets/BatchesPage-Hx2cKviD.js","assets/BeginAct-RXxBJBkG.js","assets/BeginAct-afHVNr7p.css","assets/CommandPalette-B1gzYooy.css","assets/CommandPalette-DIY1-7KJ.js","assets/ComparePanel-BPMAJ1Pi.css","assets/ComparePanel-DskBxBv6.js","assets/DriftPage-FUGnaoWt.js","assets/DriftPage-LtexHZH6.css","assets/EventsPage-BfWuqbL2.css","assets/EventsPage-DwEnpF9y.js","assets/FilePage-Bkt-LXRj.js","assets/FilesPage-BFIPTU1x.js","assets/FilesPage-baWgXJMq.css","assets/ItemPage-COBVi3rt.css","assets/ItemPage-D-rQuCUA.js","assets/ItemTable-BZOhbSTv.js","assets/JourneyPage-DcBzvHMP.css","assets/JourneyPage-dOR1RI99.js","assets/LetterPage-CD276TRq.css","assets/LetterPage-vtUriACP.js","assets/LettersPage-BTQmQUhF.css","assets/LettersPage-DnajhoCA.js","assets/NeedsAdmin-BnTZ9r2d.js","assets/NeedsAdmin-D2cS_4D4.css","assets/OperationsPage-C0e7XdE6.css","assets/OperationsPage-DopzfZOA.js","assets/PacePanel-B-poIjFQ.js","assets/PacePanel-gBJuYUnz.css","assets/QueueActs-7pasC-HC.js","assets/QueueActs-DPmsstel.css","assets/QueuePage-Ctk2nFmM.js","assets/QueuePage-DaS8llbw.css","assets/QueuesPage-BFXdRwWI.js","assets/QueuesPage-DBlFafyx.css","assets/ShortcutList-CuabZv2V.css","assets/ShortcutList-dh4YYUJ7.js","assets/SourcePanel-CBYz6mM1.css","assets/SourcePanel-xFls-nPw.js","assets/SourcesPage-RlC9lTZs.js","assets/SourcesPage-w-VgnQ0s.css","assets/SparkBars-5HufIFKx.js","assets/SparkBars-BJBPST0U.css","assets/SystemPage--rd7-PO4.css","assets/SystemPage-CQedqzWW.js","assets/act-C1dnq9fM.js","assets/acts-BmhQVDEl.js","assets/base-C1Z342Sp.css","assets/base-DX6awrDb.js","assets/checks-BFmUG9w-.js","assets/find-BECsyLi7.js","assets/index-DqrSgp9h.css","assets/index-x0TJbNid.js","assets/inter-latin-wght-normal-Dx4kXJAl.woff2","assets/pages-BTImzqP2.js","assets/pages-CdFpfzjP.css","assets/parts-CjK6Fvcj.js","assets/preload-helper-DclECHGd.js","assets/shared-CR8QsZU_.js","assets/shared-l_nhQe0U.css","assets/stages-BNshboAw.js","assets/states-CR1QOHXt.js","assets/steps--UJk5kKb.js","assets/tabs-DnsKeF2f.css","assets/tabs-dWrVItZQ.js","assets/theme-D8MwLguf.js","assets/tone-6x9FPY3r.js","assets/useActs-BXWdPtpX.js","assets/useStages-ClWlZthv.js","assets/vue-mmzYRHno.js"];
const cacheName = `millrace-page-${"37bbcf8f7f45"}`;
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
