// @vitest-environment happy-dom
import { afterEach, describe, expect, it, vi } from 'vitest';
import { act } from './acts';
import type { Report } from './acts';

const report = (some: Partial<Report>): Report => ({
  matched: 0,
  replayed: 0,
  duplicates: 0,
  kept: 0,
  deleted: 0,
  reasons: {},
  kept_letters: [],
  missing: [],
  ...some,
});

describe('an act on letters', () => {
  afterEach(() => void vi.unstubAllGlobals());

  it('goes on until nothing is left, and adds up what was done', async () => {
    const pages = [
      report({ matched: 1_000, replayed: 998, kept: 2, reasons: { stage_unknown: 2 }, next_cursor: 'c1' }),
      report({ matched: 5, replayed: 4, kept: 1, reasons: { stage_unknown: 1 } }),
    ];
    const bodies: unknown[] = [];
    vi.stubGlobal('fetch', async (request: Request) => {
      bodies.push(await request.json());
      return Response.json(pages[bodies.length - 1]);
    });
    const told = vi.fn();
    const done = await act('replay', { filter: { code: 'x' } }, { dryRun: true, asBackfill: false }, told);
    expect(bodies).toEqual([
      { filter: { code: 'x' }, limit: 1_000, dry_run: true, as_backfill: false },
      { filter: { code: 'x' }, limit: 1_000, dry_run: true, as_backfill: false, cursor: 'c1' },
    ]);
    expect(done).toMatchObject({ matched: 1_005, replayed: 1_002, kept: 3, reasons: { stage_unknown: 3 } });
    expect(told).toHaveBeenCalledTimes(2);
  });

  it('tells why the server refuses', async () => {
    vi.stubGlobal('fetch', async () =>
      Response.json(
        {
          title: 'Bad Request',
          status: 400,
          detail: 'no such',
          errors: [{ field: 'code', code: 'x', rule: 'must be known' }],
        },
        { status: 400 },
      ),
    );
    await expect(act('purge', { all: true }, { dryRun: true, asBackfill: false }, () => {})).rejects.toThrow(
      'no such · code must be known',
    );
  });
});
