import type { Schema } from '../shared/api/types';

export type Act = Schema<'Act'>;
export type Filter = Schema<'ItemFilter'>;
export type Move = Act['move'];

/** How the state of an act looks. */
export function toneOf(act: Act): string {
  if (act.state === 'running') return 'accent';
  return act.state === 'stopped' || act.failed ? 'warn' : 'good';
}

/** The items of a filter, in words: "dead items of mail in group shop with the error …". */
export function wordsOf(filter: Filter): string {
  const thing = filter.filename || filter.search ? 'shards' : 'items';
  return [
    filter.state ? `${filter.state} ${thing}` : thing,
    filter.queue && `of ${filter.queue}`,
    filter.filename && `of ${filter.filename}`,
    filter.search && `of files named like “${filter.search}”`,
    filter.group && `in group ${filter.group}`,
    filter.key && `with key ${filter.key}`,
    filter.fingerprint && `with the error “${filter.fingerprint}”`,
  ]
    .filter(Boolean)
    .join(' ');
}

/** A key that no other request has; also where the page does not come over https. */
export function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
