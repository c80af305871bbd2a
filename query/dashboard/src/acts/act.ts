import type { Schema } from '../shared/api/types';

type Act = Schema<'Act'>;
export type Filter = Schema<'ItemFilter'>;
export type ErrorFilter = Schema<'ErrorFilter'>;
export type SourceFilter = Schema<'SourceFilter'>;
export type JobFilter = Schema<'JobFilter'>;
export type Move = Schema<'BeginActRequestBody'>['move'] | Schema<'BeginSourcesActBody'>['move'] | Schema<'BeginJobsActBody'>['move'];

/** What an act is about: items of queues, errors of batches, sources or jobs, by the filter of one of them. */
export interface Target {
  filter?: Filter;
  errors?: ErrorFilter;
  sources?: SourceFilter;
  jobs?: JobFilter;
}

export function targetOf({ subject, filter, crawl_errors: errors }: Act): Target {
  if (errors) return { errors };
  if (subject === 'sources') return { sources: filter as SourceFilter };
  if (subject === 'jobs') return { jobs: filter as JobFilter };
  return { filter: filter as Filter };
}

/** What is done, as a button says it. */
export const verbs: Record<Move, string> = {
  retry: 'Retry',
  cancel: 'Cancel',
  enable: 'Enable',
  disable: 'Disable',
  delete: 'Delete',
  pause: 'Pause',
  resume: 'Resume',
  'force-run': 'Run',
  'skip-next': 'Skip the next run of',
  'unskip-next': 'Do not skip the next run of',
  override: 'Set how to run',
};

/** How the state of an act looks. */
export function toneOf(act: Act): string {
  if (act.state === 'running') return 'accent';
  return act.state === 'stopped' || act.failed ? 'warn' : 'good';
}

/** What an act is about, in words: "dead items of mail in group shop with the error …". */
export function wordsOf({ filter, errors, sources, jobs }: Target): string {
  if (errors) return wordsOfErrors(errors);
  if (sources) return wordsOfSources(sources);
  return jobs ? wordsOfJobs(jobs) : wordsOfItems(filter ?? {});
}

const joined = (words: (string | false | undefined)[]) => words.filter(Boolean).join(' ');
const enabledWord = (enabled?: string) => enabled && (enabled === 'true' ? 'enabled' : 'disabled');

function wordsOfSources({ q, enabled, priority, job_status: status, health }: SourceFilter): string {
  return joined([
    !q && !enabled && !priority && !status && !health && 'all',
    enabledWord(enabled),
    'sources',
    q && `with “${q}” in their name or URL`,
    priority && `of ${priority} priority`,
    status && `whose job is ${status}`,
    health && `whose health is ${health}`,
  ]);
}

function wordsOfJobs(filter: JobFilter): string {
  const { q, source_id: ids, status, health, auto_managed: auto, priority, enabled, source_priority: rank, has_source: listed } = filter;
  const of = [
    enabledWord(enabled),
    listed === 'true' ? 'sources in the list' : 'sources',
    q && `with “${q}” in their name or URL`,
    rank && `of ${rank} priority`,
    ids && `with the ids ${ids}`,
  ];
  return joined([
    status,
    auto && (auto === 'true' ? 'automatic' : 'manual'),
    'jobs',
    listed === 'false' && 'without a source in the list',
    health && `of health ${health}`,
    priority >= 0 && `of priority ${priority}`,
    q || enabled || rank || ids || listed === 'true' ? `of ${joined(of)}` : '',
  ]);
}

function wordsOfErrors(errors: ErrorFilter): string {
  const { code, category, fingerprint, project_id: project, platform, job_id: job, batch_index: index, from, to } = errors;
  return joined([
    code ? `${code} errors` : 'errors',
    category && `of the category ${category}`,
    index === undefined ? job && `of the job ${job}` : `of batch ${index} of the job ${job}`,
    project && `of the project ${project}`,
    platform && `from ${platform}`,
    fingerprint && `with the message “${fingerprint}”`,
    from && `read since ${from}`,
    to && `read before ${to}`,
  ]);
}

function wordsOfItems(filter: Filter): string {
  const thing = filter.filename || filter.search ? 'shards' : 'items';
  return joined([
    filter.state ? `${filter.state} ${thing}` : thing,
    filter.queue && `of ${filter.queue}`,
    filter.filename && `of ${filter.filename}`,
    filter.search && `of files named like “${filter.search}”`,
    filter.group && `in group ${filter.group}`,
    filter.key && `with key ${filter.key}`,
    filter.fingerprint && `with the error “${filter.fingerprint}”`,
  ]);
}

/** A key that no other request has; also where the page does not come over https. */
export function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
