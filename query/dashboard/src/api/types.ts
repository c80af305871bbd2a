/** What the server sends, as its OpenAPI description words it. */

export const periods = ['today', '24h', '7d', '30d'] as const;
export type Period = (typeof periods)[number];

export interface FunnelQuery {
  period: Period;
  /** Empty for all sources. */
  source: string;
  /** IANA name of the zone whose midnight starts "today". */
  tz: string;
}

export interface Stage {
  name: string;
  count: number;
  unique_articles: number;
}

export interface Funnel {
  period: string;
  timezone: string;
  from: string;
  to: string;
  source: string;
  /** In the order of the pipeline; any names, any number. */
  stages: Stage[];
  unique_method: 'exact' | 'sketch';
  /** Relative, three standard errors; 0 when exact. */
  unique_error: number;
  generated_at: string;
  stream?: { last_seq: number; folded_seq: number; behind: number };
}

export interface Source {
  name: string;
  count: number;
}

export interface Check {
  name: string;
  status: 'up' | 'down';
  error?: string;
  since?: string;
  /** What needs attention though it is up. */
  warning?: string;
}

export interface Readiness {
  status: 'ready' | 'not ready';
  checks: Check[];
}

/** An RFC 9457 problem document. */
export interface Problem {
  title: string;
  detail?: string;
  status?: number;
  field?: string;
}
