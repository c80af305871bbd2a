import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { Plugin } from 'vite';

const source = fileURLToPath(new URL('./sw.js', import.meta.url));

/** Writes sw.js, the worker that keeps the page, with the list of what to keep: all but the API reference. */
export function offline(): Plugin {
  return {
    name: 'millrace:offline',
    apply: 'build',
    async generateBundle(_, bundle) {
      const files = ['./', 'favicon.svg', ...Object.keys(bundle).filter(isKept).sort()];
      const version = createHash('sha256').update(files.join()).digest('hex').slice(0, 12);
      const worker = await readFile(source, 'utf8');
      this.emitFile({
        type: 'asset',
        fileName: 'sw.js',
        source: worker.replace('__FILES__', JSON.stringify(files)).replace('__VERSION__', JSON.stringify(version)),
      });
    },
  };
}

/** Of fonts only the one that the page is written in; the API reference is as large as all the rest. */
function isKept(name: string): boolean {
  if (!name.startsWith('assets/') || name.startsWith('assets/docs-')) return false;
  return !name.endsWith('.woff2') || name.includes('inter-latin-wght');
}
