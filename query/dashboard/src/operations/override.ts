import { numberOf } from './form';
import type { Job } from './jobs';

/** The settings of a job that are numbers; empty: computed. */
export const numeric = [
  'priority', 'max_concurrent', 'jitter_seconds', 'catch_up_window_seconds', 'catch_up_cap', 'catch_up_spread_seconds',
  'max_attempts', 'retry_delay_seconds', 'backoff_base_minutes', 'backoff_max_minutes',
] as const;
export type NumericName = (typeof numeric)[number];

/** What a person sets of how a job runs, as it is typed. */
export interface TypedOverride extends Record<NumericName, string> {
  kind: 'computed' | 'interval' | 'cron';
  interval_minutes: string;
  cron: string;
  time_zone: string;
  windowed: boolean;
  start_hour: string;
  end_hour: string;
  days: number[];
  window_zone: string;
  overlap_policy: string;
  catch_up_policy: string;
  auto_managed: boolean;
}

/** The fields of the form, as the API calls them. */
export const overrideFields = [
  'interval_minutes', 'cron', 'time_zone', 'crawl_window.start_hour', 'crawl_window.end_hour', 'crawl_window.time_zone',
  'overlap_policy', 'catch_up_policy', ...numeric,
] as const;

/** What people have set of a job, to be changed; what they have not begins in a zone. */
export function typedOverride({ override, auto_managed }: Pick<Job, 'override' | 'auto_managed'>, zone: string): TypedOverride {
  const text = (value: string | number | undefined) => (value === undefined ? '' : String(value));
  const window = override.crawl_window;
  return {
    kind: override.cron !== undefined ? 'cron' : override.interval_minutes !== undefined ? 'interval' : 'computed',
    interval_minutes: text(override.interval_minutes),
    cron: text(override.cron),
    // A cron expression that was set without a zone has UTC.
    time_zone: override.time_zone ?? (override.cron === undefined ? zone : 'UTC'),
    windowed: Boolean(window),
    start_hour: text(window?.start_hour ?? 22),
    end_hour: text(window?.end_hour ?? 6),
    days: [...(window?.days ?? [])],
    window_zone: window?.time_zone ?? zone,
    overlap_policy: text(override.overlap_policy),
    catch_up_policy: text(override.catch_up_policy),
    auto_managed,
    ...(Object.fromEntries(numeric.map((name) => [name, text(override[name])])) as Record<NumericName, string>),
  };
}

/** Each setting as JSON; null: computed. */
function settings(typed: TypedOverride): Record<string, string> {
  const orNull = (text: string, json: (text: string) => string) => (text.trim() === '' ? 'null' : json(text));
  const quoted = (text: string) => JSON.stringify(text.trim());
  const { kind, windowed } = typed;
  const window = () =>
    `{"start_hour":${numberOf(typed.start_hour)},"end_hour":${numberOf(typed.end_hour)},` +
    `"days":${JSON.stringify([...typed.days].sort())},"time_zone":${quoted(typed.window_zone)}}`;
  return {
    interval_minutes: kind === 'interval' ? numberOf(typed.interval_minutes) : 'null',
    cron: kind === 'cron' ? quoted(typed.cron) : 'null',
    time_zone: kind === 'cron' ? quoted(typed.time_zone) : 'null',
    crawl_window: windowed ? window() : 'null',
    overlap_policy: orNull(typed.overlap_policy, quoted),
    catch_up_policy: orNull(typed.catch_up_policy, quoted),
    ...Object.fromEntries(numeric.map((name) => [name, orNull(typed[name], numberOf)])),
    auto_managed: String(typed.auto_managed),
  };
}

/** The body of a request: what differs from before. Empty if nothing does. */
export function overrideBody(typed: TypedOverride, before: TypedOverride): string {
  const [now, then] = [settings(typed), settings(before)];
  const changed = Object.entries(now).filter(([name, json]) => json !== then[name]);
  return changed.length ? `{${changed.map(([name, json]) => `"${name}":${json}`).join(',')}}` : '';
}
