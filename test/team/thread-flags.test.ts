/** Threads start as the process did: with what it preloads, its conditions and experiments, and without its debugger. */
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { flagsOf } from '../../src/shared/environment.ts'

t.test('threads are given the flags that a worker inherits, from the command line and from NODE_OPTIONS', async (t) => {
  for (const [args, nodeOptions, flags] of [
    [[], '', []],
    [
      ['--allow-fs-read', '/a b', '--allow-fs-write=/c', '-e', '1'],
      '',
      ['--allow-fs-read', '/a b', '--allow-fs-write=/c'],
    ],
    [[], '"--allow-fs-read=/a b\\"c" --allow-fs-write /d', ['--allow-fs-read=/a b"c', '--allow-fs-write', '/d']],
    [
      ['-r', './b.cjs', '--import=a, b'],
      '--require ./a.cjs',
      ['--require', './a.cjs', '-r', './b.cjs', '--import=a, b'],
    ],
    [['-C', 'one', '--conditions=two'], '', ['-C', 'one', '--conditions=two']],
    [
      ['--experimental-loader', './l.mjs', '--experimental-vm-modules'],
      '',
      ['--experimental-loader', './l.mjs', '--experimental-vm-modules'],
    ],
    [
      ['--enable-source-maps', '--no-warnings', '--preserve-symlinks'],
      '',
      ['--enable-source-maps', '--no-warnings', '--preserve-symlinks'],
    ],
    [['--inspect', '--inspect-brk=0', '--inspect-port=1', '--debug-port', '1'], '--inspect-wait', []],
    [['--max-old-space-size=100', '--expose-gc', '--stack-size=900', '--title=x', '--v8-pool-size=2'], '--jitless', []],
    [
      ['--env-file=.env', '--env-file-if-exists', '.env', '--test', '--watch', '-pe', '1', '--input-type=module'],
      '',
      [],
    ],
  ] as const)
    t.strictSame(flagsOf(args, nodeOptions), flags)
})

const program = fileURLToPath(new URL('../fixtures/team/shows-flags.js', import.meta.url))

/** Runs the program with flags, and returns what an agent and an isolated tool see in their threads. */
function seen(folder: string, args: readonly string[], nodeOptions = ''): unknown {
  const env = { ...process.env, NODE_OPTIONS: nodeOptions }
  const { stdout, stderr } = spawnSync(process.execPath, [...args, program], { cwd: folder, env, encoding: 'utf8' })
  return stdout.startsWith('[') ? JSON.parse(stdout) : `${stdout}${stderr}`
}

const files = {
  'required.cjs': 'globalThis.preloaded = [...(globalThis.preloaded ?? []), "required"]\n',
  'imported.mjs': 'await null; globalThis.preloaded = [...(globalThis.preloaded ?? []), "imported"]\n',
  'loader.mjs': `export async function load(url, context, next) {
  const loaded = await next(url, context)
  if (!url.includes('shows-flags')) return loaded
  return { ...loaded, source: String(loaded.source).replace('as it is', 'as the loader says') }
}
`,
  '.env': 'FROM_FILE=1\n',
  node_modules: {
    conditional: {
      'package.json': '{ "exports": { "special": "./special.cjs", "default": "./plain.cjs" } }',
      'special.cjs': 'module.exports = "special"\n',
      'plain.cjs': 'module.exports = "plain"\n',
    },
  },
}
const plain = { preloaded: [], text: 'as it is', conditional: 'plain', env: [] }

t.test('agents and isolated tools have what the process preloads, its loaders and its conditions', async (t) => {
  const folder = t.testdir(files)
  for (const [args, nodeOptions, change] of [
    [[], '', {}],
    [['--import', './imported.mjs'], '', { preloaded: ['imported'] }],
    [['-r', './required.cjs'], '--import=./imported.mjs', { preloaded: ['required', 'imported'] }],
    [['--experimental-loader', './loader.mjs'], '', { text: 'as the loader says' }],
    [['--conditions', 'special'], '', { conditional: 'special' }],
    [['--inspect=0', '--env-file=.env', '--expose-gc', '--max-old-space-size=500'], '--stack-trace-limit=20', {}],
  ] as const) {
    const expected = { ...plain, ...change }
    t.strictSame(seen(folder, args, nodeOptions), [expected, expected], [...args, nodeOptions].join(' '))
  }
})

t.test('a preload that throws is a start that failed, with what it threw', async (t) => {
  const folder = t.testdir({ 'thread.cjs': 'if (!require("worker_threads").isMainThread) throw new Error("not here")' })
  t.match(seen(folder, ['--require', './thread.cjs']), /failed twice while it started.*not here/)
})
