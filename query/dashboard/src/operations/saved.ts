import { ref } from 'vue';

/** Filters under a name, as an address has them. */
interface Saved {
  name: string;
  query: Record<string, string>;
}

const key = 'millrace.saved-filters';

/** Filters that somebody has saved in this browser. One under the same name takes the place of the one before. */
export function useSaved() {
  const saved = ref(read());
  const keep = (list: Saved[]) => {
    saved.value = list.sort((a, b) => a.name.localeCompare(b.name));
    localStorage.setItem(key, JSON.stringify(saved.value));
  };
  const others = (name: string) => saved.value.filter((one) => one.name !== name);
  return {
    saved,
    save: (name: string, query: Record<string, string>) => keep([...others(name), { name, query }]),
    forget: (name: string) => keep(others(name)),
  };
}

/** What another version has written, or somebody by hand, is left out. */
function read(): Saved[] {
  try {
    const list = JSON.parse(localStorage.getItem(key) ?? '[]') as unknown;
    return Array.isArray(list) ? list.filter(isSaved) : [];
  } catch {
    return [];
  }
}

function isSaved(value: unknown): value is Saved {
  const { name, query } = (value ?? {}) as Partial<Saved>;
  return (
    typeof name === 'string' &&
    typeof query === 'object' &&
    query !== null &&
    Object.values(query).every((text) => typeof text === 'string')
  );
}
