import { fileURLToPath, URL } from 'node:url';
import vue from '@vitejs/plugin-vue';
import { defineConfig } from 'vitest/config';
import { precompress } from './build/precompress.ts';

const server = process.env.MILLRACE_HTTP_ADDR ?? '127.0.0.1:8075';

const page = (name: string) => fileURLToPath(new URL(name, import.meta.url));

export default defineConfig({
  // Every address in the built pages is relative, so that they work behind any path prefix.
  base: './',
  plugins: [
    vue({ template: { compilerOptions: { isCustomElement: (tag) => tag === 'rapi-doc' } } }),
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
    },
  },
  server: {
    proxy: {
      '/api': { target: `http://${server}`, ws: true },
      '^/(health|ready|metrics|openapi\\.json)$': { target: `http://${server}` },
    },
  },
  test: {
    include: ['src/**/*.test.ts'],
    restoreMocks: true,
  },
});
