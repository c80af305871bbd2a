import { api } from '../shared/api/client';
import type { Schema } from '../shared/api/types';

export type Report = Schema<'LetterReport'>;
export type Selection = Pick<Schema<'ReplayLetters'>, 'ids' | 'filter' | 'all'>;
export type Act = 'replay' | 'purge';

/** So many letters a request takes: it has to be done before proxies give up. */
const limit = 1_000;

/**
 * Does an act on all letters of a selection, or says what it would do. `told` hears how far it is; an act that is cut
 * short has done what was told last, and can be sent again.
 */
export async function act(
  what: Act,
  selection: Selection,
  how: { dryRun: boolean; asBackfill: boolean },
  told: (sum: Report) => void,
): Promise<Report> {
  let sum: Report | undefined;
  for (let cursor = ''; ; cursor = sum.next_cursor) {
    const body = { ...selection, limit, dry_run: how.dryRun, ...(cursor && { cursor }) };
    const { data } =
      what === 'replay'
        ? await api.POST('/dlq/replay', { body: { ...body, as_backfill: how.asBackfill } })
        : await api.POST('/dlq/purge', { body });
    sum = sum ? add(sum, data!) : data!;
    told(sum);
    if (!sum.next_cursor) return sum;
  }
}

function add(sum: Report, next: Report): Report {
  const reasons = { ...sum.reasons };
  for (const [code, count] of Object.entries(next.reasons)) reasons[code] = (reasons[code] ?? 0) + count;
  return {
    ...next,
    matched: sum.matched + next.matched,
    replayed: sum.replayed + next.replayed,
    duplicates: sum.duplicates + next.duplicates,
    kept: sum.kept + next.kept,
    deleted: sum.deleted + next.deleted,
    reasons,
    kept_letters: [...(sum.kept_letters ?? []), ...(next.kept_letters ?? [])].slice(0, 100),
    missing: [...(sum.missing ?? []), ...(next.missing ?? [])],
  };
}
