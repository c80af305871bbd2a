/** The SVG path of a bar for each value, the highest as high as there is room; what is not nothing is seen. */
export function barsPath(values: readonly number[], width: number, height: number): string {
  const highest = Math.max(...values, 1e-9);
  const step = width / values.length;
  return values
    .map((value, i) => {
      if (value <= 0) return '';
      const high = Math.max(1, (value / highest) * height);
      return `M${round(i * step)},${height}v${round(-high)}h${round(step * 0.8)}v${round(high)}z`;
    })
    .join('');
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
