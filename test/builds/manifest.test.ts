/** package.json: what older resolvers and `require` find is what `import` finds. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { run, stranger } from './stranger.ts'

interface Manifest {
  main: string
  types: string
  typesVersions: { '*': Record<string, string[]> }
  exports: Record<string, string | { types: string; default: string }>
}

const { main, types, typesVersions, exports }: Manifest = JSON.parse(readFileSync('package.json', 'utf8'))
const subpaths = Object.entries(exports).flatMap(([path, entry]) =>
  typeof entry === 'string' ? [] : [{ path, entry }],
)

const TYPES_ALONE = ['dramatis/telemetry']

t.test('a compiler that does not read "exports" finds the types of each subpath', async (t) => {
  const found = Object.entries(typesVersions['*']).map(([name, files]) => [`./${name}`, files])
  t.strictSame(Object.fromEntries([['.', [types]], ...found]), Object.fromEntries(subpaths.map(typesOf)))
  t.equal(main, subpaths.find(({ path }) => path === '.')?.entry.default)
})

t.test('require says what to do where Node cannot require ES modules', async (t) => {
  const folder = stranger(t, { 'main.js': "require('dramatis')" }, 'commonjs')
  t.throws(() => run('--no-experimental-require-module', join(folder, 'main.js')), {
    message:
      /dramatis is an ES module.* Node can from 20\.19 and 22\.12 on\. Else write: const \{ createTeam \} = await import/,
  })
})

t.test('require gives each subpath, where Node can require ES modules', async (t) => {
  const names = subpaths.map(({ path }) => path.replace(/^\./, 'dramatis'))
  const folder = stranger(
    t,
    {
      'main.js': `for (const name of ${JSON.stringify(names)}) {
        const exported = Object.keys(require(name))
        if ((exported.length === 0) !== ${JSON.stringify(TYPES_ALONE)}.includes(name)) throw new Error(name)
      }
      const { createTeam } = require('dramatis')
      const team = createTeam({ agents: [{ name: 'ann', module: require.resolve('./ann.js') }], orchestration: { strategy: 'sequential' } })
      team.execute('go').then(({ finalOutput }) => (console.log(finalOutput), team.close()))`,
      'ann.js': `const { AgentFailedError, defineAgent } = require('dramatis')
      module.exports = defineAgent({ receive: () => 'done, ' + AgentFailedError.name })`,
    },
    'commonjs',
  )
  t.equal(run(join(folder, 'main.js')), 'done, AgentFailedError\n')
})

function typesOf({ path, entry }: (typeof subpaths)[number]): [string, string[]] {
  return [path, [entry.types]]
}
