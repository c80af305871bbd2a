// Keeps the files of the page, so that it can be loaded while the server is away. It never answers for the API.
const files = ["./","favicon.svg","assets/ActPage-D8fOg4hi.js","assets/ActPage-DJKAjdCo.css","assets/ActsPage-BW3SuBVS.js","assets/ArticlesPage-DgveZFIz.css","assets/ArticlesPage-x3dh0GXc.js","assets/BeginAct-CJwFc_aP.js","assets/BeginAct-aFEHKOPf.css","assets/CommandPalette-B1gzYooy.css","assets/CommandPalette-BLqaUHEA.js","assets/ComparePanel-3Rn1y8jB.js","assets/ComparePanel-B-zSATa9.css","assets/DriftPage-3FOhScgQ.js","assets/DriftPage-LtexHZH6.css","assets/EventsPage-B_XMAUaa.js","assets/EventsPage-CDO_O4ES.css","assets/FilePage-B7DpG4Ub.css","assets/FilePage-BlybS23o.js","assets/FilesPage-C4iVdh-x.css","assets/FilesPage-nLWhJr8v.js","assets/ItemPage-CA3KOJuY.js","assets/ItemPage-CduWZ4FK.css","assets/JourneyPage-BXqLV08j.js","assets/JourneyPage-DcBzvHMP.css","assets/LetterPage-C327k4oa.css","assets/LetterPage-DQiyfycb.js","assets/LettersPage-CqN3gVzz.css","assets/LettersPage-oFs2WZaC.js","assets/NeedsAdmin-CUYQmNRz.js","assets/NeedsAdmin-D2cS_4D4.css","assets/OperationsPage-BuK51HSH.css","assets/OperationsPage-CDGueJLQ.js","assets/PacePanel-C8kTAX8v.js","assets/PacePanel-gBJuYUnz.css","assets/QueueActs-DPmsstel.css","assets/QueueActs-EJ1F-SZt.js","assets/QueuePage-BGZuu2wN.css","assets/QueuePage-Ddcm2iYe.js","assets/QueuesPage-CvjB_FBr.css","assets/QueuesPage-Dwk-ATxr.js","assets/ShortcutList-C_VHY3fT.js","assets/ShortcutList-CuabZv2V.css","assets/SourcePanel-BEpjl8hb.css","assets/SourcePanel-g3M2QoIH.js","assets/SourcesPage-Ban6icOm.css","assets/SourcesPage-BoSw0wj_.js","assets/SystemPage-CmGQg2PK.js","assets/SystemPage-CxlGQi3h.css","assets/act-C1dnq9fM.js","assets/acts-C06SvEcL.js","assets/base-7ACRYRun.css","assets/base-C36JSt3s.js","assets/checks-3vlg1y2B.js","assets/find-0wyTlvbo.js","assets/index-BUeCoDUG.css","assets/index-Bo7Y4UcD.js","assets/inter-latin-wght-normal-Dx4kXJAl.woff2","assets/pages-C1y6HTAd.css","assets/pages-DlWmN8P6.js","assets/parts-CjK6Fvcj.js","assets/preload-helper-DclECHGd.js","assets/shared-CyZNSnXt.css","assets/shared-j-nVHEIs.js","assets/stages-BNshboAw.js","assets/steps--UJk5kKb.js","assets/tabs-DZs-H7Nf.js","assets/tabs-DnsKeF2f.css","assets/tone-BujDDPDX.js","assets/useActs-BMYQDguL.js","assets/useStages-Dc1oPH5O.js","assets/vue-mmzYRHno.js"];
const cacheName = `millrace-page-${"446b22b25d17"}`;
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
