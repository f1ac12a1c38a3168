/** The bundle of the published package has every entry that users can import, and the command. */
import { readFileSync } from 'node:fs'
import t from 'tap'

t.test('each subpath of the package is an entry of its bundle', async (t) => {
  const { exports, bin } = JSON.parse(readFileSync('package.json', 'utf8')) as {
    exports: Record<string, { default: string } | string>
    bin: Record<string, string>
  }
  const [, table = ''] = /const entries = \{\n(.*?)\n\}/s.exec(readFileSync('scripts/bundle-host.mjs', 'utf8')) ?? []
  const bundled = [...table.matchAll(/^ {2}'?[\w-]+'?: '([\w/-]+)',$/gm)].map(([, module]) => `./dist/src/${module}.js`)
  const entries = Object.values(exports).flatMap((entry) => (typeof entry === 'string' ? [] : [entry.default]))
  t.same(new Set(bundled), new Set([...entries, ...Object.values(bin), './dist/src/service/rehearsal/thread-entry.js']))
})
