import { token, tokenWanted } from './access';
import { endpoint } from './address';
import { noteServerTime } from './clock';
import type { FunnelQuery, Problem, Readiness, Source } from './types';

export class ProblemError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail ?? problem.title);
  }
}

export async function fetchSources(query: Pick<FunnelQuery, 'period' | 'tz'>, signal?: AbortSignal): Promise<Source[]> {
  const body = await getJSON<{ sources: Source[] | null }>(
    endpoint('api/v1/sources', { period: query.period, tz: query.tz }),
    signal,
  );
  return body.sources ?? [];
}

/** A server that is not ready answers 503 with the same document, so the status is read from the body. */
export async function fetchReadiness(signal?: AbortSignal): Promise<Readiness> {
  const response = await send(endpoint('ready'), signal);
  return (await response.json()) as Readiness;
}

export async function fetchVersion(signal?: AbortSignal): Promise<string> {
  const body = await getJSON<{ version?: string }>(endpoint('health'), signal);
  return body.version ?? '';
}

/** Throws a ProblemError when the server refuses, and what fetch throws when it does not answer. */
export async function getJSON<T>(url: string, signal?: AbortSignal): Promise<T> {
  const response = await send(url, signal);
  if (response.ok) return (await response.json()) as T;
  if (response.status === 401 || response.status === 403) tokenWanted.value = true;
  throw new ProblemError(await problemOf(response));
}

async function send(url: string, signal?: AbortSignal): Promise<Response> {
  const headers: Record<string, string> = { Accept: 'application/json' };
  if (token.value) headers.Authorization = `Bearer ${token.value}`;
  const response = await fetch(url, { headers, signal: signal ?? null });
  noteServerTime(response.headers.get('Date'), Date.now());
  return response;
}

async function problemOf(response: Response): Promise<Problem> {
  try {
    return (await response.json()) as Problem;
  } catch {
    // A proxy in between answers in HTML.
    return { title: `The server answered ${response.status} ${response.statusText}`.trim(), status: response.status };
  }
}
