/** Minutes as people say them: "36 s", "11.2 min", "2.5 h", "3.1 days"; "–" for none. */
export function formatMinutes(minutes: number | null): string {
  if (minutes === null) return '–';
  const seconds = minutes * 60;
  if (seconds === 0) return '0 s';
  if (seconds < 0.1) return '<0.1 s';
  if (seconds < 60) return `${digits(seconds, seconds < 10 ? 1 : 0)} s`;
  if (minutes < 90) return `${digits(minutes, 1)} min`;
  if (minutes < 48 * 60) return `${digits(minutes / 60, 1)} h`;
  return `${digits(minutes / 1_440, 1)} days`;
}

/** A number with at most so many decimals; "–" for none. */
export function formatNumber(value: number | null, decimals = 1): string {
  return value === null ? '–' : digits(value, decimals);
}

/** The same with its sign, as a difference has it. */
export function formatDelta(value: number | null, decimals = 1): string {
  if (value === null) return '–';
  const text = digits(Math.abs(value), decimals);
  if (Number(text.replaceAll(',', '')) === 0) return text;
  return value < 0 ? `−${text}` : `+${text}`;
}

function digits(value: number, decimals: number): string {
  return new Intl.NumberFormat('en', { maximumFractionDigits: decimals }).format(value);
}

/** Seconds as people say them: "0.4 s", "36 s", "11.2 min", "2.5 h", "3.1 days". */
export function formatSeconds(seconds: number | null | undefined): string {
  return formatMinutes(seconds === null || seconds === undefined ? null : seconds / 60);
}

/** A size in bytes: "298 B", "1.4 kB", "2.1 MB". */
export function formatBytes(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`;
  return bytes < 1_000_000 ? `${digits(bytes / 1_000, 1)} kB` : `${digits(bytes / 1_000_000, 1)} MB`;
}
