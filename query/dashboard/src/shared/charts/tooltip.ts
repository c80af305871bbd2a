import type { ChartTheme } from './theme';

/** Built from text nodes: stage and source names come from outside and must never be read as HTML. */
export function tooltipContent(title: string, rows: readonly (readonly [string, string, string?])[]): HTMLElement {
  const box = element('div', 'chart-tip');
  box.append(element('strong', '', title));
  for (const [label, value, color] of rows) {
    const row = element('div', 'chart-tip-row');
    const name = element('span', 'chart-tip-label');
    if (color) {
      const dot = element('i', 'chart-tip-dot');
      dot.style.background = color;
      name.append(dot);
    }
    name.append(label);
    row.append(name, element('b', '', value));
    box.append(row);
  }
  return box;
}

export function tooltipStyle(theme: ChartTheme) {
  return {
    backgroundColor: theme.surface,
    borderColor: theme.line,
    borderWidth: 1,
    padding: 0,
    textStyle: { color: theme.text, fontFamily: theme.font, fontSize: 13 },
    extraCssText: 'border-radius:10px;box-shadow:var(--shadow-high);',
    confine: true,
    transitionDuration: 0.15,
  };
}

function element(tag: string, className: string, text = ''): HTMLElement {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text) made.textContent = text;
  return made;
}
