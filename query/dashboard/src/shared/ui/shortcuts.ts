import { onScopeDispose, ref, watch } from 'vue';

const key = 'millrace.keys';

/** Shortcuts of one key can be in the way of those who speak to their computer, so they can be switched off. */
export const singleKeys = ref(localStorage.getItem(key) !== 'off');
watch(singleKeys, (on) => localStorage.setItem(key, on ? 'on' : 'off'));

/** What a press means: the name of the shortcut. "g f" is g and then f within a second. */
type Shortcuts = Record<string, () => void>;

const patience = 1_000;

/** Listens for as long as the component lives. Of text fields and dialogs it takes only what has Ctrl or Cmd. */
export function useShortcuts(shortcuts: () => Shortcuts): void {
  let first = '';
  let at = 0;
  const press = (event: KeyboardEvent) => {
    const name = nameOf(event);
    if (event.defaultPrevented || !name) return;
    const held = name.startsWith('mod+');
    if (!held && (!singleKeys.value || isBusy(event.target))) return;
    const both = Date.now() - at < patience ? `${first} ${name}` : name;
    [first, at] = [name, Date.now()];
    const act = shortcuts()[both] ?? shortcuts()[name];
    if (!act) return;
    event.preventDefault();
    act();
  };
  window.addEventListener('keydown', press);
  onScopeDispose(() => window.removeEventListener('keydown', press));
}

function nameOf(event: KeyboardEvent): string {
  if (event.altKey) return '';
  const plain = event.key.length === 1 ? event.key.toLowerCase() : '';
  return plain && (event.ctrlKey || event.metaKey) ? `mod+${plain}` : plain;
}

function isBusy(target: EventTarget | null): boolean {
  const at = target instanceof HTMLElement ? target : null;
  return Boolean(at?.closest('input, textarea, select, [contenteditable], [role="dialog"], [role="alertdialog"]'));
}
