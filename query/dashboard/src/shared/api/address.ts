/**
 * Addresses are resolved against the folder that the page was served from, never against the root of the host:
 * the page works behind a prefix such as /api/pipeline/ without being told.
 */
export function endpoint(path: string, params: Record<string, string> = {}, base = document.baseURI): string {
  const url = new URL(path, base);
  for (const [name, value] of Object.entries(params)) {
    if (value !== '') url.searchParams.set(name, value);
  }
  return url.href;
}

export function liveAddress(base = document.baseURI): string {
  const url = new URL('api/v1/live', base);
  url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
  return url.href;
}
