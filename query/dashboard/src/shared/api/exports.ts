import { ref } from 'vue';
import { endpoint } from './address';
import { request } from './files';

/** What rows are exported as, with what each format is good for. */
export const formats = {
  csv: 'CSV, for spreadsheets',
  ndjson: 'JSON lines',
  'ndjson.zst': 'JSON lines, compressed by zstd',
  parquet: 'Parquet',
} as const;

/** Saves what passes a filter as a file, one at a time. */
export function useExport() {
  const running = ref(false);
  const failure = ref('');
  let stop = new AbortController();

  /** path is that of the export, below the API. */
  async function save(path: string, params: Record<string, string>): Promise<void> {
    stop = new AbortController();
    running.value = true;
    failure.value = '';
    try {
      const { name, content } = await fetchFile(endpoint(`api/v1/${path}`, params), stop.signal);
      give(name, content);
    } catch (error) {
      if (!stop.signal.aborted) failure.value = (error as Error).message;
    } finally {
      running.value = false;
    }
  }
  return { running, failure, save, cancel: () => stop.abort() };
}

/** A link could not carry the token. A file that breaks off is an error here, and none that is saved. */
async function fetchFile(address: string, signal: AbortSignal): Promise<{ name: string; content: Blob }> {
  const response = await request(address, { signal });
  return { name: fileName(response.headers.get('Content-Disposition')), content: await response.blob() };
}

/** The file name that an answer proposes: as it is, between quotes, or with its bytes in hexadecimal digits. */
export function fileName(disposition: string | null): string {
  const text = disposition ?? '';
  const encoded = /filename\*=utf-8''([^;\s]+)/i.exec(text)?.[1];
  if (encoded) return decodeURIComponent(encoded);
  const quoted = /filename="((?:[^"\\]|\\.)*)"/.exec(text)?.[1];
  return quoted?.replaceAll(/\\(.)/g, '$1') ?? /filename=([^;"\s]+)/.exec(text)?.[1] ?? 'export';
}

function give(name: string, content: Blob): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  // The browser reads it after this returns.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
