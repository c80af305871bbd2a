import { useMutation } from '@tanstack/vue-query';
import { endpoint } from '../shared/api/address';
import { request } from '../shared/api/files';
import type { Schema } from '../shared/api/types';
import { reload } from './registered';

type Report = Schema<'ImportedSources'>;

/** What a list can be, by its type of content. */
export const kinds = { 'text/csv': 'CSV with a header', 'text/x-opml': 'OPML', 'application/x-ndjson': 'JSON lines' } as const;
export type Kind = keyof typeof kinds;

const endings: Record<string, Kind> = {
  csv: 'text/csv',
  opml: 'text/x-opml',
  xml: 'text/x-opml',
  jsonl: 'application/x-ndjson',
  ndjson: 'application/x-ndjson',
};

/** What a file is, by the end of its name; empty if that does not say it. */
export function kindOf(name: string): Kind | '' {
  return endings[name.toLowerCase().split('.').at(-1)!] ?? '';
}

/** Sends a list, and has what became of it. A long one may take minutes. */
export function useImport() {
  return useMutation({
    mutationFn: async ({ list, kind }: { list: Blob; kind: Kind }): Promise<Report> => {
      const init = { method: 'POST', headers: { 'Content-Type': kind }, body: list };
      return (await (await request(endpoint('api/v1/sources/import'), init)).json()) as Report;
    },
    // What cannot be read as a whole changes nothing; what breaks off may have changed something.
    onSettled: reload,
  });
}

/** The refused lines as a table that can be pasted: line, field and rule between tabs. */
export function tableOf({ errors }: Report): string {
  return ['line\tfield\trule', ...errors.map(({ line, field, rule }) => `${line}\t${field}\t${rule}`)].join('\n');
}
