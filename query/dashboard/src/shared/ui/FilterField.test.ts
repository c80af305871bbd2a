// @vitest-environment happy-dom
import { mount } from '@vue/test-utils';
import { describe, expect, it } from 'vitest';
import FilterField from './FilterField.vue';

describe('a text that a page filters by', () => {
  const field = (props: { atOnce?: boolean } = {}) => {
    const box = mount(FilterField, { props: { label: 'Name', modelValue: '', ...props } });
    return { box, input: box.get('input'), given: () => box.emitted('update:modelValue')?.flat() ?? [] };
  };

  it('keeps what is being typed while the page is drawn anew, and gives it when it is complete', async () => {
    const { box, input, given } = field();
    input.element.value = 'order';
    await input.trigger('input');
    await box.setProps({ label: 'Another' });
    box.vm.$forceUpdate();
    await box.vm.$nextTick();
    expect(input.element.value).toBe('order');
    expect(given()).toEqual([]);
    await input.trigger('change');
    expect(given()).toEqual(['order']);
  });

  it('gives each letter at once where that is wanted', async () => {
    const { input, given } = field({ atOnce: true });
    await input.setValue('o');
    await input.setValue('or');
    expect(given()).toEqual(['o', 'or']);
  });

  it('shows what the address says when that changes', async () => {
    const { box, input } = field();
    await input.setValue('half a wo');
    await box.setProps({ modelValue: 'from a link' });
    expect(input.element.value).toBe('from a link');
  });
});
