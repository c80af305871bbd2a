type Reviver = (key: string, value: unknown, context?: { source?: string }) => unknown;
interface Exact {
  rawJSON?: (text: string) => unknown;
  parse: (text: string, reviver: Reviver) => unknown;
}

/**
 * Reads JSON so that JSON.stringify writes every number as it was: 9007199254740993 and 1.0, which no number of
 * JavaScript is. A browser that cannot do so reads them as usual.
 */
export function parseExactly(text: string): unknown {
  const { rawJSON, parse } = JSON as Exact;
  return parse(text, (_key, value, context) => {
    const source = context?.source;
    return typeof value === 'number' && rawJSON && source && source !== String(value) ? rawJSON(source) : value;
  });
}
