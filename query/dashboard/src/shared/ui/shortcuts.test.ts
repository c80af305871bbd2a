// @vitest-environment happy-dom
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { effectScope } from 'vue';
import type { EffectScope } from 'vue';
import { singleKeys, useShortcuts } from './shortcuts';

describe('shortcuts', () => {
  let scope: EffectScope;
  const acts = { 'g f': vi.fn(), '?': vi.fn(), 'mod+k': vi.fn() };
  const press = (key: string, more: KeyboardEventInit = {}, at: EventTarget = window) =>
    at.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true, ...more }));

  beforeEach(() => {
    Object.values(acts).forEach((act) => act.mockClear());
    singleKeys.value = true;
    scope = effectScope();
    scope.run(() => useShortcuts(() => acts));
  });
  afterEach(() => scope.stop());

  it('are one key, two in a row, or one with Ctrl or Cmd', () => {
    press('?');
    press('g');
    press('f');
    press('k', { metaKey: true });
    press('f');
    expect(Object.values(acts).map((act) => act.mock.calls.length)).toEqual([1, 1, 1]);
  });

  it('leave text fields alone, but for those with Ctrl', () => {
    const field = document.body.appendChild(document.createElement('input'));
    press('?', {}, field);
    press('k', { ctrlKey: true }, field);
    expect(acts['?']).not.toHaveBeenCalled();
    expect(acts['mod+k']).toHaveBeenCalledOnce();
    field.remove();
  });

  it('of one key can be switched off', () => {
    singleKeys.value = false;
    press('?');
    press('k', { ctrlKey: true });
    expect(acts['?']).not.toHaveBeenCalled();
    expect(acts['mod+k']).toHaveBeenCalledOnce();
  });
});
