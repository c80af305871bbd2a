import type { LiveClient } from './client';

/** What is asked of a document. */
interface Page {
  readonly hidden: boolean;
  addEventListener(type: 'visibilitychange', react: () => void): void;
}

/**
 * Has a client run while the page is seen. A hidden tab has no connection and no timer: it costs the server nothing.
 * When it is looked at again, it asks with the position of its last snapshots whether they are still the newest.
 */
export function runWhileSeen(client: LiveClient, page: Page): void {
  const follow = () => {
    if (page.hidden) client.stop();
    else client.start();
  };
  page.addEventListener('visibilitychange', follow);
  follow();
}
