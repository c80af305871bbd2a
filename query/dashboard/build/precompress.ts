import { readdir, readFile, writeFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Plugin } from 'vite';

const compressible = new Set(['.html', '.js', '.css', '.svg', '.json']);
const smallest = 1024;

/** Writes a .gz beside every text file of the build; the Go handler serves it to browsers that accept it. */
export function precompress(): Plugin {
  let folder = '';
  return {
    name: 'millrace:precompress',
    apply: 'build',
    configResolved: (config) => {
      folder = join(config.root, config.build.outDir);
    },
    closeBundle: async () => {
      const names = await readdir(folder, { recursive: true });
      await Promise.all(
        names.filter((name) => compressible.has(extname(name))).map((name) => compress(join(folder, name))),
      );
    },
  };
}

async function compress(path: string): Promise<void> {
  const body = await readFile(path);
  if (body.length < smallest) return;
  await writeFile(`${path}.gz`, await promisify(gzip)(body, { level: 9 }));
}
