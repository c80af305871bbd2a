import type { Scope } from '../shared/api/access';
import type { DueChoice, Run } from './jobs';

/** What the panel of a source has side by side. */
export const tabs = [
  { name: 'fields', words: 'Fields', scope: 'read', of: 'source' },
  { name: 'job', words: 'Job', scope: 'read', of: 'both' },
  { name: 'runs', words: 'Runs', scope: 'read', of: 'both' },
  { name: 'due', words: 'Due times', scope: 'read', of: 'job' },
  { name: 'events', words: 'Events', scope: 'read', of: 'both' },
  { name: 'override', words: 'Override', scope: 'admin', of: 'job' },
  { name: 'edit', words: 'Edit', scope: 'admin', of: 'source' },
] as const satisfies readonly { name: string; words: string; scope: Scope; of: 'source' | 'job' | 'both' }[];

export type Tab = (typeof tabs)[number]['name'];

/** What of the panel is in the address. */
export interface Place {
  tab: Tab;
  /** Which runs and which due times are listed. */
  runs: '' | Run['status'];
  due: DueChoice;
  /** The place in the list of the tab. */
  at: string;
}
