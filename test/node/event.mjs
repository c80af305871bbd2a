// The event contract from a client's side, written from its description alone:
// what identifies an event, and the subject that it goes to.
import { createHash } from 'node:crypto';

export const urlHash = (event) =>
  createHash('sha256').update(event.canonical_url || event.article_url || event.content_url, 'utf8').digest('hex');

/** occurred_at in RFC 3339, UTC, without trailing zeros in the fraction. */
const instant = (text) =>
  text.replace(/\+00:00$/, 'Z').replace(/(\.\d*?)0*Z$/, '$1Z').replace('.Z', 'Z');

function computed(event, channel) {
  const parts = [event.service_name, event.stage, urlHash(event).slice(0, 8)];
  const { is_reclassification: again, model_version: model } = event.metadata ?? {};
  if (again === true && typeof model === 'string' && model !== '') parts.push(model);
  const at = instant(event.occurred_at);
  const named = typeof channel === 'string' && channel !== '';
  const escaped = named && channel.replaceAll('%', '%25').replaceAll(':', '%3A');
  return [...parts, named ? `${escaped}@${at}` : at].join(':');
}

/** The key that identifies the event: of a key that is the specification's, the computed one. */
export function key(event) {
  const own = event.idempotency_key;
  if (own && own !== computed(event)) return own;
  return computed(event, event.metadata?.channel);
}

export const messageID = (event) => `${key(event)}/${urlHash(event)}`;

export const subject = (event) => `events.${event.stage}.${urlHash(event).slice(0, 2)}`;
