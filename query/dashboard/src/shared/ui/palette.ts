type RGB = readonly [number, number, number];

/** From the spring to the mouth: indigo, blue, cyan, teal, green. Each reaches 3:1 on its surface. */
const anchors: Record<'light' | 'dark', readonly RGB[]> = {
  light: [[79, 70, 229], [37, 99, 235], [8, 131, 165], [13, 138, 124], [22, 145, 70]],
  dark: [[129, 140, 248], [96, 165, 250], [56, 189, 248], [45, 212, 191], [74, 222, 128]],
};

/** One color per stage, spread over the anchors whatever their number. */
export function stageColors(stages: number, theme: 'light' | 'dark'): string[] {
  return Array.from({ length: stages }, (_, i) => colorAt(anchors[theme], stages > 1 ? i / (stages - 1) : 0));
}

function colorAt(colors: readonly RGB[], position: number): string {
  const scaled = position * (colors.length - 1);
  const i = Math.min(Math.floor(scaled), colors.length - 2);
  const [from, to] = [colors[i]!, colors[i + 1]!];
  const mixed = from.map((value, channel) => Math.round(value + (to[channel]! - value) * (scaled - i)));
  return `rgb(${mixed.join(',')})`;
}
