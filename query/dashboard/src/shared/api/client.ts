import createClient from 'openapi-fetch';
import type { Middleware } from 'openapi-fetch';
import { token, tokenWanted } from './access';
import { endpoint } from './address';
import { noteServerTime } from './clock';
import type { paths } from './schema';
import type { Problem } from './types';

/** The server has answered, and refused. */
export class ProblemError extends Error {
  constructor(readonly problem: Problem) {
    super(sentenceOf(problem));
  }
}

/** What a problem document says, every field that breaks a rule included. */
export function sentenceOf(problem: Problem): string {
  const fields = (problem.errors ?? []).map(({ field, rule }) => (field ? `${field} ${rule}` : rule));
  return [problem.detail ?? problem.title, ...fields].join(' · ');
}

/** How long an answer is waited for; the server gives up after 25 s by itself. */
const patience = 30_000;

const told: Middleware = {
  onRequest({ request }) {
    // The server takes commands as JSON only, those without a body included: other pages cannot send that unasked.
    if (request.method === 'POST') request.headers.set('Content-Type', 'application/json');
    if (token.value) request.headers.set('Authorization', `Bearer ${token.value}`);
    return new Request(request, { signal: AbortSignal.any([request.signal, AbortSignal.timeout(patience)]) });
  },
  async onResponse({ response, schemaPath }) {
    noteServerTime(response.headers.get('Date'), Date.now());
    // A server that is not ready answers 503 with the same document.
    if (response.ok || schemaPath === '/ready') return;
    throw await refusal(response);
  },
};

/**
 * The API as /openapi.json describes it. A call throws a ProblemError when the server refuses, and what fetch throws
 * when it does not answer; so the data of an answer is there.
 */
export const api = createClient<paths>({
  baseUrl: endpoint('api/v1'),
  fetch: (request) => globalThis.fetch(request),
});
api.use(told);

/** For the operations beside the API's base path: /ready, /health. */
export const beside = { baseUrl: endpoint('.') };

/** Parameters without those that are empty, which mean: not given. */
export function given<T extends Record<string, unknown>>(params: T): { [K in keyof T]?: Exclude<T[K], ''> } {
  const kept = Object.entries(params).filter(([, value]) => value !== '' && value !== undefined && value !== null);
  return Object.fromEntries(kept) as { [K in keyof T]?: Exclude<T[K], ''> };
}

/** What a refused request is answered with. Asks for a token where that is what is missing. */
export async function refusal(response: Response): Promise<ProblemError> {
  if (response.status === 401) tokenWanted.value = true;
  return new ProblemError(await problemOf(response));
}

async function problemOf(response: Response): Promise<Problem> {
  try {
    return (await response.json()) as Problem;
  } catch {
    // A proxy in between answers in HTML.
    return { title: `The server answered ${response.status} ${response.statusText}`.trim(), status: response.status };
  }
}
