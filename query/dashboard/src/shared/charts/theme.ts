import { computed, ref } from 'vue';

const dark = window.matchMedia('(prefers-color-scheme: dark)');
const still = window.matchMedia('(prefers-reduced-motion: reduce)');

const isDark = ref(dark.matches);
const isStill = ref(still.matches);
dark.addEventListener('change', () => (isDark.value = dark.matches));
still.addEventListener('change', () => (isStill.value = still.matches));

export interface ChartTheme {
  name: 'light' | 'dark';
  text: string;
  muted: string;
  line: string;
  surface: string;
  hover: string;
  font: string;
}

/** A canvas does not see CSS variables, so the colors of the page are read for it. */
export const chartTheme = computed<ChartTheme>(() => {
  const name = isDark.value ? 'dark' : 'light';
  const style = getComputedStyle(document.documentElement);
  const color = (variable: string) => style.getPropertyValue(variable).trim();
  return {
    name,
    text: color('--text'),
    muted: color('--muted'),
    line: color('--line'),
    surface: color('--raised'),
    hover: name === 'dark' ? 'rgba(255,255,255,0.04)' : 'rgba(15,23,42,0.035)',
    font: color('--font'),
  };
});

export const reducedMotion = computed(() => isStill.value);
