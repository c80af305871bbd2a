// @vitest-environment happy-dom
import { mount } from '@vue/test-utils';
import { describe, expect, it } from 'vitest';
import EmptyFunnel from './EmptyFunnel.vue';

const rule = 'is the name of no source that has sent an event; the nearest that has is example_com';

describe('an empty funnel', () => {
  it('says what the server says of the source', () => {
    const notes = [{ field: 'source', code: 'source_unknown', rule }];
    const shown = mount(EmptyFunnel, { props: { stage: 'crawled', source: 'exmple_com', notes } });
    expect(shown.get('[data-testid=note]').text()).toBe(`“exmple_com” ${rule}.`);
  });

  it('of a known source proposes another period', () => {
    const shown = mount(EmptyFunnel, { props: { stage: 'crawled', source: 'example_com' } });
    expect(shown.find('[data-testid=note]').exists()).toBe(false);
    expect(shown.text()).toContain('longer period');
  });
});
