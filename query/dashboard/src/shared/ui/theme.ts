import { computed, ref, watchEffect } from 'vue';

const key = 'millrace.theme';

export const themes = ['system', 'light', 'dark'] as const;
type Theme = (typeof themes)[number];

const preferred = (query: string) => {
  const list = window.matchMedia(query);
  const holds = ref(list.matches);
  list.addEventListener('change', () => (holds.value = list.matches));
  return holds;
};

const systemDark = preferred('(prefers-color-scheme: dark)');

/** What the reader has chosen; it stays in the browser. */
export const theme = ref<Theme>(themes.find((known) => known === localStorage.getItem(key)) ?? 'system');

/** What is shown. */
export const scheme = computed<'light' | 'dark'>(() =>
  theme.value === 'system' ? (systemDark.value ? 'dark' : 'light') : theme.value,
);

watchEffect(() => {
  document.documentElement.dataset.theme = scheme.value;
  localStorage.setItem(key, theme.value);
});
