import { fileURLToPath, URL } from 'node:url';
import vue from '@vitejs/plugin-vue';
import { defineConfig } from 'vitest/config';
import { offline } from './build/offline.ts';
import { precompress } from './build/precompress.ts';

const server = process.env.MILLRACE_HTTP_ADDR ?? '127.0.0.1:8075';

const page = (name: string) => fileURLToPath(new URL(name, import.meta.url));

export default defineConfig({
  // Every address in the built pages is relative, so that they work behind any path prefix.
  base: './',
  plugins: [
    vue({ template: { compilerOptions: { isCustomElement: (tag) => tag === 'rapi-doc' } } }),
    offline(),
    precompress(),
  ],
  build: {
    target: 'es2022',
    // Inlined assets are data: addresses, which the Content-Security-Policy refuses.
    assetsInlineLimit: 0,
    // The API reference is one library of 860 kB; it loads on its own page only.
    chunkSizeWarningLimit: 900,
    rolldownOptions: {
      input: { index: page('index.html'), docs: page('docs.html') },
      // What every page needs comes in few files; the API reference needs but the first of them.
      output: {
        codeSplitting: {
          groups: [
            { name: 'vue', test: /node_modules[\\/](@vue|vue|vue-router)[\\/]/ },
            { name: 'parts', test: /node_modules[\\/](@tanstack|reka-ui|@floating-ui|@vueuse|@internationalized|openapi-fetch)[\\/]/ },
            { name: 'shared', test: /src[\\/]shared[\\/](?!api[\\/]access|ui[\\/]theme|styles)/, minShareCount: 3 },
          ],
        },
      },
    },
  },
  server: {
    proxy: {
      '/api': { target: `http://${server}`, ws: true },
      '^/(health|ready|metrics|openapi\\.json)$': { target: `http://${server}` },
    },
  },
  test: {
    include: ['src/**/*.test.ts', 'build/**/*.test.mjs'],
    restoreMocks: true,
    // To load a document and the page's modules anew for each file took most of the time of the tests.
    pool: 'threads',
    isolate: false,
    testTimeout: 60_000, // a machine that does other work as well is slow
  },
});
