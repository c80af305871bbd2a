import { browserZone, isZone } from '../format/zone';

/** The query of an address, as the router gives it. */
type AddressQuery = Record<string, string | null | undefined | (string | null)[]>;

/** A part of a page's state that lives in its address. */
export interface Field<T extends string> {
  /** Where the address does not say, or says what cannot be. Not written into the address. */
  fallback: T;
  allows: (text: string) => boolean;
  /** What it has to be, to end the sentence "… must be". */
  rule: string;
  /** It says where on the page somebody is, and does not select what the page shows. */
  place?: true;
}

export type Fields = Record<string, Field<string>>;
export type Values<F extends Fields> = { [K in keyof F]: F[K]['fallback'] };

export function text(): Field<string> {
  return { fallback: '', allows: () => true, rule: 'a text' };
}

/** A field that says where on the page somebody is. */
export function place<T extends string>(field: Field<T>): Field<T> {
  return { ...field, place: true };
}

/** The page of a list. */
export function cursor(): Field<string> {
  return place(text());
}

export function oneOf<const T extends string>(values: readonly T[], fallback: T): Field<T> {
  return {
    fallback,
    allows: (value) => (values as readonly string[]).includes(value),
    rule: `one of ${values.filter(Boolean).join(', ')}`,
  };
}

export function zone(): Field<string> {
  return place({ fallback: browserZone(), allows: isZone, rule: 'the name of a time zone, such as Europe/Berlin' });
}

/** A moment in RFC 3339, or none. */
export function moment(): Field<string> {
  const pattern = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/;
  return {
    fallback: '',
    allows: (value) => pattern.test(value) && !Number.isNaN(Date.parse(value)),
    rule: 'a time such as 2026-02-10T14:30:00Z',
  };
}

/** How long, as the API has it. */
export function span(fallback: string): Field<string> {
  return {
    fallback,
    allows: (value) => /^\d{1,6}(s|m|h|d)$/.test(value),
    rule: 'a time span such as 90s, 30m, 1h or 2d',
  };
}

/**
 * Reads an address. What cannot be read falls back and is told in words: an old link should open a page, and nobody
 * should take the numbers of today for those of the week that the link had meant.
 */
export function readAddress<F extends Fields>(fields: F, query: AddressQuery): { values: Values<F>; wrong: string[] } {
  const wrong: string[] = [];
  const values = Object.fromEntries(
    Object.entries(fields).map(([name, field]) => {
      const given = first(query[name]);
      if (given === '' || field.allows(given)) return [name, given || field.fallback];
      wrong.push(
        `${name}=${given} must be ${field.rule}${field.fallback ? `; this is ${field.fallback}` : '; it is left out'}`,
      );
      return [name, field.fallback];
    }),
  ) as Values<F>;
  for (const name of Object.keys(query)) {
    if (!(name in fields))
      wrong.push(`${name} is not a parameter of this page; it has ${Object.keys(fields).join(', ')}`);
  }
  return { values, wrong };
}

/** Only what differs from the default, so that the plain page has a plain address. */
export function writeAddress<F extends Fields>(fields: F, values: Values<F>): Record<string, string> {
  const query: Record<string, string> = {};
  for (const [name, field] of Object.entries(fields)) {
    const value = values[name];
    if (value && value !== field.fallback) query[name] = value;
  }
  return query;
}

/** How many fields select less than all, or other things than the plain page. */
export function countSet<F extends Fields>(fields: F, values: Values<F>): number {
  return Object.entries(fields).filter(([name, { place, fallback }]) => !place && values[name] !== fallback).length;
}

/** The values with which nothing is selected. */
export function unset<F extends Fields>(fields: F): Partial<Values<F>> {
  const filters = Object.entries(fields).filter(([, { place }]) => !place);
  return Object.fromEntries(filters.map(([name, { fallback }]) => [name, fallback])) as Partial<Values<F>>;
}

function first(value: AddressQuery[string]): string {
  return (Array.isArray(value) ? value[0] : value) ?? '';
}
