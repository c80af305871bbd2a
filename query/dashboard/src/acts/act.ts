import type { Schema } from '../shared/api/types';

export type Act = Schema<'Act'>;
export type Filter = Schema<'ItemFilter'>;
export type ErrorFilter = Schema<'ErrorFilter'>;
export type Move = Act['move'];

/** What an act is about: items of queues, or errors of batches. */
export type Target = { filter: Filter; errors?: undefined } | { errors: ErrorFilter; filter?: undefined };

export const targetOf = ({ filter, crawl_errors: errors }: Act): Target => (errors ? { errors } : { filter });

/** How the state of an act looks. */
export function toneOf(act: Act): string {
  if (act.state === 'running') return 'accent';
  return act.state === 'stopped' || act.failed ? 'warn' : 'good';
}

/** What an act is about, in words: "dead items of mail in group shop with the error …". */
export const wordsOf = ({ filter, errors }: Target): string => (errors ? wordsOfErrors(errors) : wordsOfItems(filter!));

function wordsOfErrors(errors: ErrorFilter): string {
  const { code, category, fingerprint, project_id: project, platform, job_id: job, batch_index: index, from, to } = errors;
  return [
    code ? `${code} errors` : 'errors',
    category && `of the category ${category}`,
    index === undefined ? job && `of the job ${job}` : `of batch ${index} of the job ${job}`,
    project && `of the project ${project}`,
    platform && `from ${platform}`,
    fingerprint && `with the message “${fingerprint}”`,
    from && `read since ${from}`,
    to && `read before ${to}`,
  ]
    .filter(Boolean)
    .join(' ');
}

function wordsOfItems(filter: Filter): string {
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
