/** Modules that are agents, on real threads: of each kind that Node can load, and each is run once. */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { createTeam } from '../../src/index.ts'
import { silent } from '../kit/team.ts'

const teamOf = (agent: { module: string; tools?: { module: string }[] }) =>
  createTeam({
    agents: [{ name: 'ann', ...agent }],
    orchestration: { strategy: 'sequential' },
    threads: { warmSpares: 0 },
    logger: silent,
  })

/** Notes in a file beside it that the module has run. */
const noted = (how: string) => `${how}.appendFileSync(new URL('ran.txt', import.meta.url), 'x')\n`
const esm = `import fs from 'node:fs'\nimport { defineAgent } from 'dramatis'\n${noted('fs')}`

const kinds: Record<string, { files: Record<string, string>; entry: string }> = {
  'a module': {
    entry: 'agent.mjs',
    files: { 'agent.mjs': `${esm}export default defineAgent({ receive: () => 'hi' })\n` },
  },
  'a module that awaits at its top level': {
    entry: 'agent.mjs',
    files: {
      'agent.mjs': `${esm}const word = await Promise.resolve('hi')\nexport default defineAgent({ receive: () => word })\n`,
    },
  },
  'a module that imports one that awaits': {
    entry: 'agent.mjs',
    files: {
      'agent.mjs':
        "import { defineAgent } from 'dramatis'\nimport { word } from './word.mjs'\nexport default defineAgent({ receive: () => word })\n",
      'word.mjs': `import fs from 'node:fs'\n${noted('fs')}export const word = await Promise.resolve('hi')\n`,
    },
  },
  'a CommonJS module': {
    entry: 'agent.cjs',
    files: {
      'agent.cjs': `const { defineAgent } = require('dramatis')
require('node:fs').appendFileSync(require('node:path').join(__dirname, 'ran.txt'), 'x')
module.exports = defineAgent({ receive: () => 'hi' })
`,
    },
  },
  'a module that gives another value to who requires it': {
    entry: 'agent.mjs',
    files: {
      'agent.mjs': `${esm}const other = 5
export { other as 'module.exports' }
export default defineAgent({ receive: () => 'hi' })
`,
    },
  },
}

for (const [kind, { files, entry }] of Object.entries(kinds))
  t.test(`${kind} is an agent, and has run once`, async (t) => {
    const folder = t.testdir(files)
    const team = teamOf({ module: join(folder, entry) })
    t.teardown(() => team.close())
    const result = await team.execute('hello')
    t.equal(result.finalOutput, 'hi', String(result.error))
    t.equal(readFileSync(join(folder, 'ran.txt'), 'utf8'), 'x')
  })

t.test('a module that throws has run once for each thread that tried', async (t) => {
  const folder = t.testdir({ 'agent.mjs': `${esm}throw new Error('no paper')\n` })
  const team = teamOf({ module: join(folder, 'agent.mjs') })
  t.teardown(() => team.close())
  await t.rejects(team.start(), { code: 'CONFIGURATION', message: /agent\.mjs:4:7: Error: no paper$/ })
  t.equal(readFileSync(join(folder, 'ran.txt'), 'utf8'), 'x')
})

/** Their code has run when Node refuses what they require, so they must not be imported after that. */
for (const [what, required] of Object.entries({
  'is no JavaScript': 'foo bar\n',
  'imports what is not there': "import { nothing } from 'node:fs'\n",
  'awaits at its top level': 'await 1\n',
}))
  for (const [kind, entry, load] of [
    [
      'a module',
      'agent.mjs',
      `${esm}import { createRequire } from 'node:module'\nconst require = createRequire(import.meta.url)\n`,
    ],
    [
      'a CommonJS module',
      'agent.js',
      "require('node:fs').appendFileSync(require('node:path').join(__dirname, 'ran.txt'), 'x')\n",
    ],
  ] as const)
    t.test(`${kind} that requires one that ${what} has run once, and its line is named`, async (t) => {
      const line = `${load}require('./other.mjs')`.split('\n').length
      const folder = t.testdir({
        [entry]: `${load}require('./other.mjs')\n`,
        'other.mjs': required,
        ...(entry === 'agent.js' && { 'package.json': '{}' }),
      })
      const team = teamOf({ module: join(folder, entry) })
      t.teardown(() => team.close())
      await t.rejects(team.start(), { code: 'CONFIGURATION', details: { line } })
      t.equal(readFileSync(join(folder, 'ran.txt'), 'utf8'), 'x')
    })

const thrown: Record<string, string> = {
  'an error whose code cannot be read':
    "throw Object.defineProperty(new Error('no paper'), 'code', { get() { throw new Error('other') } })\n",
  'a syntax error whose stack cannot be read':
    "throw Object.defineProperty(new SyntaxError('no paper'), 'stack', { get() { throw new Error('other') } })\n",
  'a syntax error whose stack is no text':
    "Error.prepareStackTrace = () => Symbol('stack')\nthrow new SyntaxError('no paper')\n",
}
for (const [what, code] of Object.entries(thrown))
  t.test(`a module that throws ${what} fails with that error`, async (t) => {
    const folder = t.testdir({ 'agent.mjs': code })
    const team = teamOf({ module: join(folder, 'agent.mjs') })
    t.teardown(() => team.close())
    await t.rejects(team.start(), { code: 'CONFIGURATION', message: /no paper$/ })
  })

t.test('a tool and what it imports may be what the module of its agent is importing', async (t) => {
  const folder = t.testdir({
    'agent.mjs':
      "import { defineAgent } from 'dramatis'\nvoid import('./tool.mjs')\nexport default defineAgent({ receive: () => 'hi' })\n",
    'tool.mjs': `import fs from 'node:fs'
import { defineTool } from 'dramatis'
import { z } from 'zod'
import './shared.mjs'
${noted('fs')}export default defineTool({ name: 'draw', description: 'Draws', input: z.object({}), run: () => 'drawn' })
`,
    'shared.mjs': `import fs from 'node:fs'\n${noted('fs')}`,
  })
  const team = teamOf({ module: join(folder, 'agent.mjs'), tools: [{ module: join(folder, 'tool.mjs') }] })
  t.teardown(() => team.close())
  const result = await team.execute('hello')
  t.equal(result.finalOutput, 'hi', String(result.error))
  t.equal(readFileSync(join(folder, 'ran.txt'), 'utf8'), 'xx')
})

t.test('a CommonJS tool may require a module that the next tool imports', async (t) => {
  const tool = (name: string) =>
    `defineTool({ name: '${name}', description: 'Draws', input: z.object({}), run: () => 'drawn' })\n`
  const folder = t.testdir({
    'agent.mjs': "import { defineAgent } from 'dramatis'\nexport default defineAgent({ receive: () => 'hi' })\n",
    'first.cjs': `const { defineTool } = require('dramatis')
const { z } = require('zod')
require('./shared.mjs')
module.exports = ${tool('first')}`,
    'second.mjs': `import { defineTool } from 'dramatis'
import { z } from 'zod'
import './shared.mjs'
import './first.cjs'
export default ${tool('second')}`,
    'shared.mjs': `import fs from 'node:fs'\nimport './other.mjs'\n${noted('fs')}`,
    'other.mjs': '',
  })
  const tools = ['first.cjs', 'second.mjs'].map((file) => ({ module: join(folder, file) }))
  const team = teamOf({ module: join(folder, 'agent.mjs'), tools })
  t.teardown(() => team.close())
  const result = await team.execute('hello')
  t.equal(result.finalOutput, 'hi', String(result.error))
  t.equal(readFileSync(join(folder, 'ran.txt'), 'utf8'), 'x')
})

t.test('a file that Node would not import is not an agent', async (t) => {
  const folder = t.testdir({ 'agent.foo': `${esm}export default defineAgent({ receive: () => 'hi' })\n` })
  const team = teamOf({ module: join(folder, 'agent.foo') })
  t.teardown(() => team.close())
  await t.rejects(team.start(), { code: 'CONFIGURATION', message: /Unknown file extension "\.foo"/ })
})

t.test('where no program may run, a module that is no JavaScript fails with what Node says', async (t) => {
  const folder = t.testdir({
    'main.mjs': `import { createTeam } from 'dramatis'
const team = createTeam({
  agents: [{ name: 'ann', module: new URL('agent.mjs', import.meta.url) }],
  orchestration: { strategy: 'sequential' },
})
console.log(await team.start().catch((error) => error.message))
await team.close()
`,
    'agent.mjs': 'const a = 1\nfoo bar\n',
  })
  const permission = process.allowedNodeEnvironmentFlags.has('--permission')
    ? '--permission'
    : '--experimental-permission'
  const args = [permission, '--allow-worker', '--allow-fs-read=*', join(folder, 'main.mjs')]
  const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' })
  t.match(stdout, /agent\.mjs: SyntaxError: Unexpected identifier/, stderr)
})

t.test('a thread that is ended while it imports its code ends nothing else', async (t) => {
  const parts = Array.from({ length: 300 }, (_, part) => `part-${part}.mjs`)
  const folder = t.testdir({
    ...Object.fromEntries(parts.map((part) => [part, 'export default () => 1\n'])),
    'agent.mjs': `${esm}${parts.map((part) => `import './${part}'\n`).join('')}export default defineAgent({ receive: () => 'hi' })\n`,
  })
  const program = fileURLToPath(new URL('../fixtures/team/ends-in-import.js', import.meta.url))
  const { stdout, stderr, signal } = spawnSync(process.execPath, [program, join(folder, 'agent.mjs'), '100'], {
    encoding: 'utf8',
  })
  t.same([stdout, signal], ['alive\n', null], stderr.slice(0, 500))
})
