// Keeps the files of the page, so that it can be loaded while the server is away. It never answers for the API.
const files = ["./","favicon.svg","assets/ActPage-DJKAjdCo.css","assets/ActPage-DnfnuCKa.js","assets/ActsPage-CbbMqI1q.js","assets/ArticlesPage-B-SBB1Ol.css","assets/ArticlesPage-CfTZp8lw.js","assets/BeginAct-CYPAJv-K.js","assets/BeginAct-aFEHKOPf.css","assets/CommandPalette-B1gzYooy.css","assets/CommandPalette-DR_Tl8dM.js","assets/ComparePanel-BPMAJ1Pi.css","assets/ComparePanel-cTQg7QCV.js","assets/DriftPage-BBDEMsgY.js","assets/DriftPage-LtexHZH6.css","assets/EventsPage-BZvvS5t5.css","assets/EventsPage-ZtFLdTZp.js","assets/FilePage-B7DpG4Ub.css","assets/FilePage-Bir9jMka.js","assets/FilesPage-CWdtuNqT.js","assets/FilesPage-DY1am7Pl.css","assets/ItemPage-CduWZ4FK.css","assets/ItemPage-CsQRRxHS.js","assets/JourneyPage-D_GyTz7X.js","assets/JourneyPage-DcBzvHMP.css","assets/LetterPage-C327k4oa.css","assets/LetterPage-CJ8PWdtb.js","assets/LettersPage-BOCb6Nwp.js","assets/LettersPage-BTQmQUhF.css","assets/NeedsAdmin-D2cS_4D4.css","assets/NeedsAdmin-Y_cKo0jH.js","assets/OperationsPage-CXYpE0Yh.js","assets/OperationsPage-DF5GqqX7.css","assets/PacePanel-DMr-HRPc.js","assets/PacePanel-gBJuYUnz.css","assets/QueueActs-CEozVhgd.js","assets/QueueActs-DPmsstel.css","assets/QueuePage-Bv8g8v75.js","assets/QueuePage-DaS8llbw.css","assets/QueuesPage-DBlFafyx.css","assets/QueuesPage-OJQX3AqX.js","assets/ShortcutList-CDviN5AR.js","assets/ShortcutList-CuabZv2V.css","assets/SourcePanel-45r1Sx2J.js","assets/SourcePanel-BEpjl8hb.css","assets/SourcesPage-D6pD6eQQ.css","assets/SourcesPage-DGjd2Ki0.js","assets/SystemPage-Cg4NqPcQ.js","assets/SystemPage-Ch2TeqJW.css","assets/act-C1dnq9fM.js","assets/acts-xG0b5nVY.js","assets/base-7ACRYRun.css","assets/base-C36JSt3s.js","assets/checks-CDNLuV4d.js","assets/find-DdgNkYp5.js","assets/index-B4Z4sMEx.js","assets/index-BUeCoDUG.css","assets/inter-latin-wght-normal-Dx4kXJAl.woff2","assets/pages-B7XAEABT.js","assets/pages-BAKaLQTr.css","assets/parts-CjK6Fvcj.js","assets/preload-helper-DclECHGd.js","assets/shared-CyZNSnXt.css","assets/shared-LPojC4hj.js","assets/stages-BNshboAw.js","assets/steps--UJk5kKb.js","assets/tabs-CE6_DHaa.js","assets/tabs-DnsKeF2f.css","assets/theme-D8MwLguf.js","assets/tone-DH-FgdB3.js","assets/useActs-B-ZxSY6O.js","assets/useStages-BKZT1Den.js","assets/vue-mmzYRHno.js"];
const cacheName = `millrace-page-${"56ca1c0f0892"}`;
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
