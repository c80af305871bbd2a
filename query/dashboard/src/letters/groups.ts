import type { Schema } from '../shared/api/types';

export type Letter = Schema<'Letter'>;

/** Letters that break the same rule of the same field. */
interface LetterGroup {
  code: string;
  field: string;
  count: number;
  /** The rule in words, of the newest. */
  reason: string;
  first: string;
  last: string;
}

/** The groups of letters that come newest first, the largest first. */
export function groupsOf(letters: readonly Letter[]): LetterGroup[] {
  const groups = new Map<string, LetterGroup>();
  for (const { code = '', field = '', reason = '', dead_at: at } of letters) {
    const key = `${code}\n${field}`;
    const group = groups.get(key) ?? { code, field, count: 0, reason, first: at, last: at };
    group.count++;
    if (at < group.first) group.first = at;
    if (at > group.last) group.last = at;
    groups.set(key, group);
  }
  return [...groups.values()].sort((a, b) => b.count - a.count || (a.last < b.last ? 1 : -1));
}
