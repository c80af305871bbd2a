// Keeps the files of the page, so that it can be loaded while the server is away. It never answers for the API.
const files = ["./","favicon.svg","assets/ActPage-DJKAjdCo.css","assets/ActPage-np5pyZds.js","assets/ActsPage-RLNVDL4s.js","assets/ArticlesPage-0Vs42pHx.js","assets/ArticlesPage-DgveZFIz.css","assets/BeginAct-DTnOORQg.js","assets/BeginAct-aFEHKOPf.css","assets/CommandPalette-B1gzYooy.css","assets/CommandPalette-CLgf5zpt.js","assets/ComparePanel-7g1hJbe5.js","assets/ComparePanel-B-zSATa9.css","assets/DriftPage-7Cosvksx.js","assets/DriftPage-LtexHZH6.css","assets/EventsPage-CDO_O4ES.css","assets/EventsPage-DV_3Kx98.js","assets/FilePage-B7DpG4Ub.css","assets/FilePage-Cwu95w2j.js","assets/FilesPage-2S5YKDsY.js","assets/FilesPage-C4iVdh-x.css","assets/ItemPage-Bi84EbIL.js","assets/ItemPage-CytDHHOr.css","assets/JourneyPage-Bc5Sg16z.js","assets/JourneyPage-DcBzvHMP.css","assets/LetterPage-BRcyMaPv.js","assets/LetterPage-C327k4oa.css","assets/LettersPage-Be0M7C3r.js","assets/LettersPage-CqN3gVzz.css","assets/NeedsAdmin-D2cS_4D4.css","assets/NeedsAdmin-DQrADnau.js","assets/OperationsPage-BYBRmMg7.css","assets/OperationsPage-DZ9m1MDe.js","assets/PacePanel-UlanIlnh.js","assets/PacePanel-gBJuYUnz.css","assets/QueueActs-DPmsstel.css","assets/QueueActs-LYbbWWgV.js","assets/QueuePage-Bp19eHRU.js","assets/QueuePage-DUWFxcNj.css","assets/QueuesPage-BXBABaSv.js","assets/QueuesPage-CvjB_FBr.css","assets/ShortcutList-B5GX4exX.js","assets/ShortcutList-CuabZv2V.css","assets/SourcesPage-Ban6icOm.css","assets/SourcesPage-CZBHBPVT.js","assets/SystemPage-CxlGQi3h.css","assets/SystemPage-LmrhYHup.js","assets/act-C1dnq9fM.js","assets/acts-SYa2z9pv.js","assets/base-7ACRYRun.css","assets/base-C36JSt3s.js","assets/checks-BY41bqLX.js","assets/exactJson-CtgsqK_F.js","assets/find-CJN4J_wZ.js","assets/index-BUeCoDUG.css","assets/index-Dbu69Qna.js","assets/inter-latin-wght-normal-Dx4kXJAl.woff2","assets/pages-C1y6HTAd.css","assets/pages-TcppNz83.js","assets/parts-B8JZXE6G.js","assets/shared-CyZNSnXt.css","assets/shared-DDn7UQqb.js","assets/stages-BNshboAw.js","assets/steps--UJk5kKb.js","assets/tone-C8jmDcwg.js","assets/useActs-CK1nY0ba.js","assets/useStages-Bfmyg7cu.js","assets/vue-BvZSYtSc.js"];
const cacheName = `millrace-page-${"322d5b6ba8b6"}`;
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
