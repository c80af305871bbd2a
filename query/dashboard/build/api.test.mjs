import { readFile } from 'node:fs/promises';
import { expect, it } from 'vitest';
import { read, types, typesOf } from './api.mjs';

it('the types of the API are those of openapi.json; if not, run "npm run api"', async () => {
  expect(await readFile(types, 'utf8')).toBe(await typesOf(await read()));
});
