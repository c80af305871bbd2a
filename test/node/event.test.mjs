// Checks this client against the vectors that every client can use.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { messageID, subject, urlHash } from './event.mjs';

const file = await readFile(new URL('../../schemas/event/testdata/vectors.json', import.meta.url), 'utf8');
const valid = JSON.parse(file).vectors.filter((v) => v.valid);

test('hash, message id and subject equal the vectors', () => {
  assert.ok(valid.length >= 25, `only ${valid.length} vectors of valid events`);
  for (const v of valid) {
    const event = JSON.parse(v.event);
    assert.equal(urlHash(event), v.url_hash, v.name);
    assert.equal(messageID(event), v.message_id, v.name);
    assert.equal(subject(event), v.subject, v.name);
    const identity = createHash('sha256').update(messageID(event), 'utf8').digest('hex').slice(0, 32);
    assert.equal(identity, v.identity, v.name);
  }
});
