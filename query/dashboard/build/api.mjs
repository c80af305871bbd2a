// Writes openapi.json as a running server gives it, and the types of its documents:
//
//   npm run api -- http://127.0.0.1:8075
//
// Without an address it writes the types of the openapi.json that is there.
import { readFile, writeFile } from 'node:fs/promises';
import openapiTS, { astToString } from 'openapi-typescript';

const file = (name) => new URL(`../${name}`, import.meta.url);
export const description = file('openapi.json');
export const types = file('src/shared/api/schema.ts');

/** What the server gives, without what differs from one installation to the next. */
export function stable(document) {
  return { ...document, info: { ...document.info, version: '' } };
}

/** The types of the description that is there, as text. */
export async function typesOf(document) {
  return `/* Written by "npm run api" from openapi.json. */\n\n${astToString(await openapiTS(document))}`;
}

export async function read() {
  return JSON.parse(await readFile(description, 'utf8'));
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const [address] = process.argv.slice(2);
  if (address) {
    const answer = await fetch(new URL('/openapi.json', address));
    await writeFile(description, `${JSON.stringify(stable(await answer.json()), null, 1)}\n`);
  }
  await writeFile(types, await typesOf(await read()));
}
