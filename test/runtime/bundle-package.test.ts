import { symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import { loadable } from '../../src/runtime/threads/bundle.ts'
import { inThread, project, refusal, WHAT } from './bundle-helpers.ts'

const CONDITIONS = JSON.stringify({
  exports: {
    '.': { require: './r.cjs', import: './i.mjs' },
    './nested': { browser: './b.js', node: { require: './r.cjs', default: './n.mjs' } },
    './node': './a.js',
  },
})
const PATTERNS = JSON.stringify({
  exports: { './x/*': './*.js', './x/special/*': './c.js', './x/hidden/*': null, './gone': './gone.js' },
})

t.test('a package is found as `import` finds it', async (t) => {
  const folder = project(t, {
    'package.json': '{ "name": "project", "exports": { "./own": "./own.js" } }',
    'own.js': '',
    node_modules: {
      bare: { 'index.js': '', 'file.js': '' },
      main: { 'package.json': '{ "main": "./lib/a" }', lib: { 'a.js': '' } },
      folder: { 'package.json': '{ "main": "lib" }', lib: { 'index.js': '' } },
      '@scope': { conditions: { 'package.json': CONDITIONS, 'i.mjs': '', 'n.mjs': '', 'r.cjs': '' } },
      patterns: { 'package.json': PATTERNS, 'a.js': '', 'b.js': '', 'c.js': '' },
      list: { 'package.json': '{ "exports": [{ "browser": "./b.js" }, "./a.js"] }', 'a.js': '' },
    },
    inner: {},
  })
  inFolder(t, join(folder, 'inner'))
  for (const [specifier, path] of [
    ['bare', 'bare/index.js'],
    ['bare/file.js', 'bare/file.js'],
    ['main', 'main/lib/a.js'],
    ['folder', 'folder/lib/index.js'],
    ['@scope/conditions', '@scope/conditions/i.mjs'],
    ['@scope/conditions/nested', '@scope/conditions/n.mjs'],
    ['patterns/x/a', 'patterns/a.js'],
    ['patterns/x/special/b', 'patterns/c.js'],
    ['list', 'list/a.js'],
  ] as const) {
    const { href } = pathToFileURL(join(folder, 'node_modules', path))
    t.strictSame(await loadable(specifier, WHAT), { href, bundled: false, shown: specifier })
  }
  t.equal((await loadable('project/own', WHAT)).href, pathToFileURL(join(folder, 'own.js')).href)
})

t.test('a package of TypeScript, linked from elsewhere, is bundled', async (t) => {
  const folder = project(t, {
    packages: {
      critic: { 'package.json': '{ "exports": "./src.ts" }', 'src.ts': 'export default import.meta.filename' },
    },
    node_modules: {},
  })
  await symlink(join(folder, 'packages', 'critic'), join(folder, 'node_modules', 'critic'))
  inFolder(t, folder)
  const { href, bundled, shown } = await loadable('critic', WHAT)
  t.strictSame([bundled, shown], [true, 'critic'])
  t.equal(await inThread(href), join(folder, 'packages', 'critic', 'src.ts'))
})

t.test('a package that has no such code is refused', async (t) => {
  const folder = project(t, {
    node_modules: {
      patterns: { 'package.json': PATTERNS },
      empty: { 'package.json': '{' },
      absolute: { 'package.json': '{ "exports": "/etc/a.js" }' },
      forbidden: { 'package.json': '{ "exports": [null, "./a.js"] }', 'a.js': '' },
    },
  })
  inFolder(t, folder)
  for (const [specifier, says] of [
    ['unheard-of', `no node_modules from ${folder} upwards has the package "unheard-of". Install it there, or name`],
    ['patterns/gone', 'exports ./gone.js, which is not in'],
    ['patterns/x/hidden/a', 'does not export "./x/hidden/a" to import.'],
    ['patterns/y', 'does not export "./y" to import.'],
    ['patterns', 'does not export "." to import.'],
    ['empty', 'has no file for "empty".'],
    ['empty/a.js', 'has no file for "empty/a.js".'],
    ['absolute', 'does not export "."'],
    ['forbidden', 'does not export "."'],
  ] as const) {
    const error = await refusal(loadable(specifier, WHAT))
    t.ok(error.message.startsWith(`${WHAT}: `) && error.message.includes(says), error.message)
    t.equal(error.details.specifier, specifier)
  }
})

function inFolder(t: { teardown(back: () => void): void }, folder: string): void {
  const before = process.cwd()
  process.chdir(folder)
  t.teardown(() => process.chdir(before))
}
