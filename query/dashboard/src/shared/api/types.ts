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
  /** What may not be as it was meant, such as a source that has sent nothing. */
  notes?: Note[];
}

export interface Note {
  field: string;
  code: string;
  rule: string;
}

/** Minutes; null where no article counts. */
type Minutes = number | null;

export interface Stats {
  from: string;
  to: string;
  crawl: { total_crawled: number; unique_urls: number; duplicates: number; by_source: Record<string, number> };
  classification: {
    total_classified: number;
    unique_articles: number;
    reclassifications: number;
    avg_quality_score: number | null;
    median_quality_score: number | null;
    by_model_version: Record<string, number>;
    by_topic: Record<string, number>;
  };
  publishing: {
    total_routed: number;
    total_published: number;
    failed_publishes: number;
    by_channel: Record<string, number>;
  };
  throughput: {
    median_crawl_to_classify_mins: Minutes;
    avg_crawl_to_classify_mins: Minutes;
    median_classify_to_publish_mins: Minutes;
    avg_classify_to_publish_mins: Minutes;
    median_end_to_end_mins: Minutes;
    avg_end_to_end_mins: Minutes;
    articles: number;
  };
  /** Names of stages; empty where the pipeline has none. */
  roles: { crawl: string; classify: string; route: string; publish: string };
  generated_at: string;
}

export interface ModelVersion {
  version: string;
  articles_classified: number;
  avg_quality_score: number | null;
  /** Share of the articles that have a topic. */
  topic_distribution: Record<string, number>;
  version_age_days: number;
}

export type Verdict = 'stable' | 'moderate' | 'drift' | 'insufficient_data';

export interface DriftTest {
  name: string;
  of: 'topics' | 'quality_score';
  value: number | null;
  threshold: number | null;
  p_value: number | null;
  reference_size: number;
  current_size: number;
  verdict: Verdict;
}

export interface DriftSample {
  version: string;
  classifications: number;
  articles: number;
  avg_quality_score: number | null;
}

export interface Drift {
  model_versions: ModelVersion[];
  drift_indicators: { quality_score_delta: number | null; topic_distribution_shift: number | null };
  comparison: { reference: DriftSample; current: DriftSample; tests: DriftTest[] } | null;
  generated_at: string;
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
