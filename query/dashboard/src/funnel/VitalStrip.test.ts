// @vitest-environment happy-dom
import { mount } from '@vue/test-utils';
import { describe, expect, it } from 'vitest';
import type { Vital } from './vitals';
import VitalStrip from './VitalStrip.vue';

const vital = (id: string, ofStats: boolean): Vital => ({
  id,
  label: 'end to end',
  value: '11.8 min',
  raw: 11.8,
  tip: 'on average 13.2 min',
  tone: 'plain',
  ofStats,
});

describe('the strip of figures', () => {
  it('has the median to read and the average to point at', () => {
    const figure = mount(VitalStrip, { props: { vitals: [vital('a', true)], stale: false } }).get(
      '[data-testid=vital-a]',
    );
    expect(figure.get('dd').text()).toContain('11.8 min');
    expect(figure.attributes('title')).toBe('on average 13.2 min');
    expect(figure.attributes('data-value')).toBe('11.8');
  });

  it('fades only what comes from statistics', () => {
    const strip = mount(VitalStrip, { props: { vitals: [vital('a', true), vital('b', false)], stale: true } });
    expect(strip.findAll('.old').map((figure) => figure.attributes('data-testid'))).toEqual(['vital-a']);
  });
});
