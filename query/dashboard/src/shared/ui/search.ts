/** More than this in a list is not read; typing narrows it. */
export const longestList = 60;

interface Found {
  values: string[];
  /** How many more match. */
  more: number;
}

/** The values that hold every word of the text: an exact one first, then those that begin with it, then the rest. */
export function search(values: readonly string[], text: string, limit = longestList): Found {
  const wanted = plain(text);
  const words = wanted.split(' ').filter(Boolean);
  const found = values.filter((value) => words.every((word) => plain(value).includes(word)));
  const rank = (value: string) => (plain(value) === wanted ? 0 : plain(value).startsWith(wanted) ? 1 : 2);
  if (wanted) found.sort((a, b) => rank(a) - rank(b));
  return { values: found.slice(0, limit), more: Math.max(0, found.length - limit) };
}

/** "new york" finds America/New_York. */
function plain(text: string): string {
  return text.toLowerCase().replace(/[_\s]+/g, ' ').trim();
}
