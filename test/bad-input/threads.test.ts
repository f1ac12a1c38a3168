/** Modules that cannot be agents, what only a thread can do wrong, and handlers that throw, refuse or answer what is no reply. */
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
  type MultiAgentResult,
  type OrchestrationConfig,
  TaskRefusedError,
  TurnTimeoutError,
  UnknownAgentError,
} from '../../src/index.ts'
import { testTeam } from '../../src/testing.ts'
import { leftovers } from '../kit/accounts.ts'
import { type Cast, type Extras, openTeam, type Receive } from '../kit/team.ts'
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

// Handlers that throw what is no error, answer what is no reply, or never answer: their caller hears it, they go on.

const hostile = Object.defineProperty(new Error('hidden'), 'message', {
  get() {
    throw new Error('do not look at me')
  },
})
const cycle: Record<string, unknown> = {}
cycle.itself = cycle

/** An agent whose handler is what the test says; 'are you well?' it answers by itself. */
function teamWith(
  t: Test,
  receive: () => unknown,
  { def = {}, options = {} }: { def?: object; options?: object } = {},
) {
  const ann = defineAgent({
    receive: ({ content }) => (content === 'are you well?' ? 'well' : receive()) as never,
    ...def,
  })
  const team = testTeam(
    { agents: [{ name: 'ann' }], orchestration: { strategy: 'sequential' }, ...options },
    { modules: { ann } },
  )
  t.teardown(() => team.close())
  return {
    team,
    /** What the run fails with. */
    async failure(): Promise<DramatisError> {
      const result = await team.execute('a secret question')
      if (result.success) throw new Error(`it succeeded with "${result.finalOutput}"`)
      return result.error
    },
    async isWell(): Promise<boolean> {
      return (await team.execute('are you well?')).finalOutput === 'well'
    },
  }
}

const thrown: [what: string, receive: () => unknown, says: string][] = [
  ['undefined', () => throwIt(undefined), 'a handler threw undefined'],
  ['null', () => throwIt(null), 'a handler threw null'],
  ['a string', () => throwIt('out of paper'), 'out of paper'],
  ['a number', () => throwIt(0), '0'],
  ['a bigint', () => throwIt(1n), '1n'],
  ['a symbol', () => throwIt(Symbol('why')), 'Symbol(why)'],
  ['a function', () => throwIt(function why() {}), 'a function (why)'],
  ['an object', () => throwIt({ paper: 0 }), '{"paper":0}'],
  ['a cycle', () => throwIt(cycle), '[object Object]'],
  ['an error that throws when it is read', () => throwIt(hostile), '[object Error]'],
  ['a rejection with nothing', () => Promise.reject(undefined), 'a handler threw undefined'],
  ['a rejection with a string', () => Promise.reject('out of paper'), 'out of paper'],
  [
    'what only looks like a promise',
    () => ({
      // biome-ignore lint/suspicious/noThenProperty: that is the point
      then() {
        throw new Error('no promise')
      },
    }),
    'Error: no promise',
  ],
  [
    'a promise that cannot be looked at',
    () => ({
      // biome-ignore lint/suspicious/noThenProperty: that is the point
      get then() {
        throw new Error('no look')
      },
    }),
    'Error: no look',
  ],
]

t.test('whatever a handler throws, its caller gets AGENT_FAILED with words for it', async (t) => {
  for (const [what, receive, says] of thrown) {
    const { team, failure, isWell } = teamWith(t, receive)
    const error = await failure()
    t.ok(error instanceof AgentFailedError, what)
    t.equal(error.code, 'AGENT_FAILED', what)
    t.match(error.message, 'Agent "ann" failed in its turn for a request from "$orchestrator": ', what)
    t.ok(error.message.endsWith(says), `${what}: ${error.message}`)
    t.equal(error.details.agent, 'ann')
    t.ok(JSON.stringify(error), what)
    t.ok(await isWell(), what)
    t.same(team.deadLetters.list(), [], 'the caller knows, so nothing is lost')
  }
})

t.test('details of a thrown error that are no JSON arrive as words', async (t) => {
  const { failure, isWell } = teamWith(t, () =>
    throwIt(new TaskRefusedError('busy', { until: 1n, itself: cycle, why: () => 1, fine: { a: 1 }, none: undefined })),
  )
  const error = await failure()
  t.equal(error.code, 'TASK_REFUSED')
  t.same(error.toJSON(), {
    code: 'TASK_REFUSED',
    message: 'busy',
    details: { until: '1n', itself: '[object Object]', why: 'a function (why)', fine: { a: 1 } },
  })
  t.ok(await isWell())
})

t.test('a very long error is cut, not lost', async (t) => {
  const { failure, isWell } = teamWith(t, () => throwIt(new Error('x'.repeat(20_000_000))))
  const error = await failure()
  t.equal(error.code, 'AGENT_FAILED')
  t.ok(error.message.length < 3_000)
  t.ok(await isWell())
})

const replies: [what: string, receive: () => unknown, says: RegExp][] = [
  ['a function', () => () => 'later', /answered a request with a function; a reply is a string, nothing, or /],
  ['a number', () => 5, /with 5;/],
  ['true', () => true, /with true;/],
  ['a list', () => ['secret'], /with a list of 1;/],
  ['a symbol', () => Symbol('s'), /with a symbol;/],
  ['an object without content', () => ({ answer: 'secret' }), /with an object;/],
  ['a map', () => new Map([['content', 'secret']]), /with a Map;/],
  ['an error', () => new Error('secret'), /with an Error;/],
  ['content that is no string', () => ({ content: { text: 'secret' } }), /in which content is an object;/],
  ['data that is no JSON', () => ({ structuredData: { at: [new Date(0)] } }), /structuredData\.at\[0\] is a Date;/],
  ['data in a cycle', () => ({ content: 'secret', structuredData: cycle }), /structuredData\.itself is a cycle/],
  ['a promise of a function', async () => () => 'later', /with a function;/],
]

t.test('what is no reply is REPLY_INVALID, and says what came and what is accepted', async (t) => {
  for (const [what, receive, says] of replies) {
    const { team, failure, isWell } = teamWith(t, receive)
    const error = await failure()
    t.equal(error.code, 'REPLY_INVALID', `${what}: ${error.message}`)
    t.match(error.message, says, what)
    t.match(error.message, /^Agent "ann" /)
    t.notMatch(error.message, 'secret')
    t.ok(await isWell(), what)
    t.same(team.deadLetters.list(), [])
  }
})

t.test('nothing, null, {} and a message of another agent are replies', async (t) => {
  const passed = { id: 'x', type: 'response', content: 'passed on', structuredData: { n: 1 } }
  for (const [reply, text] of [
    [undefined, ''],
    [null, ''],
    [{}, ''],
    [passed, 'passed on'],
  ]) {
    const { team } = teamWith(t, () => reply)
    t.equal((await team.execute('hi')).finalOutput, text)
  }
})

t.test('a reply above the limit is REPLY_INVALID with both numbers', async (t) => {
  const { failure, isWell } = teamWith(t, () => 'x'.repeat(5_000), {
    options: { communication: { maxMessageBytes: 4_096 } },
  })
  const error = await failure()
  t.match(error, { code: 'REPLY_INVALID', details: { agent: 'ann', bytes: Number } })
  t.match(error.message, /reply of agent "ann" is \d+ bytes encoded; at most 4096 .*maxMessageBytes/)
  t.ok(await isWell())
})

t.test('a handler that never settles ends with TURN_TIMEOUT; another life takes its place', async (t) => {
  let asked = 0
  const limits = { agents: [{ name: 'ann', limits: { turnTimeoutMs: 50 } }] }
  const { team, isWell } = teamWith(t, () => (asked++ === 0 ? new Promise(() => {}) : 'now'), { options: limits })
  const run = team.execute('a secret question')
  await team.clock.advance(50)
  const result = await run
  t.match(result.error, { code: 'TURN_TIMEOUT', details: { agent: 'ann', turnTimeoutMs: 50 } })
  t.match(result.error?.message, /A turn of agent "ann" did not end within 50 ms\. Raise limits\.turnTimeoutMs/)
  await team.clock.advance(5_000) // stopGraceMs
  t.ok(await isWell())
  t.match(team.deadLetters.list(), [{ reason: 'cancelled', message: { content: 'a secret question' } }])
})

t.test('a handler that never settles does not hold up close()', async (t) => {
  const { team } = teamWith(t, () => new Promise(() => {}), { options: { supervision: { stopGraceMs: 20 } } })
  const run = team.execute('hi')
  await team.clock.advance(1)
  await team.close()
  t.match((await run).error, { code: 'RUN_ABORTED' })
})

t.test('a failed turn leaves neither state nor runState behind', async (t) => {
  let fails = true
  const ann = defineAgent({
    initialState: { turns: 0 },
    receive(_message, context) {
      context.setState((draft) => {
        draft.turns += 1
      })
      if (fails) throw new Error('after the change')
      return String(context.state.turns)
    },
  })
  const team = testTeam({ agents: [{ name: 'ann' }], orchestration: { strategy: 'sequential' } }, { modules: { ann } })
  t.teardown(() => team.close())
  await team.execute('one')
  fails = false
  t.equal((await team.execute('two')).finalOutput, '1')
})

t.test('a state that is no JSON is found before any message, and named', async (t) => {
  for (const [def, says] of [
    [{ initialState: { list: [new Date(0)] } }, 'initialState.list[0] of agent "ann" is a Date'],
    [{ initialState: { f: () => 1 } }, 'initialState.f of agent "ann" is function'],
    [{ initialState: 5 }, 'initialState of agent "ann" is 5'],
    [{ initialState: async () => ({}) }, 'initialState of agent "ann" is a Promise'],
    [{ initialRunState: { m: new Map() } }, 'initialRunState.m of agent "ann" is a Map'],
  ] as const) {
    let asked = false
    const { team } = teamWith(
      t,
      () => {
        asked = true
      },
      { def },
    )
    await t.rejects(team.execute('hi'), {
      code: 'CONFIGURATION',
      message: `${says}; a state is an object of JSON values.`,
    })
    await t.rejects(team.start(), { code: 'CONFIGURATION' })
    t.notOk(asked)
  }
})

t.test('a definition with the wrong fields is refused where it is written', async (t) => {
  const receive = () => 'hi'
  const define = (definition: unknown) => () => Reflect.apply(defineAgent, undefined, [definition])
  for (const [definition, path, says] of [
    [undefined, 'receive', /"receive" is missing; give it a function/],
    [{ receive: 5 }, 'receive', /"receive" is missing/],
    [{ receive, observe: 5 }, 'observe', /"observe": it is 5; a function is needed/],
    [{ receive, start: 'now' }, 'start', /"start": it is "now"/],
    [{ receive, input: {} }, 'input', /"input": it is an object; a Standard Schema/],
    [{ receive, output: null }, 'output', /"output": it is null/],
    [{ receive, onMessage: receive }, 'onMessage', /"onMessage": there is no such field; there are receive, input/],
    [{ receive, buildContext: 'all' }, 'buildContext', /"buildContext": it is "all"; a function is needed/],
  ] as const)
    t.throws(define(definition), { code: 'CONFIGURATION', message: says, details: { path } })
  t.doesNotThrow(define({ ...defineAgent({ receive }), observe: undefined }))
})

function throwIt(what: unknown): never {
  throw what
}

// Agents that will not do their task: who refuses it, hands it on, or asks again and again. The run ends, and says
// so.

const refuses: Receive = (_message, context) => {
  throw context.refuse('not my job')
}

const passes =
  (to: string): Receive =>
  ({ content }, context) =>
    context.handoff(to, content)

async function play(
  test: Pick<typeof t, 'teardown' | 'same' | 'ok'>,
  cast: Cast,
  extras: Extras = {},
): Promise<MultiAgentResult> {
  const team = openTeam(test, cast, extras)
  const run = team.launch('do it')
  await team.clock.runToIdle()
  const result = await run.result
  test.same(leftovers(team.host), [])
  test.ok(result.messageHistory.length < 100, 'within its limits')
  const open = run.tasks.filter(({ status }) => ['assigned', 'in_progress', 'blocked'].includes(status))
  test.same(open, [])
  return result
}

const strategies: readonly OrchestrationConfig[] = [{ strategy: 'sequential' }, { strategy: 'parallel' }]
for (const orchestration of strategies)
  t.test(`agents that refuse everything end a run: ${orchestration.strategy}`, async (t) => {
    const result = await play(t, { a: refuses, b: refuses }, { orchestration })
    t.equal(result.success, false)
    t.match(JSON.stringify(result.failures), 'not my job')
    t.match(result.failures[0], { agent: 'a', error: { code: 'TASK_REFUSED' } })
    t.equal(Object.values(result.taskCompletion)[0], 'refused')
  })

t.test('an agent that refuses everything, and one that asks again and again', async (t) => {
  const lead: Receive = async ({ content }, context) => {
    for (;;) {
      try {
        return `${(await context.delegate('worker', content)).result}`
      } catch (error) {
        if (context.signal.aborted) throw error
      }
    }
  }
  const result = await play(
    t,
    { lead, worker: refuses },
    { supervision: { livelock: { maxRepeats: 4, onFound: 'end' } } },
  )
  t.match(result, { success: false, error: { code: 'LIVELOCK' } })
  t.match(result.error?.message, /"worker" failed \d+ times in a row .*TASK_REFUSED/)
})

t.test('agents that hand their task back and forth', async (t) => {
  const result = await play(t, { a: passes('b'), b: passes('a') })
  t.equal(result.success, false)
  t.match(result.error?.message, /maxHandoffs is 10/)
})

t.test('agents that hand their task on in a ring, and refuse it when it comes back', async (t) => {
  const again =
    (to: string): Receive =>
    async (message, context) => {
      if (Object(message.structuredData).parentTask) throw context.refuse('I had it')
      return passes(to)(message, context)
    }
  const result = await play(t, { a: again('b'), b: again('a') })
  t.match(result, { success: false, failures: [{ agent: 'b', error: { code: 'TASK_REFUSED' } }, {}] })
})

t.test('a manager that delegates to itself', async (t) => {
  const boss: Receive = async (_message, context) => `${(await context.delegate('boss', 'x')).result}`
  const result = await play(t, { boss })
  t.match(result, { success: false, error: { code: 'AGENT_FAILED' } })
  t.match(JSON.stringify(result.failures), 'nobody delegates to itself')
})
