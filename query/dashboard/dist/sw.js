// Keeps the files of the page, so that it can be loaded while the server is away. It never answers for the API.
const files = ["./","favicon.svg","assets/ActPage-DJKAjdCo.css","assets/ActPage-z9azuAGt.js","assets/ActsPage-CFijxiPk.js","assets/ArticlesPage-D-hHmFm4.js","assets/ArticlesPage-DgveZFIz.css","assets/BeginAct-DVbjrGaP.js","assets/BeginAct-aFEHKOPf.css","assets/CommandPalette-B1gzYooy.css","assets/CommandPalette-adEWrkMz.js","assets/ComparePanel-B-zSATa9.css","assets/ComparePanel-B3F7PbqJ.js","assets/DriftPage-LtexHZH6.css","assets/DriftPage-uJxjO5bQ.js","assets/EventsPage-CDO_O4ES.css","assets/EventsPage-CpBCYyck.js","assets/FilePage-9PaUTucq.js","assets/FilePage-B7DpG4Ub.css","assets/FilesPage-BRJal3fT.js","assets/FilesPage-C4iVdh-x.css","assets/ItemPage-Ba6ugN0P.js","assets/ItemPage-CytDHHOr.css","assets/JourneyPage-CEDm5LZQ.js","assets/JourneyPage-DcBzvHMP.css","assets/LetterPage-BsRggCfC.js","assets/LetterPage-C327k4oa.css","assets/LettersPage-CqN3gVzz.css","assets/LettersPage-DRsgSEuW.js","assets/NeedsAdmin-D2cS_4D4.css","assets/NeedsAdmin-DmYE6kD8.js","assets/OperationsPage-BuK51HSH.css","assets/OperationsPage-_RE6KSQn.js","assets/PacePanel-Dqt3LMcM.js","assets/PacePanel-gBJuYUnz.css","assets/QueueActs-C6Q3hEZ4.js","assets/QueueActs-DPmsstel.css","assets/QueuePage-DUWFxcNj.css","assets/QueuePage-Dq2bK3b2.js","assets/QueuesPage-Cg2o1afu.js","assets/QueuesPage-CvjB_FBr.css","assets/ShortcutList-CuabZv2V.css","assets/ShortcutList-D6dk0qaA.js","assets/SourcePanel-CeFLJR1c.css","assets/SourcePanel-Dj5AX-m6.js","assets/SourcesPage-Ban6icOm.css","assets/SourcesPage-D8dz8eE5.js","assets/SystemPage-BQHJjxdJ.js","assets/SystemPage-CxlGQi3h.css","assets/act-C1dnq9fM.js","assets/acts-3Hghb8xn.js","assets/base-7ACRYRun.css","assets/base-C36JSt3s.js","assets/checks-CMzODINN.js","assets/find-DseWG4Bt.js","assets/index-BUeCoDUG.css","assets/index-BwSY3O2t.js","assets/inter-latin-wght-normal-Dx4kXJAl.woff2","assets/pages-C1y6HTAd.css","assets/pages-CmL4tt0z.js","assets/parts-BCiCzSRZ.js","assets/preload-helper-DclECHGd.js","assets/shared-BkOT3nB2.js","assets/shared-CyZNSnXt.css","assets/stages-BNshboAw.js","assets/steps--UJk5kKb.js","assets/tabs-DnsKeF2f.css","assets/tabs-tDyD5XTq.js","assets/tone-C8jmDcwg.js","assets/useActs-DPvCl8AV.js","assets/useStages-DZts8S64.js","assets/vue-9oqbszvp.js"];
const cacheName = `millrace-page-${"87388fa55eb9"}`;
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
