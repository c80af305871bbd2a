type Pixel = [number, number];

/** How finely a bend is drawn; the number of points never changes, so that shapes can glide into each other. */
const bendPoints = 20;
/** The part of a column that its stage holds before the flow bends towards the next one. */
const level = 0.5;
/** Half a pixel of water still runs where nothing was counted, so that the course stays visible. */
const trickle = 0.75;

/**
 * The outline of a stream seen from above: one column per value, as wide as the value is large, bending into the
 * next one. Symmetric about the middle of the box.
 */
export function flowShape(values: readonly number[], largest: number, width: number, height: number): Pixel[] {
  const column = width / Math.max(1, values.length);
  const half = (value: number) => (largest > 0 ? Math.max(trickle, (value / largest) * (height / 2)) : trickle);
  const upper: Pixel[] = [];
  values.forEach((value, i) => {
    const from = half(value);
    const to = half(values[i + 1] ?? value);
    upper.push([i * column, from]);
    for (let k = 0; k <= bendPoints; k++) {
      const t = k / bendPoints;
      upper.push([(i + level + t * (1 - level)) * column, from + (to - from) * ease(t)]);
    }
  });
  const middle = height / 2;
  const top = upper.map(([x, reach]): Pixel => [x, middle - reach]);
  const bottom = upper.map(([x, reach]): Pixel => [x, middle + reach]).reverse();
  return [...top, ...bottom];
}

/** The outline as an SVG path. */
export function flowPath(values: readonly number[], largest: number, width: number, height: number): string {
  const points = flowShape(values, largest, width, height).map(([x, y]) => `${x.toFixed(1)},${y.toFixed(2)}`);
  return `M${points.join('L')}Z`;
}

/** Level at both ends. */
function ease(t: number): number {
  return t * t * t * (t * (6 * t - 15) + 10);
}
