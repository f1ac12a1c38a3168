/** Rules of the house: its rooms, its comments, its patterns, and that nothing polls. */
import t from 'tap'
import { codeLines, filesIn, importsOf, type SourceFile, sourceFiles } from './source-files.ts'

/** Folders of src/, each with the number of files that it may have. A room imports those before it alone. */
const rooms: ReadonlyMap<string, number> = new Map(
  Object.entries({
    shared: 16, // periods of the calendar; turns of tenants, in three queues; JSON that is still being written
    mailbox: 13,
    blackboard: 3,
    'actors/definition': 17,
    'actors/model': 13,
    'actors/turn': 24,
    'actors/thread': 7,
    'json-schema': 6,
    tools: 26,
    mcp: 14, // the shapes that servers send; rounds of a call; tokens; news, resources and prompts; groups of processes
    remote: 7, // agents elsewhere as roles, by one protocol or another
    'runtime/logging': 4,
    'runtime/store': 11, // chunks, which two engines of a cluster write
    'runtime/providers': 15, // lists of models; embeddings
    'runtime/settings': 9, // prices and amounts of money
    'runtime/log': 7,
    'runtime/threads': 7,
    'runtime/host': 21, // moments of the wall clock; what people say to a run; what is owed to receivers outside
    'runtime/verbs': 22, // prompts for agents elsewhere; a call of a list of models; who may agree to a call, how many have to, and to what; words of people in prompts
    'runtime/supervision': 11,
    'runtime/observers': 10,
    'runtime/runs': 18, // events as they are told to others
    'runtime/durability': 15,
    'runtime/views': 12,
    'runtime/team': 12, // what shards of one process have in common, and requests with a key
    'runtime/cluster': 11, // events of runs from any process, and looks at them
    'runtime/testing': 16, // tapes
    'ai-sdk': 4,
    postgres: 8, // writes, which go together in one commit
    jetstream: 7, // checkpoints
    bundling: 2,
    protocols: 30, // one strategy a file
    registry: 5,
    '(src)': 10,
    evals: 14, // cases, what is played, what has to hold, what is measured, models and judges of a suite, reports as text and as a page, tapes, schedules
    'service/shared': 11, // who answers at this terminal, for two commands
    'service/digest': 3,
    'service/http': 9, // requests of chats
    'service/pictures': 6, // reports of suites as a page
    'service/page': 23,
    'service/openai': 2,
    'service/chat': 4, // a run as pieces, in the words of two protocols
    'service/mcp': 5, // a team as a server of the Model Context Protocol
    'service/a2a': 6, // a team as an agent of A2A
    'service/acp': 2, // a team as an agent of ACP, in an editor
    'service/api': 13, // answers about teams over several processes, and one digest of all shards
    'service/terminal': 7, // a cluster that is watched from outside
    'service/rehearsal': 4,
    'service/commands': 11, // suites of cases; a team in an editor
    service: 1,
  }),
)
const order = [...rooms.keys()]

/** What single rooms may import or not, beyond their order. */
const limits: readonly { of: RegExp; only?: RegExp; never?: RegExp }[] = [
  { of: /^(mailbox|blackboard)$/, only: /^shared$/ },
  { of: /^tools$/, only: /^(actors\/definition|shared)$/ },
  { of: /^mcp$/, only: /^(actors\/definition|shared|mailbox|json-schema)$/ },
  { of: /^(postgres|jetstream)$/, only: /^(runtime\/cluster|runtime\/store|shared)$/ },
  { of: /^bundling$/, only: /^(runtime\/settings|shared)$/ },
  { of: /^protocols$/, never: /^runtime\/(?!settings$)/ },
  { of: /^runtime\//, never: /^(tools|mcp|ai-sdk|postgres|jetstream|protocols|registry)$/ },
]
/** Started by their URL: nothing may run them by importing them. */
const entries = ['src/actors/thread/thread-entry.ts', 'src/actors/turn/tool-entry.ts']
/** What the house may weigh, and what has been let in since, one line each. */
const LINES: readonly [lines: number, what: string][] = [
  [120_620, 'all that stood before'],
  [1_730, 'a team as an agent of A2A: two bindings, streams, questions, cards; agents of A2A as roles'],
  [60, 'an answer that stands over a restart, when words have its agent asked again'],
  [60, 'words to a run, and handed-on threads, in a rehearsal from a log'],
  [50, 'who steers a run does not approve in it; the page of an approver, and fields while they are written'],
  [85, 'tokens and durations as metrics of OpenTelemetry'],
  [50, 'formats and fields of OpenAI, and readers of a task whose client has left'],
  [630, 'servers of MCP of both years: all their shapes, broken connections, questions and tasks'],
  [640, 'a team as a server of MCP over HTTP: tools, tasks, questions as forms'],
  [280, 'a team as a server of MCP over pipes'],
  [50, 'servers of tokens for MCP'],
  [90, 'wrong answers by MCP, and forms, names and polls that its clients take'],
  [110, 'servers of MCP that are away while a task runs, ask for calls given up, or ask too much'],
  [20, 'an answer that an owner has given and could not tell of'],
  [1_330, 'suites of cases: gates, scores with intervals, comparisons, reports, a command and a harness'],
  [110, 'events of model servers line by line, calls sent twice, choices in turn, ends cut off'],
  [70, 'the next message of a thread after an answer that came before its handoff had ended'],
  [1_210, 'clients of MCP: traces, tokens of OAuth, changed lists, resources and prompts'],
  [1_310, 'roles that agents elsewhere play, and coding agents by ACP as the first of them'],
  [360, 'a team as an agent of ACP over pipes'],
  [1_250, 'judges held against labels, models of suites, likeness, data sets from logs, a page of reports'],
  [930, 'tapes of models, tools, steps and scorers, for suites without a key; cases through many schedules'],
  [520, 'URLs that are told how tasks of A2A stand, and what is owed to receivers outside'],
  [150, 'npm create dramatis: what it refuses and makes; types that options of dramatis/http name'],
  [110, 'what a comparison of suites cannot find or has left out, scores of no case, gates that throw or are mistyped'],
  [205, 'traces, messages, boards, streams and lists of runs from any process'],
  [255, 'a cluster that is watched from outside, by its engine and by any process'],
  [190, 'logs of all shards at a terminal, and pages of lists by a place in the whole'],
  [95, 'users and rights of NATS, by files that its address names'],
  [120, 'checkpoints on NATS'],
  [80, 'streams of NATS that are lost, in part or whole, and tasks behind a cut'],
  [65, 'processes of a cluster, and what one takes of another, on the page; shards that nobody else may take'],
]
const MOST_LINES = LINES.reduce((all, [lines]) => all + lines, 0)
const LONGEST_FILE = 784
const forbiddenFolders = ['utils', 'util', 'common', 'types', 'helpers']

const imports = sourceFiles.flatMap((file) => importsOf(file).map((to) => ({ from: file.path, to })))
const crossing = imports.filter(({ from, to }) => roomOf(from) !== roomOf(to))

t.test('every file of src stands in a room', async (t) => {
  t.same(names(sourceFiles.filter(({ path }) => !rooms.has(roomOf(path)))), [])
})

t.test('every relative import names a file', async (t) => {
  const paths = new Set(names(sourceFiles))
  t.same(imports.filter(({ to }) => !paths.has(to)).map(arrow), [])
})

t.test('no room imports from one that stands after it', async (t) => {
  const back = crossing.filter(({ from, to }) => order.indexOf(roomOf(to)) > order.indexOf(roomOf(from)))
  t.same(back.map(arrow), [])
})

t.test('rooms that are to know little know no more', async (t) => {
  const isTooMuch = ({ from, to }: Import) =>
    limits.some(
      ({ of, only, never }) => of.test(roomOf(from)) && (never?.test(roomOf(to)) || (only && !only.test(roomOf(to)))),
    )
  t.same(crossing.filter(isTooMuch).map(arrow), [])
})

t.test('nobody imports the entries of threads, which are started by their URL', async (t) => {
  t.same(imports.filter(({ to }) => entries.includes(to)).map(arrow), [])
})

t.test('only the entries of the package import the test kit', async (t) => {
  const users = crossing.filter(({ to }) => roomOf(to) === 'runtime/testing')
  t.same([...new Set(users.map(({ from }) => from))].sort(), ['src/rehearsal.ts', 'src/testing.ts'])
})

t.test('agents of tests import dramatis by name: its path loads the whole library in each thread', async (t) => {
  const agents = filesIn('test/fixtures').filter(({ text }) => /^export default define(Agent|Protocol)\b/m.test(text))
  t.ok(agents.length > 50)
  t.same(names(agents.filter((file) => importsOf(file).includes('src/index.ts'))), [])
})

t.test('no imports go round in a circle', async (t) => {
  t.same(circles(), [])
})

t.test('no folder collects what has no name', async (t) => {
  const nameless = sourceFiles.filter((file) => file.path.split('/').some((part) => forbiddenFolders.includes(part)))
  t.same(names(nameless), [])
})

t.test('the house gets no heavier: a line that comes in takes one out, or says here why not', async (t) => {
  const lines = new Map(sourceFiles.map(({ path, text }) => [path, text.split('\n').length - 1]))
  const sum = [...lines.values()].reduce((all, some) => all + some, 0)
  t.ok(sum <= MOST_LINES, `src has ${sum} lines`)
  t.same(
    [...lines].filter(([, count]) => count > LONGEST_FILE),
    [],
  )
  for (const [room, most] of rooms) {
    const files = sourceFiles.filter(({ path }) => roomOf(path) === room).length
    t.ok(files <= most, `${room} has ${files} files, and may have ${most}`)
  }
})

t.test('reads every form of import', async (t) => {
  const text = [
    "import a from './a.ts'",
    "import type { B } from './b.ts'",
    "import {\n  c,\n  type D,\n} from '../c.ts'",
    "export * from './d.ts'",
    "export type { E } from './e.ts'",
    "import './f.ts'",
    "const g = await import('./g.ts')",
    "type H = import('./h.ts').H",
    "// import './no.ts'\n/**\n * import './no.ts'\n */",
    "import outside from 'outside'",
    "export const at = './no.ts'",
  ].join('\n')
  const found = importsOf({ path: 'src/room/file.ts', text })
  t.same(found.sort(), ['src/c.ts', ...'abdefgh'.split('').map((letter) => `src/room/${letter}.ts`)].sort())
})

interface Import {
  from: string
  to: string
}

/** The folder of a file below src/; '(src)' for the entries of the package. */
function roomOf(path: string): string {
  return path.split('/').slice(1, -1).join('/') || '(src)'
}

/** One circle for each import that closes one, shown as the way round. */
function circles(): string[] {
  const next = new Map(sourceFiles.map((file) => [file.path, importsOf(file)]))
  const done = new Set<string>()
  const found: string[] = []
  const visit = (path: string, way: string[]) => {
    if (way.includes(path)) found.push([...way.slice(way.indexOf(path)), path].join(' -> '))
    if (done.has(path)) return
    done.add(path)
    for (const to of next.get(path) ?? []) visit(to, [...way, path])
  }
  for (const { path } of sourceFiles) visit(path, [])
  return found
}

function names(files: SourceFile[]): string[] {
  return files.map(({ path }) => path)
}

function arrow({ from, to }: Import): string {
  return `${from} -> ${to}`
}

// Comments can be read by a newcomer: they begin with their subject, and end at 120 columns (CONTRIBUTING.md).

const COMMENTS = /\/\*\*?([\s\S]*?)\*\/|(?:^|\s)\/\/ ?(.*)$/gm
const HIDES_ITS_SUBJECT = /^(What|Who|Whom|Whose|Of|Whether|Where|One|It|Its)\b/
const COLUMNS = 120

t.test('no comment of src hides its subject behind what, who, of, whether, where, one or it', async (t) => {
  const found: string[] = []
  let comments = 0
  for (const { path, text } of sourceFiles.filter(({ path }) => path.startsWith('src/')))
    for (const [all, block, line] of text.matchAll(COMMENTS)) {
      const words = (block ?? line)!.replace(/^\s*\*? ?/gm, '').trim()
      comments += 1
      if (HIDES_ITS_SUBJECT.test(words)) found.push(`${path}: ${all.trim().slice(0, 80)}`)
    }
  t.ok(comments > 4_000, `${comments} comments`)
  t.same(found, [])
})

t.test('no comment of src is longer than 120 columns', async (t) => {
  const isComment = /^\s*(\/\*\*?|\*|\/\/) /
  const long = sourceFiles
    .filter(({ path }) => path.startsWith('src/'))
    .flatMap(({ path, text }) =>
      text
        .split('\n')
        .flatMap((line, at) => (isComment.test(line) && line.length > COLUMNS ? `${path}:${at + 1}` : [])),
    )
  t.same(long, [])
})

// Nothing in the rooms that carry messages asks again and again; it is told. And messages have one way across.

interface Rule {
  pattern: RegExp
  within: RegExp
  except?: Record<string, string>
}

// file: why it may have an interval timer
const intervals: Record<string, string> = {
  'src/runtime/testing/stage.ts': 'a sign of life for who watches the thread, while a real model answers',
  'src/runtime/testing/virtual-builtins.ts': 'the virtual one, that agents under rehearsal are given',
}

// file: why its thread may stand still, and post
const downloads: Record<string, string> = {
  'src/actors/turn/run-views.ts':
    'code reads the bytes of a large part by a property, so its own thread waits for them; no other agent is in it',
}

t.test('mailbox, actors and runtime have no interval timer', async (t) => {
  t.same(found({ pattern: /\bsetInterval\b/, within: /^src\/(mailbox|actors|runtime)\//, except: intervals }), [])
})

t.test('mailbox has no timer at all', async (t) => {
  t.same(found({ pattern: /\bsetTimeout\b/, within: /^src\/mailbox\// }), [])
})

t.test('no thread is frozen in, or kept waiting on, an atomic wait', async (t) => {
  // Atomics.wait stops timers and I/O of its thread; a thread may exit in the midst of Atomics.waitAsync
  t.same(found({ pattern: /\bAtomics\s*\.\s*wait(Async)?\b/, within: /^src\//, except: downloads }), [])
})

t.test('only the two ends of a thread post, and only a bell with no more than the number of a seat', async (t) => {
  const host = 'runtime/(threads/worker-thread|verbs/tool-pool)'
  const ends = new RegExp(`^src/(${host}|actors/(thread/thread|turn/tool)-entry|tools/sandbox-thread)\\.ts$`)
  // a line of the control plane says so in a comment on it
  const bellOrControl = /postMessage\((0|seat)\)|\/\/.*control plane/
  const posts = found({ pattern: /\bpostMessage\s*\(/, within: /^src\//, except: downloads })
  t.same(
    posts.filter((post) => !ends.test(post.split(':')[0]!) || !bellOrControl.test(post)),
    [],
  )
})

/** Every place where a rule's pattern stands in code, as `file:line: text`. */
function found({ pattern, within, except = {} }: Rule): string[] {
  const files = sourceFiles.filter(({ path }) => within.test(path) && !(path in except))
  return files.flatMap((file) =>
    codeLines(file)
      .filter(({ line }) => pattern.test(line.replace(/\s\/\/.*$/, '')))
      .map(({ line, number }) => `${file.path}:${number}: ${line.trim()}`),
  )
}

// Patterns with classes of Unicode are made where they are used: each takes V8 0.1 to 0.5 ms, in every thread that
// loads
// the file, whether it needs them or not.

/** Returns the lines of constants of a file, in no function, that have such a pattern. */
function madeOnLoad(file: SourceFile): string[] {
  let inConstant = false
  return codeLines(file).flatMap(({ line, number }) => {
    if (/^[^\s)\]}]/.test(line)) inConstant = /^(export )?const /.test(line) && !/=>/.test(line)
    return inConstant && line.includes('\\p{') ? [`${file.path}:${number}`] : []
  })
}

t.test('no file of src makes a pattern with classes of Unicode as it is loaded', async (t) => {
  t.same(sourceFiles.flatMap(madeOnLoad), [])
})

t.test('such patterns are found, alone and in a list', async (t) => {
  const text = 'const A = /\\p{L}/u\nexport const B = [\n  /\\p{N}/u,\n]\nconst c = () => [\n  /\\p{N}/u,\n]\n'
  t.same(madeOnLoad({ path: 'file.ts', text }), ['file.ts:1', 'file.ts:3'])
})
