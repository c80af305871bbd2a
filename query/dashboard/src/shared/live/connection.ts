/**
 * The life of the connection as a pure function, so that every order of events can be tested without a network.
 *
 *   stopped ──start──▶ connecting ──opened──▶ live ──closed──▶ lost ──retry | wake──▶ connecting
 *                          └──────────closed─────────────────────┘
 *
 * `failures` counts the ends in a row without an answer in between. Opening alone does not reset it: a server that
 * accepts and drops at once would otherwise be asked twice a second for ever.
 */
export type Connection =
  | { phase: 'stopped' }
  | { phase: 'connecting'; failures: number }
  | { phase: 'live'; failures: number }
  | { phase: 'lost'; failures: number; retryIn: number };

export type ConnectionEvent = 'start' | 'stop' | 'opened' | 'answered' | 'closed' | 'retry' | 'wake';

/** What people are shown: a retry in the background stays "lost" until it has succeeded. */
export type Health = 'connecting' | 'live' | 'lost';

export const stopped: Connection = { phase: 'stopped' };

export function next(now: Connection, event: ConnectionEvent, delay: (failures: number) => number): Connection {
  if (event === 'stop') return stopped;
  switch (now.phase) {
    case 'stopped':
      return event === 'start' ? { phase: 'connecting', failures: 0 } : now;
    case 'connecting':
      if (event === 'opened') return { phase: 'live', failures: now.failures };
      return event === 'closed' ? lost(now.failures + 1, delay) : now;
    case 'live':
      if (event === 'answered' && now.failures > 0) return { phase: 'live', failures: 0 };
      return event === 'closed' ? lost(now.failures + 1, delay) : now;
    case 'lost':
      return event === 'retry' || event === 'wake' ? { phase: 'connecting', failures: now.failures } : now;
  }
}

function lost(failures: number, delay: (failures: number) => number): Connection {
  return { phase: 'lost', failures, retryIn: delay(failures) };
}

export function healthOf(connection: Connection): Health {
  switch (connection.phase) {
    case 'live':
      return 'live';
    case 'lost':
      return 'lost';
    case 'connecting':
      return connection.failures > 0 ? 'lost' : 'connecting';
    case 'stopped':
      return 'connecting';
  }
}
