/** Failures whose errors differ only in numbers, ids and addresses. */
export interface Group {
  /** The error with what differs made alike. */
  fingerprint: string;
  count: number;
  /** One of them, as it was. */
  example: string;
  first: string;
  last: string;
}

export function fingerprint(error: string): string {
  return error
    .replace(/\b[a-z][a-z0-9+.-]*:\/\/[^\s"')]+/gi, '‹url›')
    .replace(/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi, '‹id›')
    .replace(/\b(?=[0-9a-f]*\d)[0-9a-f]{8,}\b/gi, '‹id›')
    .replace(/\d+([.:]\d+)*/g, '‹n›')
    .replace(/\s+/g, ' ')
    .trim();
}

/** The groups of some items, the largest first. */
export function groupsOf(items: readonly { error?: string; updated_at: string }[]): Group[] {
  const groups = new Map<string, Group>();
  for (const { error = '', updated_at: at } of items) {
    const key = fingerprint(error);
    const group = groups.get(key);
    if (!group) {
      groups.set(key, { fingerprint: key, count: 1, example: error, first: at, last: at });
      continue;
    }
    group.count++;
    if (at < group.first) group.first = at;
    if (at > group.last) group.last = at;
  }
  return [...groups.values()].sort((a, b) => b.count - a.count || (a.last < b.last ? 1 : -1));
}
