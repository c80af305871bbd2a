// Keeps the files of the page, so that it can be loaded while the server is away. It never answers for the API.
const files = ["./","favicon.svg","assets/ActPage-DPBD4_QN.js","assets/ActPage-DTluYt0l.css","assets/ActsPage-CfxbqXdF.js","assets/ArticlesPage-B-SBB1Ol.css","assets/ArticlesPage-CKN0SEQJ.js","assets/BatchItemPage-B7zVf5XM.css","assets/BatchItemPage-CoLRVYC-.js","assets/BatchPage-C5kQNHdQ.js","assets/BatchPage-eu00MBvf.css","assets/BatchesPage-CblZ2Zte.css","assets/BatchesPage-DYqGr6Ll.js","assets/BeginAct-BZP0kNba.js","assets/BeginAct-afHVNr7p.css","assets/CommandPalette-B1gzYooy.css","assets/CommandPalette-dkpMM1V7.js","assets/ComparePanel-BPMAJ1Pi.css","assets/ComparePanel-slEQKqTJ.js","assets/DriftPage-DOfjUmau.js","assets/DriftPage-LtexHZH6.css","assets/EventsPage-BCtjA9XU.js","assets/EventsPage-BZvvS5t5.css","assets/FilePage-Da0VLKjh.js","assets/FilesPage-CzQ_zJIM.js","assets/FilesPage-DY1am7Pl.css","assets/ItemPage-COBVi3rt.css","assets/ItemPage-DZYrluhY.js","assets/ItemTable-qsj5AI9D.js","assets/JourneyPage-DcBzvHMP.css","assets/JourneyPage-wIrsMrtx.js","assets/LetterPage-CD276TRq.css","assets/LetterPage-CFWvejjn.js","assets/LettersPage-BTQmQUhF.css","assets/LettersPage-CSpLdQd_.js","assets/ListPage-vLHByjs9.js","assets/NeedsAdmin-BdZPseP7.js","assets/NeedsAdmin-D2cS_4D4.css","assets/OperationsPage-C0e7XdE6.css","assets/OperationsPage-n1IMLGrH.js","assets/PacePanel-DuSSjdW2.js","assets/PacePanel-gBJuYUnz.css","assets/QueueActs-CMI2iEl8.js","assets/QueueActs-DPmsstel.css","assets/QueuePage-C8FKAC-h.js","assets/QueuePage-DaS8llbw.css","assets/QueuesPage-CLjldcTF.js","assets/QueuesPage-DBlFafyx.css","assets/ShortcutList-BP4XLDcS.js","assets/ShortcutList-CuabZv2V.css","assets/SourcePanel-CBYz6mM1.css","assets/SourcePanel-CcLPTdrC.js","assets/SourcesPage-Cf7Lcs2S.js","assets/SourcesPage-w-VgnQ0s.css","assets/SparkBars-BJBPST0U.css","assets/SparkBars-Cr8S47dm.js","assets/SystemPage-BD581zMg.js","assets/SystemPage-B_dBJnHx.css","assets/act-C1dnq9fM.js","assets/acts-DoGTqc4e.js","assets/base-C1Z342Sp.css","assets/base-DX6awrDb.js","assets/checks-BgXknTVl.js","assets/find-CS0Y_2Eb.js","assets/index-De_EuUQr.js","assets/index-DqrSgp9h.css","assets/inter-latin-wght-normal-Dx4kXJAl.woff2","assets/pages-CdFpfzjP.css","assets/pages-DG6SH9vc.js","assets/parts-CjK6Fvcj.js","assets/preload-helper-DclECHGd.js","assets/shared-B7cIYrGo.js","assets/shared-l_nhQe0U.css","assets/stages-BNshboAw.js","assets/states-CR1QOHXt.js","assets/steps--UJk5kKb.js","assets/tabs-BJfWA5Yk.js","assets/tabs-DnsKeF2f.css","assets/theme-D8MwLguf.js","assets/tone-pTce_uot.js","assets/useActs-CplRF954.js","assets/useStages-CSOhhBgY.js","assets/vue-mmzYRHno.js"];
const cacheName = `millrace-page-${"310ee4126767"}`;
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
