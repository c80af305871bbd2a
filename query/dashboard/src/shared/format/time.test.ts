import { describe, expect, it } from 'vitest';
import { formatAge, formatDue, formatWindow } from './time';
import { allZones, formatOffset, isZone } from './zone';

describe('ages', () => {
  it.each([
    [0, 'just now'],
    [999, 'just now'],
    [2_400, '2 s ago'],
    [59_999, '59 s ago'],
    [60_000, '1 min ago'],
    [3_600_000, '1 h ago'],
    [200_000_000, '2 days ago'],
  ])('%d ms is %s', (milliseconds, want) => expect(formatAge(milliseconds)).toBe(want));
});

describe('windows', () => {
  it('are told in their own zone', () => {
    expect(formatWindow('2026-02-10T00:00:00Z', '2026-02-10T15:42:00Z', 'UTC')).toBe('10 Feb, 00:00 – 15:42');
    expect(formatWindow('2026-02-09T18:15:00Z', '2026-02-10T15:42:00Z', 'Asia/Kathmandu')).toBe(
      '10 Feb, 00:00 – 21:27',
    );
  });

  it('name both days when they differ', () => {
    expect(formatWindow('2026-02-03T15:42:00Z', '2026-02-10T15:42:00Z', 'UTC')).toBe('3 Feb, 15:42 – 10 Feb, 15:42');
  });
});

it('moments to come have their day and minute', () => {
  expect(formatDue(Date.parse('2026-03-29T01:00:00Z'), 'Europe/Berlin')).toBe('Sun 29 Mar, 03:00');
});

describe('zones', () => {
  it('are known or not', () => {
    expect(isZone('Europe/Berlin')).toBe(true);
    expect(isZone('Mars/Olympus')).toBe(false);
    expect(isZone('')).toBe(false);
  });

  it('include UTC and offsets of 45 minutes', () => {
    expect(allZones()[0]).toBe('UTC');
    expect(allZones()).toContain('Asia/Kathmandu');
    expect(allZones()).not.toContain('Asia/Katmandu');
    expect(allZones().length).toBeGreaterThan(300);
    expect(formatOffset('Asia/Kathmandu')).toBe('UTC+5:45');
    expect(formatOffset('UTC')).toBe('UTC');
  });

  it('follow daylight saving', () => {
    expect(formatOffset('Europe/Berlin', new Date('2026-01-10'))).toBe('UTC+1');
    expect(formatOffset('Europe/Berlin', new Date('2026-07-10'))).toBe('UTC+2');
  });
});
