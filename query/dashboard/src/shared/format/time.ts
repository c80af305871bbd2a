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
  const [day, time] = [formatter(zone, 'day'), formatter(zone, 'minute')];
  const at = (moment: Date) => `${day.format(moment)}, ${time.format(moment)}`;
  if (day.format(start) === day.format(end)) return `${at(start)} – ${time.format(end)}`;
  return `${at(start)} – ${at(end)}`;
}

/** The time of day: "14:03:07". */
export function formatClock(moment: number, zone: string): string {
  return formatter(zone, 'second').format(moment);
}

/** A moment as a table has it: the time of day, and the day where it is not today. */
export function formatMoment(moment: number, zone: string, now = Date.now()): string {
  const day = formatter(zone, 'day');
  const clock = formatClock(moment, zone);
  return day.format(moment) === day.format(now) ? clock : `${day.format(moment)}, ${clock}`;
}

/** A moment with everything: "Tue 10 Feb 2026, 14:03:07.250 Europe/Berlin". */
export function formatFull(moment: number, zone: string): string {
  return `${formatter(zone, 'full').format(moment)} ${zone.replaceAll('_', ' ')}`;
}

/** A moment to come: "Sun 29 Mar, 03:00". */
export function formatDue(moment: number, zone: string, seconds = false): string {
  return formatter(zone, seconds ? 'dueSecond' : 'due').format(moment);
}

const shapes = {
  day: { day: 'numeric', month: 'short' },
  minute: { hour: '2-digit', minute: '2-digit' },
  second: { hour: '2-digit', minute: '2-digit', second: '2-digit' },
  due: { weekday: 'short', day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' },
  dueSecond: { weekday: 'short', day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit', second: '2-digit' },
  full: {
    weekday: 'short', day: 'numeric', month: 'short', year: 'numeric',
    hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3,
  },
} satisfies Record<string, Intl.DateTimeFormatOptions>;

const formatters = new Map<string, Intl.DateTimeFormat>();

/** One is made once: a table formats hundreds of times. */
function formatter(zone: string, shape: keyof typeof shapes): Intl.DateTimeFormat {
  const key = `${shape} ${zone}`;
  let made = formatters.get(key);
  if (!made) formatters.set(key, (made = new Intl.DateTimeFormat('en-GB', { timeZone: zone, ...shapes[shape] })));
  return made;
}
