/** Names that browsers still list under what the places were once called; people search for the present ones. */
const renamed: Record<string, string> = {
  'America/Buenos_Aires': 'America/Argentina/Buenos_Aires',
  'America/Godthab': 'America/Nuuk',
  'America/Indianapolis': 'America/Indiana/Indianapolis',
  'America/Louisville': 'America/Kentucky/Louisville',
  'Asia/Calcutta': 'Asia/Kolkata',
  'Asia/Katmandu': 'Asia/Kathmandu',
  'Asia/Rangoon': 'Asia/Yangon',
  'Asia/Saigon': 'Asia/Ho_Chi_Minh',
  'Atlantic/Faeroe': 'Atlantic/Faroe',
  'Europe/Kiev': 'Europe/Kyiv',
  'Pacific/Enderbury': 'Pacific/Kanton',
  'Pacific/Ponape': 'Pacific/Pohnpei',
  'Pacific/Truk': 'Pacific/Chuuk',
};

function present(name: string): string {
  const now = renamed[name];
  return now && isZone(now) ? now : name;
}

/** The zone of the browser; some report none. */
export function browserZone(): string {
  return present(Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC');
}

/** All zones that the browser knows, UTC first: the list of some browsers leaves it out. */
export function allZones(): string[] {
  const listed = Intl.supportedValuesOf('timeZone').map(present).sort();
  return [...new Set(['UTC', browserZone(), ...listed])];
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
