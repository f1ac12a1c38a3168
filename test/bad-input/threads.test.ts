/** What only a thread of its own can do wrong, and modules that cannot be agents. */

import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import * as dramatis from '../../src/index.ts'
import {
  AgentCrashedError,
  AgentFailedError,
  type AgentRole,
  type ConfigurationError,
  createTeam,
  DramatisError,
  defineAgent,
  type MultiAgentPatternOptions,
  TaskRefusedError,
  TurnTimeoutError,
  UnknownAgentError,
} from '../../src/index.ts'
import { testTeam } from '../../src/testing.ts'
import { refusalOf, type Test } from './helpers.ts'

// What only a thread of its own can do wrong, and what has to survive the way through one.

const module = new URL('../fixtures/bad-input/agent.js', import.meta.url)

function threads(t: Test, role: Partial<AgentRole> = {}) {
  const lines: { agent?: string; text: string }[] = []
  const note = (fields: object, text: string) => void lines.push({ ...fields, text })
  const silent = () => {}
  const team = createTeam({
    agents: [
      { name: 'ann', module, ...role },
      { name: 'bob', module },
    ],
    orchestration: { strategy: 'sequential', agentOrder: ['ann'] },
    threads: { warmSpares: 0 },
    supervision: { backoff: { baseMs: 0, capMs: 0 } },
    logger: { debug: silent, info: silent, warn: note, error: note },
  })
  t.teardown(() => team.close())
  return {
    team,
    lines,
    async failure(query: string): Promise<DramatisError> {
      const result = await team.execute(query)
      if (result.success) throw new Error(`it succeeded with "${result.finalOutput}"`)
      return result.error
    },
    answer: async (query: string) => (await team.execute(query)).finalOutput,
  }
}

t.test('an error of the library that a thread throws is of its class in the host, with its details', async (t) => {
  const { failure, answer } = threads(t)
  const error = await failure('throw a refusal')
  t.ok(error instanceof TaskRefusedError && error instanceof DramatisError && error instanceof Error)
  t.match(error, { name: 'TaskRefusedError', code: 'TASK_REFUSED', message: 'I am busy.', details: { until: 'noon' } })
  t.equal(await answer('hi'), 'hi, turn 1', 'the failed turn left no state')
})

t.test('what else it throws is its failure, with a stack into its source', async (t) => {
  const { failure, answer } = threads(t)
  const error = await failure('throw')
  t.ok(error instanceof AgentFailedError)
  t.equal(error.message, 'Agent "ann" failed in its turn for a request from "$orchestrator": Error: no paper')
  t.same(error.details, { agent: 'ann', cause: 'Error: no paper' })
  t.match((error.cause as Error).stack, /^Error: no paper\n.*fixtures\/bad-input\/agent\.js:\d+/s)
  t.match((await failure('throw a string')).message, /: no paper$/)
  const unknown = await failure('throw what was never answered')
  t.match(unknown, { code: 'AGENT_FAILED', details: { agent: 'ann', cause: { code: 'UNKNOWN_AGENT' } } })
  t.equal(await answer('hi'), 'hi, turn 1')
})

t.test("in a thread, errors are instances of what its module imports from 'dramatis'", async (t) => {
  const { team, answer } = threads(t)
  t.equal(await answer('ask bob in vain'), 'true,true,true')
  t.equal(await answer('ask nobody'), 'true')
  t.match(team.deadLetters.list(), [{ reason: 'unknown_agent', message: { sender: 'ann', recipient: 'nobody' } }])
  t.ok(team.deadLetters.list()[0]?.errors[0] instanceof UnknownAgentError)
})

t.test("a thread's 'dramatis' has every name that the host's has, so that any import links", async (t) => {
  const { team } = threads(t)
  const result = await team.execute('exports')
  t.same(result.agentOutputs.ann?.[0]?.structuredData, Object.keys(dramatis).sort())
})

t.test('what belongs to the host says so in a thread', async (t) => {
  const { team } = threads(t)
  const result = await team.execute('host functions')
  const names = ['createTeam', 'defineTeam', 'loadTeam', 'MultiAgentPattern', 'sequenceDiagram']
  t.same(
    result.agentOutputs.ann?.[0]?.structuredData,
    names.map((name) => `CONFIGURATION ${name}`),
  )
})

t.test('a handler that calls process.exit costs its thread; its message is tried again, then poison', async (t) => {
  const { team, failure, answer } = threads(t)
  t.equal(await answer('exit once'), 'attempt 2')
  const error = await failure('exit')
  t.ok(error instanceof AgentCrashedError)
  t.match(error.message, /^Agent "ann" died 2 times on this message, in the same way; .*exit code 3 \(process\.exit/)
  t.match(error.details, { agent: 'ann', attempts: 2, deaths: [{ epoch: 2 }, { epoch: 3 }] })
  t.match(team.deadLetters.list(), [{ reason: 'poison', message: { recipient: 'ann', content: 'exit' } }])
  t.equal(await answer('hi'), 'hi, turn 2', 'state is kept over deaths')
})

t.test('an error outside of any turn costs the thread too, and the message that was under way', async (t) => {
  for (const [query, says] of [
    ['throw later', /Error: too late/],
    ['reject', /nobody hears this/],
  ] as const) {
    const { team, failure, answer } = threads(t)
    const error = await failure(query)
    t.equal(error.code, 'AGENT_CRASHED')
    t.match(error.message, says)
    t.match(team.deadLetters.list(), [{ reason: 'poison', message: { content: query } }])
    t.equal(await answer('hi'), 'hi, turn 1')
  }
})

t.test('a handler that never settles ends with TURN_TIMEOUT, and costs its thread after the grace', async (t) => {
  const { team, failure, answer } = threads(t, { limits: { turnTimeoutMs: 1_000 }, supervision: { stopGraceMs: 50 } })
  const error = await failure('never')
  t.ok(error instanceof TurnTimeoutError)
  t.match(error, { details: { agent: 'ann', turnTimeoutMs: 1_000 } })
  t.match(error.message, /^A turn of agent "ann" did not end within 1000 ms\. Raise limits\.turnTimeoutMs, or look at/)
  t.equal(await answer('hi'), 'hi, turn 1')
  t.equal(team.health().agents.ann?.restarts, 1)
  t.match(team.deadLetters.list(), [{ reason: 'cancelled', message: { content: 'never' } }])
})

t.test('one that heeds its signal keeps its thread', async (t) => {
  const { team, failure, answer } = threads(t, { limits: { turnTimeoutMs: 1_000 } })
  t.equal((await failure('until told')).code, 'TURN_TIMEOUT')
  t.equal(await answer('hi'), 'hi, turn 1')
  t.equal(team.health().agents.ann?.restarts, 0)
})

t.test('what an agent posts to its parent port by itself reaches nobody, and is reported', async (t) => {
  const { team, lines, answer } = threads(t)
  t.equal(await answer('post'), 'posted')
  t.equal(await answer('ring'), 'rang', 'the bell alone is harmless')
  t.equal(await answer('hi'), 'hi, turn 3')
  t.match(lines, [
    { agent: 'ann', text: /posted to its parent port; .*use context\.send/ },
    { agent: 'ann', text: /posted to its parent port/ },
  ])
  t.equal(team.health().agents.ann?.restarts, 0)
})

t.test('verbs that a handler does not await cost nothing', async (t) => {
  const { team, answer } = threads(t)
  t.equal(await answer('let go'), 'let go')
  t.equal(await answer('hi'), 'hi, turn 2')
  t.equal(team.health().agents.ann?.restarts, 0)
})

t.test('an answer of several MiB arrives', async (t) => {
  const { answer } = threads(t)
  t.equal((await answer('large'))?.length, 3_000_000)
})

t.test('aborting a run ends the turn under way in a thread', async (t) => {
  const { team, answer } = threads(t)
  const controller = new AbortController()
  const run = team.launch('until told', { signal: controller.signal })
  for await (const event of run.events()) if (event.type === 'turn.started' && event.agent === 'ann') break
  controller.abort(new Error('changed my mind'))
  t.match(await run.result, { success: false, error: { code: 'RUN_ABORTED', message: /changed my mind/ } })
  t.equal(await answer('hi'), 'hi, turn 1')
  t.equal(team.health().agents.ann?.restarts, 0)
})

t.test('close ends 50 runs on threads with RUN_ABORTED', async (t) => {
  const { team } = threads(t)
  await team.start()
  const runs = Array.from({ length: 50 }, () => team.launch('until told'))
  for await (const event of runs[0]!.events()) if (event.type === 'turn.started' && event.agent === 'ann') break
  await team.close()
  for (const { result } of runs) t.match(await result, { success: false, error: { code: 'RUN_ABORTED' } })
  t.match(await refusalOf(team.execute('hi')), { code: 'TEAM_CLOSED' })
})

// Modules that cannot be agents, on real threads: found before any message, with the option, the file and the line.

type Files = Parameters<typeof t.testdir>[0] & object

interface Case {
  what: string
  files: Files
  /** The module that the role names; 'agent.js'. */
  entry?: string
  says: RegExp
  /** Where, counted from 1. */
  file?: string
  line?: number
  column?: number
}

const good = "import { defineAgent } from 'dramatis'\nexport default defineAgent({ receive: () => 'hi' })\n"

const cases: Case[] = [
  { what: 'is not there', files: {}, says: /there is no file .*agent\.js, and none of agent\.ts, .* beside it\.$/ },
  { what: 'is a folder', files: { 'agent.js': { 'index.js': good } }, says: /there is no file/ },
  {
    what: 'has no default export',
    files: { 'agent.js': 'export const agent = 1\n' },
    says: /has no agent as its default export: .*agent\.js\. Write: export default defineAgent\({ \.\.\. }\)/,
  },
  {
    what: 'exports something else',
    files: { 'agent.js': "export default { receive: () => 'hi' }\n" },
    says: /has no agent as its default export/,
  },
  {
    what: 'throws when it is imported',
    files: { 'agent.js': "\n\nthrow new TypeError('no paper')\n" },
    says: /the module of "ann" throws when it is imported: .*agent\.js:3:7: TypeError: no paper$/,
    file: 'agent.js',
    line: 3,
    column: 7,
  },
  {
    what: 'throws in what it imports',
    files: { 'agent.js': "import './deep.js'\n", 'deep.js': "\nthrow new Error('no paper')\n" },
    says: /throws when it is imported: .*deep\.js:2:7: Error: no paper$/,
    file: 'deep.js',
    line: 2,
  },
  {
    what: 'throws nothing at all when it is imported',
    files: { 'agent.js': 'throw undefined\n' },
    says: /throws when it is imported: .*agent\.js: undefined$/,
  },
  {
    what: 'defines an agent without a handler',
    files: { 'agent.js': "import { defineAgent } from 'dramatis'\nexport default defineAgent({})\n" },
    says: /agent\.js:2:16: ConfigurationError: defineAgent: "receive" is missing/,
    file: 'agent.js',
    line: 2,
  },
  {
    what: 'has a syntax error',
    files: { 'agent.js': 'export default 1\n\nconst = 5\n' },
    says: /^agents\[0\]\.module: .*agent\.js:3:7: Expected identifier/,
    file: 'agent.js',
    line: 3,
    column: 7,
  },
  {
    what: 'has a syntax error in what it imports',
    files: { 'agent.js': "import './deep.js'\n", 'deep.js': '\nlet x = {\n' },
    says: /deep\.js:3:/,
    file: 'deep.js',
    line: 3,
  },
  {
    what: 'has a syntax error in TypeScript',
    files: { 'agent.ts': 'interface Unused {\n  x: number\n}\n\nconst = 5\n' },
    entry: 'agent.ts',
    says: /^agents\[0\]\.module: .*agent\.ts:5:7: Expected identifier/,
    file: 'agent.ts',
    line: 5,
    column: 7,
  },
  {
    what: 'throws in TypeScript',
    files: { 'agent.ts': 'interface Unused {\n  x: number\n}\n\nthrow new Error("no paper" as string)\n' },
    entry: 'agent.ts',
    says: /agent\.ts:5:7: Error: no paper$/,
    file: 'agent.ts',
    line: 5,
  },
  {
    what: 'imports a file that is not there',
    files: { 'agent.js': "import './gone.js'\n" },
    says: /the module of "ann" imports what was not found: .*agent\.js: .*gone\.js/,
  },
  {
    what: 'imports a name that is not there',
    files: { 'agent.js': "import { defineAgnet } from 'dramatis'\n" },
    says: /throws when it is imported: .*agent\.js:1: SyntaxError: .*defineAgnet/,
    file: 'agent.js',
    line: 1,
  },
]

for (const { what, files, entry = 'agent.js', says, file, line, column } of cases) {
  t.test(`a module that ${what} is a ConfigurationError before any message`, async (t) => {
    const folder = t.testdir(files)
    const team = teamOf(t, join(folder, entry))
    const errors = [await refusalOf(team.start()), await refusalOf(team.execute('hi')), await refusalOf(late(team))]
    for (const error of errors as ConfigurationError[]) {
      t.equal(error.code, 'CONFIGURATION', error.message)
      t.match(error.message, says)
      t.ok(error.message.startsWith('agents[0].module: '), error.message)
      t.equal(error.details.path, 'agents[0].module')
      if (file !== undefined) t.equal(error.details.file, join(folder, file))
      if (line !== undefined) t.equal(error.details.line, line)
      if (column !== undefined) t.equal(error.details.column, column)
    }
    t.same(team.getMessageHistory(), [])
    t.same(team.deadLetters.list(), [])
  })
}

t.test('a package that is not installed is named', async (t) => {
  const error = await refusalOf(teamOf(t, 'no-such-package-of-agents').start())
  t.match(error, { code: 'CONFIGURATION', details: { path: 'agents[0].module' } })
  t.match(
    error.message,
    /has the package "no-such-package-of-agents"\. Install it there, or name the file to look from: resolveFrom\./,
  )
})

t.test('a module that ends the thread while it is imported fails its start, twice, and no more', async (t) => {
  const folder = t.testdir({ 'agent.js': 'process.exit(3)\n', 'good.js': good })
  const team = teamOf(t, join(folder, 'agent.js'), join(folder, 'good.js'))
  const error = await refusalOf(team.start())
  t.equal(error.code, 'START_FAILED')
  t.match(error.message, /Agent "ann" failed twice while it started: .*exit code 3/)
  t.equal(team.getAgentStatus('ann'), 'failed')
  t.equal(await team.getAgent('bob')?.run('are you well?'), 'hi', 'the others do their work')
})

t.test('an agent that cannot start leaves the others to their work', async (t) => {
  const folder = t.testdir({
    'agent.js': `import { defineAgent } from 'dramatis'
export default defineAgent({ start() { throw new Error('no paper') }, receive: () => 'hi' })
`,
    'good.js': good,
  })
  const team = teamOf(t, join(folder, 'agent.js'), join(folder, 'good.js'))
  t.match(await refusalOf(team.start()), { code: 'START_FAILED', message: /Error: no paper/ })
  const result = await team.execute('hi')
  t.match(result.error, { code: 'AGENT_TERMINATED', message: /Agent "ann" is stopped: .*no paper/ })
  t.match(team.deadLetters.list(), [{ reason: 'stopped', message: { recipient: 'ann', content: 'hi' } }])
  const answer = await team.sendMessage({ recipient: 'bob', content: 'hi', requiresResponse: true })
  t.equal(answer?.content, 'hi')
})

t.test('a script module without a protocol names its option', async (t) => {
  const folder = t.testdir({ 'script.js': 'export default 5\n', 'bad.js': 'const = 5\n', 'good.js': good })
  for (const [file, says] of [
    ['script.js', /^orchestration\.module: the module has no protocol as its default export: .*script\.js/],
    ['bad.js', /^orchestration\.module: .*bad\.js:1:7: Expected identifier/],
  ] as const) {
    const error = await refusalOf(
      teamOf(t, join(folder, 'good.js'), undefined, {
        orchestration: { strategy: 'custom', module: join(folder, file) },
      }).execute('hi'),
    )
    t.match(error, { code: 'CONFIGURATION', details: { path: 'orchestration.module' } })
    t.match(error.message, says)
  }
})

t.test('the test kit says the same of a module', async (t) => {
  const folder = t.testdir({ 'throws.js': "\nthrow new Error('no paper')\n", 'none.js': 'export const x = 1\n' })
  for (const [file, says] of [
    ['throws.js', /^agents\[0\]\.module: the module of "ann" throws when it is imported: .*throws\.js:2:7: Error: no/],
    ['none.js', /^agents\[0\]\.module: nothing is no agent; accepted: what defineAgent returns/],
  ] as const) {
    const team = testTeam({
      agents: [{ name: 'ann', module: join(folder, file) }],
      orchestration: { strategy: 'sequential' },
    })
    t.teardown(() => team.close())
    const error = await refusalOf(team.execute('hi'))
    t.match(error, { code: 'CONFIGURATION', details: { path: 'agents[0].module' } })
    t.match(error.message, says)
  }
})

t.test('data that misses the schema of its agent is refused at the start, by option', async (t) => {
  const whole = {
    '~standard': {
      version: 1 as const,
      vendor: 'test',
      validate: () => ({ issues: [{ message: 'a number is needed', path: ['limit'] }] }),
    },
  }
  const team = testTeam(
    { agents: [{ name: 'ann', data: { limit: 'high' } }], orchestration: { strategy: 'sequential' } },
    { modules: { ann: defineAgent({ data: whole, receive: () => 'hi' }) } },
  )
  t.teardown(() => team.close())
  t.match(await refusalOf(team.execute('hi')), {
    code: 'CONFIGURATION',
    message: 'agents[0].data: the data of agent "ann" misses its schema: limit: a number is needed',
    details: { path: 'agents[0].data' },
  })
})

/** Agents "ann" from one module and, if there is another, "bob" from that. */
function teamOf(t: Test, ann: string, bob?: string, more: Partial<MultiAgentPatternOptions> = {}) {
  const team = createTeam({
    agents: [
      { name: 'ann', module: ann.startsWith('/') ? pathToFileURL(ann) : ann },
      ...(bob === undefined ? [] : [{ name: 'bob', module: pathToFileURL(bob) }]),
    ],
    orchestration: { strategy: 'sequential' },
    threads: { warmSpares: 0 },
    logger: { debug() {}, info() {}, warn() {}, error() {} },
    ...more,
  })
  t.teardown(() => team.close())
  return team
}

/** A run that begins when the start has failed already. */
async function late(team: ReturnType<typeof teamOf>): Promise<unknown> {
  return team.launch('later').result
}
