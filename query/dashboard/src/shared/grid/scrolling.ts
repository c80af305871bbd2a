/** Heights in pixels. Rows are all alike, so that any of them can be shown without those before it. */
export const rowHeight = 34;
export const headHeight = 34;
/** The highest element that every browser draws: from about 17 million pixels on, Firefox does not. */
export const highest = 8_000_000;

/** How high the space is that the scroll bar moves in. */
export function spaceOf(rows: number): number {
  return Math.min(rows * rowHeight + headHeight, highest);
}

/** The farthest that rows can be moved up, and the farthest place of the bar. */
export function farthest(rows: number, view: number): { rows: number; bar: number } {
  const all = rows * rowHeight + headHeight;
  return { rows: Math.max(0, all - view), bar: Math.max(0, Math.min(all, highest) - view) };
}

/**
 * How far up rows are after the bar has moved. Where the space is as high as all rows, that is the place of the bar.
 * Else steps of up to a screen, as of wheels and keys, move rows as far as the bar; longer ones, as of a hand that
 * drags the bar, go to the same share of all rows.
 */
export function moved(top: number, before: number, now: number, rows: number, view: number): number {
  const end = farthest(rows, view);
  if (end.rows <= end.bar) return Math.min(now, end.rows);
  if (Math.abs(now - before) > view) return (now / end.bar) * end.rows;
  const next = Math.min(Math.max(0, top + now - before), end.rows);
  // The bar has no finer places than pixels.
  if (now <= 0 && next < rowHeight) return 0;
  if (now >= end.bar && end.rows - next < rowHeight) return end.rows;
  return next;
}

/** Where the bar belongs, when rows are so far up. */
export function barAt(top: number, rows: number, view: number): number {
  const end = farthest(rows, view);
  return end.rows <= end.bar ? top : (top / end.rows) * end.bar;
}

/** The rows that are seen, from the first one to that behind the last one, and how far up the first one is. */
export function sightOf(top: number, rows: number, view: number): { from: number; to: number; cut: number } {
  const from = Math.min(Math.floor(top / rowHeight), Math.max(0, rows - 1));
  const to = Math.min(rows, Math.ceil((top + view - headHeight) / rowHeight));
  return { from, to: Math.max(from, to), cut: top - from * rowHeight };
}
