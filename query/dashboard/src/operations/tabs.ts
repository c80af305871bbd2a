import type { Scope } from '../shared/api/access';

/** What the panel of a source has side by side. */
export const tabs = [
  { name: 'fields', words: 'Fields', scope: 'read' },
  { name: 'job', words: 'Job', scope: 'read' },
  { name: 'events', words: 'Events', scope: 'read' },
  { name: 'edit', words: 'Edit', scope: 'admin' },
] as const satisfies readonly { name: string; words: string; scope: Scope }[];

export type Tab = (typeof tabs)[number]['name'];
