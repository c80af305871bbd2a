import { ProblemError } from '../shared/api/client';
import type { Source } from './registered';

/** The fields of a source as they are typed. */
export interface Typed {
  name: string;
  url: string;
  rate_limit: string;
  max_depth: string;
  priority: string;
  enabled: boolean;
  selectors: string;
}

export type FieldName = keyof Typed;

/** What a new source has unless somebody says otherwise; the server's defaults, so that they can be seen. */
export const fresh: Typed = {
  name: '',
  url: '',
  rate_limit: '10',
  max_depth: '1',
  priority: 'normal',
  enabled: true,
  selectors: '{}',
};

export function typedOf(source: Source): Typed {
  return {
    name: source.name,
    url: source.url,
    rate_limit: String(source.rate_limit),
    max_depth: String(source.max_depth),
    priority: source.priority,
    enabled: source.enabled,
    selectors: JSON.stringify(source.selectors, null, 2),
  };
}

const number = /^-?(0|[1-9]\d*)(\.\d+)?$/;

/** A number as it is typed. What is none goes as text: the server says what the field must be. */
export function numberOf(typed: string): string {
  const text = typed.trim();
  return number.test(text) ? text : JSON.stringify(text);
}

/** What is typed as JSON. */
function json(name: FieldName, value: string | boolean): string {
  if (name === 'selectors') return value as string;
  if (name === 'rate_limit' || name === 'max_depth') return numberOf(value as string);
  return JSON.stringify(typeof value === 'string' ? value.trim() : value);
}

/** The body of a request: what differs from before, or all of it. Empty if nothing differs. */
export function bodyOf(typed: Typed, before?: Typed): string {
  const fields = (Object.keys(typed) as FieldName[]).filter((name) => !before || typed[name] !== before[name]);
  return fields.length ? `{${fields.map((name) => `"${name}":${json(name, typed[name])}`).join(',')}}` : '';
}

/** Which rules were broken, by field; under the empty name, what is not about one of the fields shown. */
export function brokenRules<Name extends string>(error: Error | null, shown: readonly Name[]): Partial<Record<Name | '', string>> {
  const broken: Partial<Record<string, string>> = {};
  if (!error) return broken as Partial<Record<Name | '', string>>;
  const rules = (error instanceof ProblemError && error.problem.errors) || [];
  if (!rules.length) broken[''] = error.message;
  for (const { field, rule } of rules) {
    const known = shown.find((name) => name === field) ?? '';
    const words = known || !field ? rule : `${field} ${rule}`;
    broken[known] = broken[known] ? `${broken[known]}; ${words}` : words;
  }
  return broken as Partial<Record<Name | '', string>>;
}

/** Why a text is not JSON, in words; empty if it is. Else the whole request could not be read, and no field named. */
export function notJson(text: string): string {
  try {
    JSON.parse(text);
    return '';
  } catch (error) {
    return `must be a JSON object: ${(error as Error).message}`;
  }
}
