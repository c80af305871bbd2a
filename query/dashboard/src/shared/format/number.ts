const grouped = new Intl.NumberFormat('en');
const compact = new Intl.NumberFormat('en', {
  notation: 'compact',
  minimumFractionDigits: 2,
  maximumFractionDigits: 2,
});

/** From here on the last digits are noise to a reader, and too wide for a column. */
const longest = 100_000_000;

export function formatCount(value: number): string {
  return value < longest ? grouped.format(value) : compact.format(value);
}

export function formatExact(value: number): string {
  return grouped.format(value);
}

/** A share as a percentage; what is not quite all, or not quite nothing, is never rounded to it. */
export function formatShare(share: number | null): string {
  if (share === null) return '–';
  const percent = share * 100;
  if (percent > 0 && percent < 0.1) return '<0.1 %';
  if (percent > 99.9 && percent < 100) return '>99.9 %';
  if (percent === 0 || percent === 100 || percent >= 1_000) return `${trim(percent, 0)} %`;
  return `${percent.toFixed(1)} %`;
}

/** Events per second. */
export function formatRate(rate: number | null): string {
  if (rate === null) return '–';
  if (rate === 0) return '0/s';
  if (rate < 0.1) return '<0.1/s';
  if (rate < 10) return `${trim(rate, 1)}/s`;
  return `${formatCount(Math.round(rate))}/s`;
}

export function formatMethod(method: 'exact' | 'sketch', error: number): string {
  return method === 'exact' ? 'exact' : `≈ ±${trim(error * 100, 1)} %`;
}

function trim(value: number, digits: number): string {
  return new Intl.NumberFormat('en', { maximumFractionDigits: digits }).format(value);
}
