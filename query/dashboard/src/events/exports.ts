import { ref } from 'vue';
import { token } from '../shared/api/access';
import { endpoint } from '../shared/api/address';
import { refusal } from '../shared/api/client';

/** What events are exported as, with what each is good for. */
export const formats = { csv: 'CSV, for spreadsheets', ndjson: 'JSON lines', parquet: 'Parquet' } as const;
export type Format = keyof typeof formats;

/** Saves the events that pass a filter as a file, one at a time. */
export function useExport() {
  const running = ref<Format>();
  const failure = ref('');
  let stop = new AbortController();

  async function save(format: Format, filter: Record<string, string>): Promise<void> {
    stop = new AbortController();
    running.value = format;
    failure.value = '';
    try {
      const { name, content } = await fetchFile(endpoint('api/v1/events/export', { ...filter, format }), stop.signal);
      give(name, content);
    } catch (error) {
      if (!stop.signal.aborted) failure.value = (error as Error).message;
    } finally {
      running.value = undefined;
    }
  }
  return { running, failure, save, cancel: () => stop.abort() };
}

/** A link could not carry the token. A file that breaks off is an error here, and none that is saved. */
async function fetchFile(address: string, signal: AbortSignal): Promise<{ name: string; content: Blob }> {
  const headers: HeadersInit = token.value ? { Authorization: `Bearer ${token.value}` } : {};
  const response = await fetch(address, { headers, signal });
  if (!response.ok) throw await refusal(response);
  return { name: fileName(response.headers.get('Content-Disposition')), content: await response.blob() };
}

/** The file name that an answer proposes. */
export function fileName(disposition: string | null): string {
  return /filename="?([\w.-]+)"?/.exec(disposition ?? '')?.[1] ?? 'events';
}

function give(name: string, content: Blob): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  // The browser reads it after this returns.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
