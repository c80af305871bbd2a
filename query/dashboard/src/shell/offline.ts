/**
 * Lets the page itself be there while the server is away, for who loads it again then. Browsers allow that on secure
 * pages and on the machine itself. The numbers are kept beside it, by the cache of answers.
 */
export function keepOffline(): void {
  window.addEventListener('vite:preloadError', takeNewPage);
  if (!import.meta.env.PROD || !('serviceWorker' in navigator)) return;
  // A page that cannot be kept works all the same.
  void navigator.serviceWorker.register('sw.js').catch(() => {});
}

const key = 'millrace.renewed';
const patience = 60_000;

/**
 * After an upgrade of the server, a page that was open before asks for files that are gone; the new page knows the new
 * ones. Once in a while only: while the server is away, loading again would take what is shown.
 */
function takeNewPage(): void {
  if (Date.now() - Number(sessionStorage.getItem(key)) < patience) return;
  sessionStorage.setItem(key, String(Date.now()));
  window.location.reload();
}
