import { api, given } from '../shared/api/client';
import type { JobFilter } from '../acts/act';
import type { Marks } from '../shared/ui/useMarks';
import { isOfJobs } from './registered';
import type { Filter, JobOperation, Operation } from './registered';

/** The sources that are chosen: names by ids. */
export type Chosen = Marks<string>;

/** What became of one of them. */
export interface Result {
  id: string;
  name: string;
  /** Why it is not as it was asked for; empty if it is. */
  error: string;
}

/** How many sources the server changes by one request. */
const changed = 500;

/** The filter of the list as one of the jobs of the sources that it selects. Jobs whose source is gone are not in the list. */
export const jobsOf = ({ q, enabled, priority, job_status: status, health }: Filter): JobFilter =>
  ({ ...given({ q, enabled, status, health, source_priority: priority }), priority: -1, has_source: 'true' }) as JobFilter;

/** Asks for one part of an act; a result for each member. */
async function send(operation: Operation | JobOperation, ids: string[], reason: string) {
  if (isOfJobs(operation)) return (await api.POST('/jobs/bulk', { body: { operation, source_ids: ids } })).data!.results;
  return (await api.POST('/sources/bulk', { body: { operation, ids, ...given({ reason }) } })).data!.results;
}

/**
 * Enables, disables or deletes sources, or does something to their jobs, as many at a time as the server takes, and has a result for each, those that
 * were not changed first. Where the server does not answer or refuses, nothing more is sent.
 */
export async function change(
  operation: Operation | JobOperation,
  chosen: Chosen,
  reason: string,
  progress: (done: number) => void,
): Promise<Result[]> {
  const results: Result[] = [];
  const ids = [...chosen.keys()];
  let failure = '';
  for (let from = 0; from < ids.length; from += changed) {
    const part = ids.slice(from, from + changed);
    const named = (id: string, error: string) => ({ id, name: chosen.get(id)!, error });
    if (failure) {
      results.push(...part.map((id) => named(id, 'not asked for, since a request before has failed')));
      continue;
    }
    try {
      const answer = await send(operation, part, reason);
      results.push(...answer.map(({ id, ok, error }) => named(id, ok ? '' : (error ?? 'not done'))));
    } catch (error) {
      failure = (error as Error).message;
      results.push(...part.map((id) => named(id, failure)));
    }
    progress(results.length);
  }
  return results.sort((a, b) => Number(b.error !== '') - Number(a.error !== ''));
}
