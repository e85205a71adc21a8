// Build and development of the page. The built files are committed: users of Linkwise never need Node.
import type { Plugin } from 'vite'
import { defineConfig } from 'vitest/config'
import { fixtures } from './fixtures/server'

// The service inserts a <base> with the way up to /page/ for every address inside the page. In development it is absolute.
const absoluteBase: Plugin = {
  name: 'absolute-base',
  apply: 'serve',
  transformIndexHtml: (html) => html.replace('<head>', '<head><base href="/page/">'),
}

const token = process.env.LINKWISE_TOKEN
const service = {
  target: process.env.LINKWISE_URL ?? 'http://127.0.0.1:8080',
  secure: false,
  headers: (token ? { authorization: `Bearer ${token}` } : {}) as Record<string, string>,
}

export default defineConfig(({ command, mode }) => ({
  base: command === 'build' ? './' : '/page/',
  plugins: [absoluteBase, ...(mode === 'fixtures' ? [fixtures()] : [])],
  server: {
    port: 5173,
    ...(mode === 'fixtures' ? {} : { proxy: { '/v1': service } }),
  },
  build: {
    outDir: '../src/linkwise/serve/page_files',
    emptyOutDir: true,
    target: 'es2022',
    assetsInlineLimit: 0, // the Content-Security-Policy of the service allows no data: addresses
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
  },
  test: { include: ['tests/**/*.test.ts'] },
}))
