// Keeps the files of the page, so that it can be loaded while the server is away. It never answers for the API.
const files = ["./","favicon.svg","assets/ActPage-C1Po2XNN.js","assets/ActPage-DJKAjdCo.css","assets/ActsPage-Brk1koPY.js","assets/ArticlesPage-B-SBB1Ol.css","assets/ArticlesPage-DjAWVS6h.js","assets/BeginAct-DyUV4QNp.js","assets/BeginAct-aFEHKOPf.css","assets/CommandPalette-B1gzYooy.css","assets/CommandPalette-CpeY1Kfh.js","assets/ComparePanel-B-zSATa9.css","assets/ComparePanel-B1mP7UcU.js","assets/DriftPage-E7Vj_fdh.js","assets/DriftPage-LtexHZH6.css","assets/EventsPage-BZvvS5t5.css","assets/EventsPage-DATbbo0u.js","assets/FilePage-B7DpG4Ub.css","assets/FilePage-CMmsocsH.js","assets/FilesPage-CvcN4wa-.js","assets/FilesPage-DY1am7Pl.css","assets/ItemPage-CduWZ4FK.css","assets/ItemPage-sTUf8Y9X.js","assets/JourneyPage-DIxGFvPR.js","assets/JourneyPage-DcBzvHMP.css","assets/LetterPage-C327k4oa.css","assets/LetterPage-CmEHdY2n.js","assets/LettersPage-BTQmQUhF.css","assets/LettersPage-Tin36di-.js","assets/NeedsAdmin-D2cS_4D4.css","assets/NeedsAdmin-NIR5Qo1y.js","assets/OperationsPage-BH4Oo4Ts.js","assets/OperationsPage-DF5GqqX7.css","assets/PacePanel-gBJuYUnz.css","assets/PacePanel-tY3Bwg5E.js","assets/QueueActs-DPmsstel.css","assets/QueueActs-DetKF9fk.js","assets/QueuePage-CuXh4bun.js","assets/QueuePage-DMfpSZEr.css","assets/QueuesPage-DBlFafyx.css","assets/QueuesPage-Dpw0oXwC.js","assets/ShortcutList-CH-yiFQ8.js","assets/ShortcutList-CuabZv2V.css","assets/SourcePanel-BEpjl8hb.css","assets/SourcePanel-DnqX-7mG.js","assets/SourcesPage-ByABGsTl.js","assets/SourcesPage-D6pD6eQQ.css","assets/SystemPage-CphQ00cj.js","assets/SystemPage-CxlGQi3h.css","assets/act-C1dnq9fM.js","assets/acts-DTaOhpDt.js","assets/base-7ACRYRun.css","assets/base-C36JSt3s.js","assets/checks-Cc3JciQ7.js","assets/find-D2l8qn69.js","assets/index-BUeCoDUG.css","assets/index-DBe16x54.js","assets/inter-latin-wght-normal-Dx4kXJAl.woff2","assets/pages-BDtPLxqR.js","assets/pages-C1y6HTAd.css","assets/parts-CjK6Fvcj.js","assets/preload-helper-DclECHGd.js","assets/shared-CyZNSnXt.css","assets/shared-D1QLrwPx.js","assets/stages-BNshboAw.js","assets/steps--UJk5kKb.js","assets/tabs-B7U-K75L.js","assets/tabs-DnsKeF2f.css","assets/tone-Dro7UKSc.js","assets/useActs-D44HTzKV.js","assets/useStages-DzMx6hej.js","assets/vue-mmzYRHno.js"];
const cacheName = `millrace-page-${"78e57936c3a7"}`;
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
