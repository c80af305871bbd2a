// Keeps the files of the page, so that it can be loaded while the server is away. It never answers for the API.
const files = ["./","favicon.svg","assets/ActPage-D9TQheLC.js","assets/ActPage-DTluYt0l.css","assets/ActsPage-D786WkGf.js","assets/ArticlesPage-B-SBB1Ol.css","assets/ArticlesPage-_0XNnTK-.js","assets/BeginAct-DpZCm-7F.js","assets/BeginAct-afHVNr7p.css","assets/CommandPalette-B1gzYooy.css","assets/CommandPalette-DC01aG2Z.js","assets/ComparePanel-BPMAJ1Pi.css","assets/ComparePanel-DrlbmM8k.js","assets/DriftPage-BZXVJKDo.js","assets/DriftPage-LtexHZH6.css","assets/EventsPage-BZvvS5t5.css","assets/EventsPage-Cnkenx4W.js","assets/FilePage-BzC6kCy9.js","assets/FilesPage-C2w4zbZW.js","assets/FilesPage-DY1am7Pl.css","assets/ItemPage-COBVi3rt.css","assets/ItemPage-DqobhCR0.js","assets/JourneyPage-CBPGm9Oi.js","assets/JourneyPage-DcBzvHMP.css","assets/LetterPage-CD276TRq.css","assets/LetterPage-DA50VFuL.js","assets/LettersPage-BGy9y1yM.js","assets/LettersPage-BTQmQUhF.css","assets/NeedsAdmin-2QruDEW-.js","assets/NeedsAdmin-D2cS_4D4.css","assets/OperationsPage-BL_1puxx.js","assets/OperationsPage-C0e7XdE6.css","assets/PacePanel-7a0BY6ka.js","assets/PacePanel-gBJuYUnz.css","assets/QueueActs-DPmsstel.css","assets/QueueActs-DRO-CRTv.js","assets/QueuePage-D8bMQmrx.js","assets/QueuePage-DaS8llbw.css","assets/QueuesPage-CsSvy-YS.js","assets/QueuesPage-DBlFafyx.css","assets/ShortcutList-CuabZv2V.css","assets/ShortcutList-Cvl9a2MR.js","assets/SourcePanel-CBYz6mM1.css","assets/SourcePanel-DVaV0pDm.js","assets/SourcesPage-BNLyRpok.css","assets/SourcesPage-BtVF5T1E.js","assets/SystemPage-B_dBJnHx.css","assets/SystemPage-DltfK-kH.js","assets/act-C1dnq9fM.js","assets/acts-B0B7DunY.js","assets/base-C1Z342Sp.css","assets/base-DX6awrDb.js","assets/checks-VgfYZ48T.js","assets/find-wlSzB3zV.js","assets/index-CDzSvZTb.js","assets/index-DqrSgp9h.css","assets/inter-latin-wght-normal-Dx4kXJAl.woff2","assets/pages-CdFpfzjP.css","assets/pages-F7lOFpCu.js","assets/parts-CjK6Fvcj.js","assets/preload-helper-DclECHGd.js","assets/shared-B3Wo6Iv0.js","assets/shared-l_nhQe0U.css","assets/stages-BNshboAw.js","assets/steps--UJk5kKb.js","assets/tabs-DNt7rN01.js","assets/tabs-DnsKeF2f.css","assets/theme-D8MwLguf.js","assets/tone-DKFzIhoL.js","assets/useActs-CAOTr4tY.js","assets/useStages-BLVRwq75.js","assets/vue-mmzYRHno.js"];
const cacheName = `millrace-page-${"d4b542333c03"}`;
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
