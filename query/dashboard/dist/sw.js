// Keeps the files of the page, so that it can be loaded while the server is away. It never answers for the API.
const files = ["./","favicon.svg","assets/ActPage-DTluYt0l.css","assets/ActPage-y15skZPF.js","assets/ActsPage-BAsha8Gp.js","assets/ArticlesPage-B-SBB1Ol.css","assets/ArticlesPage-DHuOCptV.js","assets/BatchItemPage-B7zVf5XM.css","assets/BatchItemPage-CLbxPBYq.js","assets/BatchPage-CLG1Oobv.js","assets/BatchPage-eu00MBvf.css","assets/BatchesPage-BEAaAJI0.js","assets/BatchesPage-CblZ2Zte.css","assets/BeginAct-C_Ap5mVW.js","assets/BeginAct-afHVNr7p.css","assets/CommandPalette-B1gzYooy.css","assets/CommandPalette-DUVmIxFg.js","assets/ComparePanel-BPMAJ1Pi.css","assets/ComparePanel-D3Ah-ggT.js","assets/DriftPage-LtexHZH6.css","assets/DriftPage-WZRnNMMH.js","assets/EventsPage-BfWuqbL2.css","assets/EventsPage-CPafT1ou.js","assets/FilePage-DsPEYXwF.js","assets/FilesPage-DR7ZAWRY.js","assets/FilesPage-baWgXJMq.css","assets/ItemPage-COBVi3rt.css","assets/ItemPage-Ci2f9O2l.js","assets/ItemTable-e_6sH7qf.js","assets/JourneyPage-BPuaZ8Xu.js","assets/JourneyPage-DcBzvHMP.css","assets/LetterPage-4QKorw4i.js","assets/LetterPage-CD276TRq.css","assets/LettersPage-BTQmQUhF.css","assets/LettersPage-DIE0Wn-T.js","assets/NeedsAdmin-D2cS_4D4.css","assets/NeedsAdmin-DX-_jCnY.js","assets/OperationsPage-C0e7XdE6.css","assets/OperationsPage-C6lxltir.js","assets/PacePanel-BorWgHB4.js","assets/PacePanel-gBJuYUnz.css","assets/QueueActs-DPmsstel.css","assets/QueueActs-Ojk1MaVO.js","assets/QueuePage-DaS8llbw.css","assets/QueuePage-Dd66na-T.js","assets/QueuesPage-CT1_OA_z.js","assets/QueuesPage-DBlFafyx.css","assets/ShortcutList-CuabZv2V.css","assets/ShortcutList-DXhKFMm4.js","assets/SourcePanel-B1nGw1WZ.js","assets/SourcePanel-CBYz6mM1.css","assets/SourcesPage-BdQuDzCi.js","assets/SourcesPage-w-VgnQ0s.css","assets/SparkBars-BJBPST0U.css","assets/SparkBars-C5BDNBqY.js","assets/SystemPage--rd7-PO4.css","assets/SystemPage-DqLDzINb.js","assets/act-C1dnq9fM.js","assets/acts-CWGzdUOs.js","assets/base-C1Z342Sp.css","assets/base-DX6awrDb.js","assets/checks-8vTSCJ_9.js","assets/find-DrPGMDOv.js","assets/index-CK24MzH7.js","assets/index-DqrSgp9h.css","assets/inter-latin-wght-normal-Dx4kXJAl.woff2","assets/pages-CdFpfzjP.css","assets/pages-CfqBooSj.js","assets/parts-CjK6Fvcj.js","assets/preload-helper-DclECHGd.js","assets/shared-Hpdg_-tb.css","assets/shared-pSwBQO1C.js","assets/stages-BNshboAw.js","assets/states-CR1QOHXt.js","assets/steps--UJk5kKb.js","assets/tabs-DUokpcPc.js","assets/tabs-DnsKeF2f.css","assets/theme-D8MwLguf.js","assets/tone-D43PIo1Q.js","assets/useActs-C6_HEx6B.js","assets/useStages-BQBb8o-z.js","assets/vue-mmzYRHno.js"];
const cacheName = `millrace-page-${"e00a0fa3af85"}`;
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
