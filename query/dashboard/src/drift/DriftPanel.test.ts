// @vitest-environment happy-dom
import { mount } from '@vue/test-utils';
import { describe, expect, it } from 'vitest';
import type { Drift, DriftTest } from '../shared/api/types';
import DriftPanel from './DriftPanel.vue';

const psi: DriftTest = {
  name: 'population_stability_index',
  of: 'topics',
  value: 0.3,
  threshold: 0.25,
  p_value: null,
  reference_size: 4_100,
  current_size: 19_800,
  verdict: 'drift',
};
const sample = (version: string) => ({
  version,
  classifications: 1,
  articles: 1,
  avg_quality_score: 70,
  from: null,
  to: null,
  sample: 1,
});
const drift: Drift = {
  model_versions: [],
  drift_indicators: { quality_score_delta: 6, topic_distribution_shift: 0.04 },
  comparison: {
    reference: sample('v2.0'),
    current: sample('v2.1'),
    tests: [psi, { ...psi, name: 'wasserstein_distance', verdict: 'stable' }],
  },
  generated_at: '2026-02-10T12:00:00Z',
  sample: 1,
  stream: { last_seq: 1, folded_seq: 1, behind: 0 },
};
const panel = (of: Drift) =>
  mount(DriftPanel, { props: { drift: of, versions: ['v2.1', 'v2.0'], reference: '', current: '' } });

describe('the panel of drift', () => {
  it('shows indicators, tests with threshold and sizes, and the worst verdict', () => {
    const shown = panel(drift);
    expect(shown.get('[data-testid=quality-delta]').text()).toBe('+6');
    expect(shown.get('[data-testid=topic-shift]').attributes('data-value')).toBe('0.04');
    const test = shown.get('[data-testid=test-population_stability_index]');
    expect(test.text()).toContain('drift above 0.25');
    expect(test.text()).toContain('4,100 against 19,800');
    expect(shown.get('[data-testid=drift-verdict]').attributes('data-value')).toBe('drift');
  });

  it('lets other versions be chosen', async () => {
    const shown = panel(drift);
    await shown.get('[data-testid=drift-reference]').setValue('v2.1');
    expect(shown.emitted('update:reference')).toEqual([['v2.1']]);
  });

  it('says what is missing where there is nothing to compare with', () => {
    expect(panel({ ...drift, comparison: null }).text()).toContain('A second model version is needed');
  });
});
