import type { components } from './schema';

/** A document of the API by its name in /openapi.json. */
export type Schema<Name extends keyof components['schemas']> = components['schemas'][Name];

export type Funnel = Schema<'Funnel'>;
export type Stage = Schema<'FunnelStage'>;
export type Stats = Schema<'Stats'>;
export type Drift = Schema<'Drift'>;
export type DriftTest = Schema<'DriftTest'>;
export type Verdict = DriftTest['verdict'];
export type ModelVersion = Schema<'ModelVersion'>;
export type Note = Schema<'FieldError'>;
export type Check = Schema<'CheckStatus'>;
export type Problem = Partial<Schema<'Problem'>> & { title: string };

export const periods = ['today', '24h', '7d', '30d'] as const;
export type Period = (typeof periods)[number];

export interface FunnelQuery {
  period: Period;
  /** Empty for all sources. */
  source: string;
  /** IANA name of the zone whose midnight starts "today". */
  tz: string;
}
