import { describe, expect, it } from 'vitest';
import { groupsOf } from './groups';
import type { Letter } from './groups';

const letter = (id: number, code: string, field: string): Letter => ({
  id,
  code,
  field,
  reason: `rule of ${id}`,
  received_at: '',
  dead_at: `2026-02-10T12:00:0${id}Z`,
  size: 1,
});

describe('letters', () => {
  it('are put together by rule and field, with first and last', () => {
    const groups = groupsOf([letter(4, 'a', 'x'), letter(3, 'b', 'x'), letter(2, 'a', 'y'), letter(1, 'a', 'x')]);
    expect(groups.map(({ code, field, count }) => [code, field, count])).toEqual([
      ['a', 'x', 2],
      ['b', 'x', 1],
      ['a', 'y', 1],
    ]);
    expect(groups[0]).toMatchObject({
      reason: 'rule of 4',
      first: '2026-02-10T12:00:01Z',
      last: '2026-02-10T12:00:04Z',
    });
  });
});
