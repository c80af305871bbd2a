/** "just now", "2 s ago", "3 min ago"; fine enough to see it tick. */
export function formatAge(milliseconds: number): string {
  const seconds = Math.floor(milliseconds / 1_000);
  if (seconds < 1) return 'just now';
  if (seconds < 60) return `${seconds} s ago`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ago`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ago` : `${Math.floor(hours / 24)} days ago`;
}

/** The window of a funnel in its own time zone: "10 Feb, 00:00 – 15:42", with both days when they differ. */
export function formatWindow(from: string, to: string, zone: string): string {
  const [start, end] = [new Date(from), new Date(to)];
  const day = new Intl.DateTimeFormat('en-GB', { timeZone: zone, day: 'numeric', month: 'short' });
  const time = new Intl.DateTimeFormat('en-GB', { timeZone: zone, hour: '2-digit', minute: '2-digit' });
  const at = (moment: Date) => `${day.format(moment)}, ${time.format(moment)}`;
  if (day.format(start) === day.format(end)) return `${at(start)} – ${time.format(end)}`;
  return `${at(start)} – ${at(end)}`;
}

/** The time of day, as a sentence has it: "14:03:07". */
export function formatClock(moment: number): string {
  return new Intl.DateTimeFormat('en-GB', { timeStyle: 'medium' }).format(moment);
}
