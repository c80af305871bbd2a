// @vitest-environment happy-dom
import { mount } from '@vue/test-utils';
import { describe, expect, it } from 'vitest';
import Combobox from './Combobox.vue';

function setUp(props: { free?: boolean; none?: string; modelValue?: string } = {}) {
  const box = mount(Combobox, {
    props: { label: 'Source', testid: 'source-filter', options: ['alpha', 'beta', 'betamax'], modelValue: '', ...props },
  });
  const input = box.get('[data-testid=source-filter]');
  const options = () => box.findAll('[role=option]').map((option) => option.text());
  const chosen = () => box.emitted('update:modelValue')?.at(-1)?.[0];
  return { box, input, options, chosen };
}

describe('the combobox', () => {
  it('opens with everything, the empty value first', async () => {
    const { input, options } = setUp({ none: 'All' });
    expect(input.attributes('aria-expanded')).toBe('false');
    await input.trigger('focus');
    expect(input.attributes('aria-expanded')).toBe('true');
    expect(options()).toEqual(['All', 'alpha', 'beta', 'betamax']);
  });

  it('narrows while typing and takes the active option', async () => {
    const { input, options, chosen } = setUp();
    await input.setValue('bet');
    expect(options()).toEqual(['beta', 'betamax']);
    await input.trigger('keydown', { key: 'ArrowDown' });
    expect(input.attributes('aria-activedescendant')).toMatch(/-1$/);
    await input.trigger('keydown', { key: 'Enter' });
    expect(chosen()).toBe('betamax');
    expect(input.attributes('aria-expanded')).toBe('false');
  });

  it('takes a text that is not listed only where it may', async () => {
    for (const free of [false, true]) {
      const { input, chosen } = setUp({ free });
      await input.setValue(' gamma ');
      await input.trigger('keydown', { key: 'Enter' });
      expect(chosen()).toBe(free ? 'gamma' : undefined);
    }
  });

  it('changes nothing on Escape', async () => {
    const { input, chosen } = setUp({ modelValue: 'alpha' });
    await input.setValue('beta');
    await input.trigger('keydown', { key: 'Escape' });
    expect(chosen()).toBeUndefined();
    expect((input.element as HTMLInputElement).value).toBe('alpha');
  });

  it('is cleared', async () => {
    const { box, chosen } = setUp({ modelValue: 'alpha', none: 'All' });
    await box.get('button').trigger('click');
    expect(chosen()).toBe('');
  });
});
