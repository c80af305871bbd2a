// @vitest-environment happy-dom
import { describe, expect, it } from 'vitest';
import { ProblemError } from '../shared/api/client';
import { parseExactly } from '../shared/format/exactJson';
import { bodyOf, brokenRules, fresh, notJson, typedOf } from './form';
import type { Source } from './registered';

const source: Source = {
  id: '0199f0a2-7c1e-7000-8000-000000000001',
  name: 'Example News',
  url: 'https://example.com',
  rate_limit: 10,
  max_depth: 3,
  enabled: true,
  selectors: { title: 'h1' },
  priority: 'high',
  created_at: '2026-02-10T14:30:00Z',
  updated_at: '2026-02-10T14:30:00Z',
};

describe('the body of a request', () => {
  it('has all fields of a new source', () => {
    const body = bodyOf({ ...fresh, name: ' Example News ', url: 'https://example.com' });
    expect(JSON.parse(body)).toEqual({
      name: 'Example News',
      url: 'https://example.com',
      rate_limit: 10,
      max_depth: 1,
      priority: 'normal',
      enabled: true,
      selectors: {},
    });
  });

  it('has what differs, and nothing where nothing does', () => {
    const before = typedOf(source);
    expect(bodyOf(before, before)).toBe('');
    expect(bodyOf({ ...before, max_depth: '5', priority: 'low' }, before)).toBe('{"max_depth":5,"priority":"low"}');
  });

  it('leaves to the server what is no number, and what no number of JavaScript is', () => {
    const before = typedOf(source);
    const sent = (rate_limit: string) => bodyOf({ ...before, rate_limit }, before);
    expect(sent('many')).toBe('{"rate_limit":"many"}');
    expect(sent('')).toBe('{"rate_limit":""}');
    expect(sent('007')).toBe('{"rate_limit":"007"}');
    expect(sent('1.5')).toBe('{"rate_limit":1.5}');
    expect(sent('9007199254740993')).toBe('{"rate_limit":9007199254740993}');
  });

  it('sends selectors as they are typed', () => {
    const before = typedOf(source);
    expect(bodyOf({ ...before, selectors: '{"a":9007199254740993}' }, before)).toBe('{"selectors":{"a":9007199254740993}}');
  });
});

describe('broken rules', () => {
  const problem = (errors: { field: string; code: string; rule: string }[]) =>
    new ProblemError({ title: 'Bad Request', detail: 'the request breaks a rule', errors });

  it('stand at their fields', () => {
    const error = problem([
      { field: 'name', code: 'name', rule: 'must not be empty' },
      { field: 'url', code: 'url', rule: 'must be absolute' },
      { field: 'url', code: 'length', rule: 'must be short' },
      { field: 'enabled', code: 'type', rule: 'must be true or false' },
      { field: '', code: 'json', rule: 'must be one JSON object' },
    ]);
    expect(brokenRules(error, ['name', 'url'])).toEqual({
      name: 'must not be empty',
      url: 'must be absolute; must be short',
      '': 'enabled must be true or false; must be one JSON object',
    });
  });

  it('are the whole error where it names no field', () => {
    expect(brokenRules(null, ['name'])).toEqual({});
    expect(brokenRules(new Error('the server is away'), ['name'])).toEqual({ '': 'the server is away' });
    expect(brokenRules(problem([]), ['name'])).toEqual({ '': 'the request breaks a rule' });
  });
});

it('says why a text is not JSON', () => {
  expect(notJson('{"a": 1}')).toBe('');
  expect(notJson('{"a": ')).toMatch(/^must be a JSON object: /);
});

it('shows the numbers of selectors as they are written, where the browser can', () => {
  const exact = parseExactly('{"selectors":{"a":9007199254740993}}') as { selectors: unknown };
  const can = 'rawJSON' in JSON;
  expect(typedOf({ ...source, selectors: exact.selectors }).selectors).toContain(can ? '9007199254740993' : '900719925474099');
});
