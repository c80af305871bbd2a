// Keeps the files of the page, so that it can be loaded while the server is away. It never answers for the API.
const files = ["./","favicon.svg","assets/ActPage-DTluYt0l.css","assets/ActPage-Deh5skMX.js","assets/ActsPage-jRTBf1F7.js","assets/ArticlesPage-B-SBB1Ol.css","assets/ArticlesPage-CUmeXGVX.js","assets/BatchItemPage-B7zVf5XM.css","assets/BatchItemPage-Br2loDEo.js","assets/BatchPage-B60FfD9Z.js","assets/BatchPage-eu00MBvf.css","assets/BatchesPage-CPWW6LGT.js","assets/BatchesPage-CblZ2Zte.css","assets/BeginAct-BlPRtWEL.js","assets/BeginAct-afHVNr7p.css","assets/CommandPalette-B1gzYooy.css","assets/CommandPalette-P76siT-K.js","assets/ComparePanel-8MhQP7Be.js","assets/ComparePanel-BPMAJ1Pi.css","assets/DriftPage-DjAtuC7T.js","assets/DriftPage-LtexHZH6.css","assets/EventsPage-B9tXxE0a.js","assets/EventsPage-BZvvS5t5.css","assets/FilePage-BVXtJjD9.js","assets/FilesPage-DY1am7Pl.css","assets/FilesPage-D_t9g51J.js","assets/ItemPage-COBVi3rt.css","assets/ItemPage-pitkCDfJ.js","assets/ItemTable-CQHD-4PE.js","assets/JourneyPage-D1s3ZMlf.js","assets/JourneyPage-DcBzvHMP.css","assets/LetterPage-CD276TRq.css","assets/LetterPage-DVJkYANG.js","assets/LettersPage-BTQmQUhF.css","assets/LettersPage-DeeTQEse.js","assets/ListPage-DVJ3OKLp.js","assets/NeedsAdmin-BuILpPVC.js","assets/NeedsAdmin-D2cS_4D4.css","assets/OperationsPage-Bcchye_Y.js","assets/OperationsPage-C0e7XdE6.css","assets/PacePanel-gBJuYUnz.css","assets/PacePanel-gOSJDBw5.js","assets/QueueActs-DPmsstel.css","assets/QueueActs-DQ-xtGYl.js","assets/QueuePage-D9CO92_k.js","assets/QueuePage-DaS8llbw.css","assets/QueuesPage-BRiHul9p.js","assets/QueuesPage-DBlFafyx.css","assets/ShortcutList-CuabZv2V.css","assets/ShortcutList-W4wXK0yB.js","assets/SourcePanel-CBYz6mM1.css","assets/SourcePanel-D51JtuAb.js","assets/SourcesPage-D3pXbcrt.js","assets/SourcesPage-w-VgnQ0s.css","assets/SparkBars-BJBPST0U.css","assets/SparkBars-DJtutuHd.js","assets/SystemPage-BXqJq5uY.css","assets/SystemPage-Dbi32YiU.js","assets/act-C1dnq9fM.js","assets/acts-BJAIB92C.js","assets/base-C1Z342Sp.css","assets/base-DX6awrDb.js","assets/checks-CO6EQvls.js","assets/find-2VvHOXUq.js","assets/index-BZ8azdYX.js","assets/index-DqrSgp9h.css","assets/inter-latin-wght-normal-Dx4kXJAl.woff2","assets/pages-B5nsqJwK.js","assets/pages-CdFpfzjP.css","assets/parts-CjK6Fvcj.js","assets/preload-helper-DclECHGd.js","assets/shared-JCWw-Ltc.js","assets/shared-l_nhQe0U.css","assets/stages-BNshboAw.js","assets/states-CR1QOHXt.js","assets/steps--UJk5kKb.js","assets/tabs-3F9E0v6V.js","assets/tabs-DnsKeF2f.css","assets/theme-D8MwLguf.js","assets/tone-DRGKef3F.js","assets/useActs-Cqy7Jop4.js","assets/useStages-CAgmcOqg.js","assets/vue-mmzYRHno.js"];
const cacheName = `millrace-page-${"e212a5b389d5"}`;
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
