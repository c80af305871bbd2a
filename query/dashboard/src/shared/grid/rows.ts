import type { ComputedRef } from 'vue';

/** The rows of a grid, of which those in sight are there. */
export interface GridRows<T> {
  /** How many the grid has. */
  count: ComputedRef<number>;
  /** A row; undefined: it has not come yet; null: there is none at this place. */
  at: (index: number) => T | null | undefined;
  /** All rows that are there. */
  loaded: ComputedRef<T[]>;
  error: ComputedRef<Error | null>;
}

export interface Sight {
  from: number;
  to: number;
}

/** How long rows stay that are out of sight. */
export const keptFor = 20_000;
