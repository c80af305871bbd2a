import type { Funnel, Stats } from '../shared/api/types';
import { formatMinutes } from '../shared/format/duration';
import { formatCount, formatExact, formatShare } from '../shared/format/number';
import { formatClock } from '../shared/format/time';

/** A figure of the strip above the funnel. */
export interface Vital {
  id: string;
  label: string;
  value: string;
  /** The number behind the text, for tests. */
  raw: number | null;
  /** What the figure is made of. */
  tip: string;
  tone: 'plain' | 'good' | 'warn' | 'bad';
  /** False for one that is computed from the funnel, and as fresh. */
  ofStats: boolean;
}

/** Below this share of published articles something is wrong with publishing. */
const poor = 0.9;
const good = 0.99;

/** How long articles take: medians, with the average where one points at it, and when that was measured. */
export function delays(stats: Stats, zone: string): Vital[] {
  const measured = `measured at ${formatClock(Date.parse(stats.generated_at), zone)}`;
  const { throughput: t, roles } = stats;
  const delay = (id: string, from: string, to: string, median: number | null, average: number | null): Vital => ({
    id,
    label: `${from} → ${to}`,
    value: formatMinutes(median),
    raw: median,
    tip:
      median === null
        ? `No article has gone from ${from} to ${to} in this period, ${measured}`
        : `Median of ${formatExact(t.articles)} articles that came all the way; on average ${formatMinutes(average)}; ${measured}`,
    tone: 'plain',
    ofStats: true,
  });
  const out: Vital[] = [];
  if (roles.crawl && roles.classify) {
    out.push(
      delay(
        'crawl-to-classify',
        roles.crawl,
        roles.classify,
        t.median_crawl_to_classify_mins,
        t.avg_crawl_to_classify_mins,
      ),
    );
  }
  if (roles.classify && roles.publish) {
    out.push(
      delay(
        'classify-to-publish',
        roles.classify,
        roles.publish,
        t.median_classify_to_publish_mins,
        t.avg_classify_to_publish_mins,
      ),
    );
  }
  if (roles.crawl && roles.publish) {
    out.push({
      ...delay('end-to-end', roles.crawl, roles.publish, t.median_end_to_end_mins, t.avg_end_to_end_mins),
      label: 'end to end',
    });
  }
  return out;
}

/** Badges, computed from the funnel: they move with it. */
export function badges(funnel: Funnel, roles: Stats['roles']): Vital[] {
  const stage = (name: string) => funnel.stages?.find((known) => known.name === name);
  const [classified, routed, published] = [stage(roles.classify), stage(roles.route), stage(roles.publish)];
  const out: Vital[] = [];
  if (classified) {
    const again = Math.max(0, classified.count - classified.unique_articles);
    out.push({
      id: 'reclassifications',
      label: 'reclassifications',
      value: formatCount(again),
      raw: again,
      tip: `${formatExact(classified.count)} classifications of ${formatExact(classified.unique_articles)} articles`,
      tone: 'plain',
      ofStats: false,
    });
  }
  if (routed && published) {
    const share = routed.unique_articles > 0 ? Math.min(1, published.unique_articles / routed.unique_articles) : null;
    out.push({
      id: 'publish-success',
      label: 'publish success',
      value: formatShare(share),
      raw: share,
      tip: `${formatExact(published.unique_articles)} of ${formatExact(routed.unique_articles)} routed articles are published`,
      tone: share === null ? 'plain' : share < poor ? 'bad' : share < good ? 'warn' : 'good',
      ofStats: false,
    });
  }
  return out;
}

/** The stages of the usual names, until the server has said which they are. */
export const usualRoles: Stats['roles'] = {
  crawl: 'crawled',
  classify: 'classified',
  route: 'routed',
  publish: 'published',
};
