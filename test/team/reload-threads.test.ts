/** Modules that are agents, on real threads, and files that change while their agents run. */

import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { createTeam } from '../../src/index.ts'
import { scriptedModel } from '../../src/testing.ts'
import { howMany } from '../how-many.ts'
import { pluck } from '../kit/lists.ts'
import { ask, numbers, outcomeOf, silent } from '../kit/team.ts'
import { watchThreads } from '../toolbox/desk.ts'
import { folderOf, type HostedTeam, incarnationsOf } from './reloading.ts'

// Modules that are agents, on real threads: of each kind that Node can load, and each is run once.

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
  const { stdout, stderr, signal } = spawnSync(
    process.execPath,
    [program, join(folder, 'agent.mjs'), `${howMany(30, 100)}`],
    {
      encoding: 'utf8',
    },
  )
  t.same([stdout, signal], ['alive\n', null], stderr.slice(0, 500))
})

// `team.reloadAgent` on real threads: files that change while their agents run.

/** Code that says which version it is. */
const agent = (version: string, more = '') => `
import { defineAgent } from 'dramatis'
export default defineAgent({
  initialState: { handled: 0 },
  async receive({ content }, context) {
    context.setState((state) => { state.handled += 1 })
    if (content === 'wait') await context.request('gate', 'wait')
    if (content === 'die' && '${version}' === 'one') {
      await context.request('gate', 'wait')
      process.exit(3)
    }
    if (content === 'crash') process.exit(3)
    return '${version} ' + context.state.handled
  },
  ${more}
})`

/** Answers who waits at it when somebody else opens it. */
const GATE = `
import { defineAgent } from 'dramatis'
let open, reached
const opened = new Promise((resolve) => { open = resolve })
const somebody = new Promise((resolve) => { reached = resolve })
export default defineAgent({
  async receive({ content }) {
    if (content === 'open') open()
    if (content === 'reached') await somebody
    if (content === 'wait') {
      reached()
      await opened
    }
    return content
  },
})`
const gate = { file: 'gate.js', concurrency: 8 }

/** Resolves when the new code is loaded, and the old one gets no message any more. */
async function draining({ host }: HostedTeam, name: string): Promise<void> {
  while (!host.directory.agent(name)?.incarnation?.draining) await turn()
}

for (const ending of ['js', 'ts'])
  t.test(`.${ending}: the changed file is what answers after the reload, with the state of before`, async (t) => {
    const file = `worker.${ending}`
    const { team: start, write } = folderOf(t, { [file]: agent('one') })
    const team = start({ worker: { file } })
    const lives = incarnationsOf(team)
    t.equal(await ask(team, 'worker'), 'one 1')
    write(file, agent('two'))
    await team.reloadAgent('worker')
    t.equal(await ask(team, 'worker'), 'two 2')
    await t.rejects(ask(team, 'worker', 'crash'))
    t.match(await ask(team, 'worker'), /^two /, 'as does its restart')
    t.equal(lives[0], 'agent.reloaded worker')
  })

for (const ending of ['js', 'ts'])
  t.test(`.${ending}: a module that the agent imports has changed`, async (t) => {
    const file = `worker.${ending}`
    const words = (text: string) => `export const words = '${text}'`
    const { team: start, write } = folderOf(t, {
      [file]: `import { words } from './lib/words.${ending}'
import { defineAgent } from 'dramatis'
export default defineAgent({ receive: () => words })`,
      lib: { [`words.${ending}`]: words('old words') },
    })
    const team = start({ worker: { file } })
    t.equal(await ask(team, 'worker'), 'old words')
    write(`lib/words.${ending}`, words('new words'))
    await team.reloadAgent('worker')
    t.equal(await ask(team, 'worker'), 'new words')
  })

t.test('a turn that is open ends in the old code; messages of meanwhile are for the new, in order', async (t) => {
  const { team: start, write } = folderOf(t, { 'worker.js': agent('one'), 'gate.js': GATE })
  const team = start({ worker: { file: 'worker.js' }, gate })
  const slow = ask(team, 'worker', 'wait')
  await ask(team, 'gate', 'reached')
  write('worker.js', agent('two'))
  const reloaded = team.reloadAgent('worker')
  const reload = outcomeOf(reloaded)
  await draining(team, 'worker')
  const later = Promise.all(numbers(5).map(() => ask(team, 'worker')))
  t.notOk(reload.settled)
  await ask(team, 'gate', 'open')
  t.equal(await slow, 'one 1')
  t.strictSame(await later, ['two 2', 'two 3', 'two 4', 'two 5', 'two 6'])
  await reloaded
})

t.test('1,000 messages while six reloads happen: each is handled once, in order', async (t) => {
  const notes = (version: number) => `
import { defineAgent } from 'dramatis'
export default defineAgent({
  initialState: { handled: [], by: [] },
  receive({ content }, context) {
    if (content === 'list') return { structuredData: context.state }
    context.setState(({ handled, by }) => { handled.push(content); by.push(${version}) })
    return ''
  },
})`
  const { team: start, write } = folderOf(t, { 'worker.js': notes(0) })
  const team = start({ worker: { file: 'worker.js' } })
  await team.start()
  const sent: Promise<unknown>[] = []
  const reloads: Promise<void>[] = []
  for (const content of numbers(1_000)) {
    sent.push(team.sendMessage({ recipient: 'worker', content }))
    if (Number(content) % 10 === 0) await sent.at(-1)
    if (Number(content) % 180 !== 90) continue
    await reloads.at(-1)
    write('worker.js', notes(reloads.length + 1))
    reloads.push(team.reloadAgent('worker'))
  }
  await Promise.all([...sent, ...reloads])
  const list = await team.sendMessage({ recipient: 'worker', content: 'list', requiresResponse: true })
  const { handled, by } = list!.structuredData as { handled: string[]; by: number[] }
  t.strictSame(handled, numbers(1_000))
  t.strictSame(
    by,
    [...by].sort((a, b) => a - b),
  )
  t.equal(reloads.length, 6)
  t.ok(new Set(by).size > 3, `several versions were at work: ${[...new Set(by)]}`)
})

const BROKEN: [string, string, RegExp][] = [
  ['is no JavaScript', 'export default {{', /worker\.js:1:17/],
  ['exports no agent', 'export default 7', /has no agent as its default export: .*worker\.js/],
  [
    'throws when it is imported',
    "throw new Error('at import')",
    /throws when it is imported: .*worker\.js:1.*at import/,
  ],
  ['imports what there is not', "import './nowhere.js'", /imports what was not found.*worker\.js/],
  [
    'throws in its start hook',
    agent('two', "start() { throw new Error('no network') }"),
    /from .*worker\.js.*no network/,
  ],
  ['does not come to the end of its start', agent('two', 'start: () => new Promise(() => {}),'), /within 3000 ms/],
  ['ends its thread when it is imported', 'process.exit(4)', /from .*worker\.js.*exit code 4/],
  ['loads without an end', 'for (;;);', /within 3000 ms/],
]
t.test('code that does not start keeps the old, and is no crash', async (t) => {
  const { team: start, write } = folderOf(t, { 'worker.js': agent('one') })
  const team = start({ worker: { file: 'worker.js', limits: { turnTimeoutMs: 3_000 } } })
  const lives = incarnationsOf(team)
  await team.start()
  for (const [at, [what, text, message]] of BROKEN.entries()) {
    write('worker.js', text)
    await t.rejects(
      team.reloadAgent('worker'),
      { code: /CONFIGURATION|START_FAILED/, message, details: { agent: 'worker' } },
      what,
    )
    t.equal(await ask(team, 'worker'), `one ${at + 1}`, what)
  }
  t.strictSame(lives, [])
  write('worker.js', agent('two'))
  await team.reloadAgent('worker')
  t.match(await ask(team, 'worker'), /^two/)
})

t.test('the old code dies in its last turn: the new one takes over and does it again', async (t) => {
  const { team: start, write } = folderOf(t, { 'worker.js': agent('one'), 'gate.js': GATE })
  const team = start({ worker: { file: 'worker.js' }, gate })
  const lives = incarnationsOf(team)
  const fatal = ask(team, 'worker', 'die')
  await ask(team, 'gate', 'reached')
  write('worker.js', agent('two'))
  const reload = team.reloadAgent('worker')
  await draining(team, 'worker')
  await ask(team, 'gate', 'open')
  t.equal(await fatal, 'two 1')
  await reload
  t.strictSame(lives, ['agent.crashed worker', 'agent.reloaded worker'])
})

t.test('a stop hook of the old code that ends its thread is no crash', async (t) => {
  const { team: start, write } = folderOf(t, { 'worker.js': agent('one', 'stop: () => process.exit(5),') })
  const team = start({ worker: { file: 'worker.js' } }, { supervision: { maxRestarts: 0 } })
  const lives = incarnationsOf(team)
  await team.start()
  write('worker.js', agent('two'))
  await team.reloadAgent('worker')
  t.equal(await ask(team, 'worker'), 'two 1')
  t.strictSame(lives, ['agent.reloaded worker'])
})

t.test('a turn without an end: the reload gives up, and the old code goes on', async (t) => {
  const { team: start, write } = folderOf(t, { 'worker.js': agent('one'), 'gate.js': GATE })
  const team = start({ worker: { file: 'worker.js' }, gate })
  const slow = ask(team, 'worker', 'wait')
  await ask(team, 'gate', 'reached')
  write('worker.js', agent('two'))
  await t.rejects(team.reloadAgent('worker', { timeoutMs: 50 }), {
    code: 'TURN_TIMEOUT',
    message:
      /^Agent "worker" was not reloaded from .*worker\.js and keeps its old code: its turn on message \S+ from "\$user"/,
  })
  await ask(team, 'gate', 'open')
  t.equal(await slow, 'one 1')
  t.equal(await ask(team, 'worker'), 'one 2')
  await team.reloadAgent('worker')
  t.equal(await ask(team, 'worker'), 'two 3')
})

t.test('all instances have the new code', async (t) => {
  const text = (version: string) => `
import { defineAgent } from 'dramatis'
import { threadId } from 'node:worker_threads'
export default defineAgent({ receive: () => '${version} ' + threadId })`
  const { team: start, write } = folderOf(t, { 'worker.js': text('one') })
  const team = start({ worker: { file: 'worker.js', instances: 3 } })
  await team.start()
  write('worker.js', text('two'))
  await team.reloadAgent('worker')
  const answers = await Promise.all(numbers(100).map(() => ask(team, 'worker')))
  t.strictSame([...new Set(answers.map((answer) => answer.split(' ')[0]))], ['two'])
})

t.test('an agent that waits to take over goes with its team', async (t) => {
  const { team: start } = folderOf(t, { 'worker.js': agent('one'), 'gate.js': GATE })
  const team = start({ worker: { file: 'worker.js' }, gate }, { supervision: { stopGraceMs: 10 } })
  const alive = watchThreads(t)
  const slow = outcomeOf(ask(team, 'worker', 'wait'))
  await ask(team, 'gate', 'reached')
  const reload = outcomeOf(team.reloadAgent('worker'))
  await draining(team, 'worker')
  await team.close()
  t.ok(reload.settled)
  t.ok(slow.settled)
  t.equal(alive.size, 0)
})

t.test('the tools of a model agent are loaded again with their modules', async (t) => {
  const tool = (answer: string) => `
import { defineTool } from 'dramatis'
import { z } from 'zod'
export const tell = defineTool({
  name: 'tell',
  description: 'tells',
  input: z.object({}),
  readOnly: true,
  run: () => '${answer}',
})`
  const { module, write } = folderOf(t, { 'tool.js': tool('old') })
  const turns = [0, 1].flatMap(() => [{ toolCall: { name: 'tell', input: {} } }, { reply: 'told' }])
  const model = scriptedModel(turns)
  const team = createTeam({
    agents: [{ name: 'player', tools: [{ module: module('tool.js'), export: 'tell' }] }],
    models: { default: model },
    orchestration: { strategy: 'sequential' },
    logger: silent,
  })
  t.teardown(() => team.close())
  await ask(team, 'player')
  write('tool.js', tool('new'))
  await team.reloadAgent('player')
  await ask(team, 'player')
  t.match(pluck(model.calls, 'prompt'), ['go', /old/, 'go', /new/])
})
