// @vitest-environment happy-dom
import { mount } from '@vue/test-utils';
import { describe, expect, it } from 'vitest';
import { stepsOf } from './steps';
import StageCard from './StageCard.vue';

const stages = [
  { name: 'indexed', count: 68_345, unique_articles: 68_345 },
  { name: 'classified', count: 12_150, unique_articles: 10_002 },
];

function card(stage: number) {
  const step = stepsOf(stages)[stage]!;
  return mount(StageCard, { props: { step, color: 'rgb(0,0,0)', points: [] } });
}

describe('the card of a stage', () => {
  it('carries its numbers formatted and raw', () => {
    const unique = card(1).get('[data-testid=stage-classified-unique]');
    expect(unique.text()).toBe('10,002');
    expect(unique.attributes('data-value')).toBe('10002');
    expect(card(1).get('[data-testid=stage-classified-count]').attributes('data-value')).toBe('12150');
  });

  it('changes all numbers of a snapshot together', async () => {
    const shown = card(1);
    await shown.setProps({ step: stepsOf([{ name: 'classified', count: 13_000, unique_articles: 10_500 }])[0]! });
    const count = shown.get('[data-testid=stage-classified-count]');
    expect([count.text(), count.attributes('data-value')]).toEqual(['13,000', '13000']);
    expect(shown.get('[data-testid=stage-classified-unique]').text()).toBe('10,500');
    expect(shown.get('.repeats').text()).toContain('+2,500');
  });

  it('counts repeats, where there are any', () => {
    expect(card(1).get('.repeats').text()).toContain('+2,148');
    expect(card(0).find('.repeats').exists()).toBe(false);
  });

  it('tells the conversion from the stage before, where there is one', () => {
    expect(card(1).get('.conversion').text()).toBe('14.6 % of previous');
    expect(card(0).find('.conversion').exists()).toBe(false);
  });
});
