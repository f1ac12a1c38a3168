/** What the entries of the package export, and that strangers can name their types. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import * as parts from '../../src/actors/definition/content.ts'
import * as protocol from '../../src/actors/definition/protocol.ts'
import * as tool from '../../src/actors/definition/tool.ts'
import * as aiSdk from '../../src/ai-sdk/index.ts'
import * as bundling from '../../src/bundling/index.ts'
import * as dramatis from '../../src/index.ts'
import * as models from '../../src/models.ts'
import * as opentelemetry from '../../src/opentelemetry.ts'
import * as http from '../../src/service/api/index.ts'
import * as errors from '../../src/shared/errors.ts'
import * as testing from '../../src/testing.ts'
import * as tools from '../../src/tools/index.ts'
import { modelServer, type SeenCall } from '../fixtures/model-server.ts'
import type { Answer } from '../fixtures/wires/wire.ts'

// The names that the package gives, no more and no less: what is exported once cannot be taken back.

const functions = [
  'MultiAgentPattern',
  'agentRef',
  'createTeam',
  'defineAgent',
  'defineProtocol',
  'defineTeam',
  'defineTool',
  'jsonOutput',
  'loadTeam',
  'sequenceDiagram',
  'toolParts',
]
const errorNames = Object.keys(errors).filter((name) => name.endsWith('Error'))

t.test('the entry gives the functions, the class and the errors, and nothing that is inside', async (t) => {
  t.same(Object.keys(dramatis).sort(), [...functions, ...errorNames].sort())
})

t.test('there is one error class for each code, of that name', async (t) => {
  const classes = errorNames.filter((name) => name !== 'DramatisError')
  t.equal(classes.length, 49)
  for (const name of classes) {
    const error = errors.errorFrom({ code: codeOf(name), message: 'm', details: { a: 1 } })
    t.equal(error.name, name)
    t.ok(error instanceof dramatis.DramatisError)
    t.same(JSON.parse(JSON.stringify(error)), { code: codeOf(name), message: 'm', details: { a: 1 } })
  }
})

t.test('inside a thread the same names can be imported', async (t) => {
  const { agentRef, defineAgent } = dramatis
  const { defineProtocol } = protocol
  const { defineTool } = tool
  const { toolParts } = parts
  Object.defineProperty(globalThis, Symbol.for('dramatis.thread'), {
    value: { ...errors, agentRef, defineAgent, defineProtocol, defineTool, toolParts },
  })
  const inThread = await import('../../src/thread-api.ts')
  t.same(Object.keys(inThread).sort(), Object.keys(dramatis).sort())
  t.throws(() => inThread.createTeam(), { code: 'CONFIGURATION', message: /^createTeam belongs to the host/ })
  t.throws(() => new inThread.MultiAgentPattern(), { code: 'CONFIGURATION' })
})

t.test('the test kit gives its functions', async (t) => {
  const names = ['rehearsalModel', 'rehearse', 'rehearseRun', 'scriptedModel', 'testAgent', 'testTeam', 'virtualClock']
  t.same(Object.keys(testing).sort(), names)
})

t.test('the way to OpenTelemetry is one function', async (t) => {
  t.same(Object.keys(opentelemetry), ['openTelemetry'])
})

t.test('the way to the AI SDK is one function, and two help with clients of models', async (t) => {
  t.same(Object.keys(aiSdk), ['fromAiSdk'])
  t.same(Object.keys(models).sort(), ['textOf', 'wrapModel'])
})

t.test('the way to HTTP is one function, and one for tokens', async (t) => {
  t.same(Object.keys(http), ['bearerToken', 'httpApi'])
})

t.test('the way to a bundle is one function', async (t) => {
  t.same(Object.keys(bundling), ['dramatis'])
})

t.test('the built-in tools have these names', async (t) => {
  const web = ['exchangeRate', 'readWebpage', 'stockPrice', 'weather', 'webSearch']
  const local = [
    'calculator',
    'convert',
    'createTaskPlan',
    'decomposeTask',
    'markSubtaskComplete',
    'readFile',
    'runCode',
    'runCommand',
    'sights',
    'workspace',
    'writeFile',
  ]
  const names = [...web, ...local].sort()
  t.same(Object.keys(tools).sort(), names)
})

/** 'RunTimeoutError' -> 'RUN_TIMEOUT' */
function codeOf(name: string): errors.ErrorCode {
  const code = name
    .replace(/Error$/, '')
    .replace(/(?<!^)[A-Z]/g, '_$&')
    .toUpperCase()
  return code as errors.ErrorCode
}

// Each type that a public signature names can be imported: the declarations that the package ships are read, as they
// are.

const root = fileURLToPath(new URL('../../', import.meta.url)) // dist
const ENTRIES = [
  'index',
  'models',
  'protocols',
  'telemetry',
  'testing',
  'evals/index',
  'opentelemetry',
  'tools/index',
  'mcp/index',
  'store',
]
const COMMENTS_AND_TEXTS = /\/\*[\s\S]*?\*\/|\/\/.*|'[^'\n]*'|`[^`]*`/g

/** Parts of a declaration that nobody needs by their own names. */
const INNER: Readonly<Record<string, readonly string[]>> = {
  AddressEntry: ['EntryFields'],
  AgentContext: ['ConversationContext', 'StateContext', 'TaskContext'], // its verbs, in three parts
  AgentHandlers: ['Awaitable'],
  ClientEntry: ['EntryFields'],
  ClusterRunOptions: ['SentOptions'],
  ClusterTeam: ['ClusterParts', 'ClusterDoor', 'Options', 'TeamRuntime'], // how the package makes it, and serves it
  ClusterTeamOptions: ['InCluster'],
  Digest: ['Columns'],
  MultiAgentPattern: ['TeamKit', 'Commons', 'TeamRuntime'], // the class that it extends, and what only the test kit and shards of a cluster give it
  MultiAgentPatternOptions: ['TeamOptions'], // all of it but the orchestration
  OldRunRehearsal: ['PlayedOldRun'],
  // its members: Extract<RuntimeEvent, { type: '...' }>
  RuntimeEvent: [
    'AlarmEvent',
    'Event',
    'GuardrailDecided',
    'ModelSwitched',
    'HandoffStep',
    'OfWatchedCall',
    'ToolFinished',
    'ToolProgress',
    'ToolStarted',
  ],
  RunMismatch: ['AskedKind'],
  SeedOutcome: ['Injected'],
  StreamPart: ['OfCall', 'Part', 'ToolFinished', 'ToolProgress', 'ToolStarted'], // its members, as of RuntimeEvent
  TestAgent: ['Types'],
  UnknownAsked: ['Asked'],
  WebSearchOptions: ['SearchLimits'],
  defineAgent: ['Produced'],
  defineTool: ['JsonForm'],
  inFlowMode: ['Switchable'],
  virtualClock: ['Scheduler'],
}

interface Declarations {
  /** Where each imported name comes from: path and name there. */
  readonly imported: Map<string, { path: string; name: string }>
  /** The text of each declaration, without comments. */
  readonly declared: Map<string, string>
  /** Names that are passed on from other files. */
  readonly passedOn: Map<string, { path: string; name: string }>
}

const files = new Map<string, Declarations>()

function declarationsOf(path: string): Declarations {
  const known = files.get(path)
  if (known) return known
  const text = readFileSync(path, 'utf8')
  const imported = namesOf(path, text, /import (?:type )?\{([^}]*)\} from '(\.[^']+)'/g)
  const passedOn = namesOf(path, text, /export (?:type )?\{([^}]*)\} from '(\.[^']+)'/g)
  const declared = new Map<string, string>()
  const bare = text.replace(COMMENTS_AND_TEXTS, '')
  for (const part of bare.split(
    /^(?=(?:export |declare )*(?:abstract )?(?:interface|class|type|const|function|enum) )/m,
  )) {
    const name = /^(?:export |declare )*(?:abstract )?(?:interface|class|type|const|function|enum) (\w+)/.exec(
      part,
    )?.[1]
    if (name) declared.set(name, `${declared.get(name) ?? ''}${part}`)
  }
  const found = { imported, declared, passedOn }
  files.set(path, found)
  return found
}

function namesOf(path: string, text: string, pattern: RegExp): Map<string, { path: string; name: string }> {
  const names = new Map<string, { path: string; name: string }>()
  for (const [, list, from] of text.matchAll(pattern))
    for (const each of list!.split(',')) {
      const [name, alias = name] = each
        .trim()
        .replace(/^type /, '')
        .split(' as ')
      if (name) names.set(alias!, { path: join(dirname(path), from!.replace(/\.ts$/, '.d.ts')), name })
    }
  return names
}

/** File and name of a declaration, wherever it was passed on. */
function home(path: string, name: string): string | undefined {
  const { declared, imported, passedOn } = declarationsOf(path)
  if (declared.has(name)) return `${path} ${name}`
  const from = passedOn.get(name) ?? imported.get(name)
  return from && home(from.path, from.name)
}

t.test('a type that the signature of a public name has can be imported itself', async (t) => {
  const exported = new Set<string>()
  for (const entry of ENTRIES) {
    const path = join(root, 'src', `${entry}.d.ts`)
    const { declared, passedOn } = declarationsOf(path)
    for (const name of [...declared.keys(), ...passedOn.keys()]) exported.add(home(path, name)!)
  }
  t.ok(exported.size > 100, `${exported.size} names`)
  const hidden = new Set<string>()
  for (const place of exported) {
    const [path, name] = place.split(' ') as [string, string]
    const text = declarationsOf(path)
      .declared.get(name)!
      .replaceAll(/^.*\bprivate\b.*$|^\s*#.*$/gm, '')
    for (const [word] of text.matchAll(/\b[A-Z]\w+\b/g)) {
      if (/^[A-Z_]+$|_base$/.test(word) || (INNER[name] ?? []).includes(word)) continue
      const used = home(path, word)
      if (used && used !== place && !exported.has(used)) hidden.add(`${relative(root, path)}: ${name} names ${word}`)
    }
  }
  t.same([...hidden].sort(), [])
})

// Programs and types as users write them.

// Programs as users write them compile against the declarations that are shipped, under settings as strict as a user
// may
// have; and what must not compile does not: an error that was expected and did not come is one too.

const clone = fileURLToPath(new URL('../../../', import.meta.url)) // this runs as dist/test/contract/exports.test.js

t.test('the programs in test/types compile', async (t) => {
  const args = ['node_modules/typescript/bin/tsc', '-p', 'test/types', '--pretty', 'false']
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: clone, encoding: 'utf8' })
  t.equal(`${stdout}${stderr}`, '')
  t.equal(status, 0)
})

// Programs as users write them, each in a process of its own with a model at a real address. Types: test/types.

type Answering = (call: SeenCall) => string | Answer

const call = (name: string, input: object, words = ''): Answer => ({ text: words, toolCalls: [{ name, input }] })
const isBehindTool = ({ body }: SeenCall) => body.messages.at(-1)?.role === 'tool'
const invoice = '{"category":"invoice","answer":"It is paid twice."}'

/** What the model says to each program, and what the program prints. */
const PROGRAMS: Record<string, [answer: Answering, printed: string | RegExp]> = {
  handoff: [
    ({ body }) =>
      String(body.messages[0]?.content).startsWith('Find out')
        ? call('handoff', { to: 'billing', task: 'Look at the invoice.' }, 'One moment.')
        : invoice,
    'billing invoice\n',
  ],
  output: [() => invoice, "{ category: 'invoice', answer: 'It is paid twice.' }\n"],
  approval: [
    (seen) => (isBehindTool(seen) ? `Done: ${seen.prompt}` : call('refund', { orderId: 'A-7', cents: 4_900 })),
    /^ann 403\nbob 20\d\nbob 4\d\d\neve 20\d\nDone: refunded A-7, .+\n$/,
  ],
  text: [
    (seen) => (isBehindTool(seen) ? `It is ${seen.prompt}.` : call('add', { a: 1, b: 2 }, 'Let me add.')),
    'Let me add.\n\nIt is 3.true\n',
  ],
  failover: [
    ({ body }) => (body.model === 'llama-4' ? 'From the spare.' : { status: 429, headers: { 'retry-after': '40' } }),
    'From the spare.\n',
  ],
  hung: [() => 'Nobody asks.', '[]\n'],
}

for (const [name, [answer, printed]] of Object.entries(PROGRAMS))
  t.test(name, async (t) => {
    const [server, spare] = [await modelServer(t), await modelServer(t)]
    server.always(answer)
    spare.always(answer)
    const program = fileURLToPath(new URL(`../fixtures/programs/${name}.js`, import.meta.url))
    const env = { ...process.env, MODEL_URL: server.baseURL, SPARE_URL: spare.baseURL }
    const child = spawn(process.execPath, [program], { cwd: t.testdir(), env, stdio: ['ignore', 'pipe', 'pipe'] })
    t.teardown(() => child.kill())
    const [said, failure, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
    t.equal(code, 0, failure)
    t.match(said, printed)
  })
