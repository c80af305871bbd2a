/** The zone of the browser; some report none. */
export function browserZone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC';
}

/** All zones that the browser knows, UTC first: the list of some browsers leaves it out. */
export function allZones(): string[] {
  const zones = new Set(['UTC', browserZone(), ...Intl.supportedValuesOf('timeZone')]);
  return [...zones];
}

export function isZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: name });
    return name !== '';
  } catch {
    return false;
  }
}

/** The present offset, "UTC+5:45"; "UTC" without one. */
export function formatOffset(zone: string, moment: number | Date = new Date()): string {
  const parts = new Intl.DateTimeFormat('en', { timeZone: zone, timeZoneName: 'shortOffset' }).formatToParts(moment);
  const offset = parts.find((part) => part.type === 'timeZoneName')?.value ?? '';
  // Some engines say "+0" and some say nothing.
  return offset.replace('GMT', 'UTC').replace(/\+0$/, '');
}
