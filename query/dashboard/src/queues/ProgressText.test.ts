// @vitest-environment happy-dom
import { mount } from '@vue/test-utils';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import ProgressText from './ProgressText.vue';

describe('what a worker says that it is at', () => {
  beforeEach(() => {
    vi.useFakeTimers({ now: Date.parse('2026-01-02T03:04:05Z') });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it('is marked when it is old', async () => {
    const shown = mount(ProgressText, {
      props: { text: 'page 3 of 10', at: '2026-01-02T03:03:10Z' },
      global: { stubs: ['TimeText'] },
    });
    expect(shown.get('[data-testid=progress]').text()).toBe('page 3 of 10');
    expect(shown.find('[data-testid=progress-old]').exists()).toBe(false);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(shown.find('[data-testid=progress-old]').exists()).toBe(true);
    await shown.setProps({ text: 'page 4 of 10', at: '2026-01-02T03:04:14Z' });
    expect(shown.find('[data-testid=progress-old]').exists()).toBe(false);
  });
});
