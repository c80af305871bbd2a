import { describe, expect, it } from 'vitest';
import { healthOf, next, stopped } from './connection';
import type { Connection, ConnectionEvent } from './connection';

const delay = (failures: number) => failures * 100;
const after = (...events: ConnectionEvent[]): Connection =>
  events.reduce((state, event) => next(state, event, delay), stopped);

describe('the connection', () => {
  it.each<[ConnectionEvent[], Connection]>([
    [['start'], { phase: 'connecting', failures: 0 }],
    [['start', 'opened'], { phase: 'live', failures: 0 }],
    [['start', 'closed'], { phase: 'lost', failures: 1, retryIn: 100 }],
    [['start', 'opened', 'closed'], { phase: 'lost', failures: 1, retryIn: 100 }],
    [['start', 'closed', 'retry'], { phase: 'connecting', failures: 1 }],
    [['start', 'closed', 'wake'], { phase: 'connecting', failures: 1 }],
    [['start', 'closed', 'retry', 'closed'], { phase: 'lost', failures: 2, retryIn: 200 }],
    [['start', 'closed', 'retry', 'opened'], { phase: 'live', failures: 1 }],
    [['start', 'closed', 'retry', 'opened', 'answered'], { phase: 'live', failures: 0 }],
    [['start', 'opened', 'stop'], { phase: 'stopped' }],
  ])('after %j is %j', (events, want) => {
    expect(after(...events)).toEqual(want);
  });

  it('keeps counting failures of a server that accepts and drops', () => {
    expect(after('start', 'opened', 'closed', 'retry', 'opened', 'closed')).toMatchObject({ failures: 2 });
  });

  it.each<[ConnectionEvent[]]>([
    [['retry']],
    [['closed']],
    [['start', 'wake']],
    [['start', 'opened', 'wake']],
    [['start', 'opened', 'retry']],
    [['start', 'opened', 'opened']],
  ])('is not disturbed by an event out of place: %j', (events) => {
    expect(after(...events)).toEqual(after(...events.slice(0, -1)));
  });

  it('is shown as lost until a retry has succeeded', () => {
    expect(healthOf(after('start'))).toBe('connecting');
    expect(healthOf(after('start', 'opened'))).toBe('live');
    expect(healthOf(after('start', 'opened', 'closed'))).toBe('lost');
    expect(healthOf(after('start', 'opened', 'closed', 'retry'))).toBe('lost');
    expect(healthOf(after('start', 'opened', 'closed', 'retry', 'opened'))).toBe('live');
  });
});
