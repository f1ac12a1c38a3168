/** Imports go one way through the rooms of src/. */
import t from 'tap'
import { filesIn, importsOf, type SourceFile, sourceFiles } from './source-files.ts'

// Each may import what stands before it and what stands in its own line's room, never what comes after.
const levels: string[][] = [
  [
    'errors',
    'model-failure',
    'on-abort',
    'environment',
    'own-files',
    'clock',
    'nearest',
    'own',
    'sentences',
    'slots',
    'thread-flags',
    'thrown',
    'timers',
    'visible',
  ],
  ['bounded-answer', 'calling-file', 'json-values', 'sse-frames'],
  ['mailbox', 'blackboard'],
  ['actors'],
  ['json-schema'],
  ['tools', 'mcp'], // use what a tool is, and nothing of the runtime that calls it
  ['runtime'],
  ['ai-sdk'], // a client of models: uses what the runtime knows of providers
  ['bundling'], // a plugin of esbuild: knows where modules are, and nothing that runs
  ['protocols'],
  ['registry'],
  ['root'], // joins the rooms: the only place that knows both the runtime and the table of protocols
  ['service'],
]
const rootFiles = [
  'src/index.ts',
  'src/models.ts',
  'src/opentelemetry.ts',
  'src/protocols.ts',
  'src/rehearsal.ts',
  'src/team.ts',
  'src/telemetry.ts',
  'src/testing.ts',
  'src/thread-api.ts',
]
// The rooms of the two large folders, in the same order: each may import what stands before it.
const runtimeRooms = [
  [
    'logging',
    'checks',
    'store',
    'providers',
    'settings',
    'log',
    'threads',
    'state',
    'dispatch',
    'mailboxes',
    'turns',
    'admission',
  ],
  [
    'verbs',
    'tasks',
    'tools',
    'models',
    'budgets',
    'supervision',
    'detectors',
    'telemetry',
    'runs',
    'metrics',
    'digest',
    'durability',
    'replay',
    'team',
  ],
  ['testing'],
].flat()
const actorRooms = ['definition', 'model', 'decisions', 'tools', 'transport', 'turn', 'loop']
const forbiddenFolders = ['utils', 'util', 'common', 'types', 'helpers']

const imports = sourceFiles.flatMap((file) => importsOf(file).map((to) => ({ from: file.path, to })))

t.test('every file of src stands in a room', async (t) => {
  t.same(names(sourceFiles.filter((file) => levelOf(file.path) === -1)), [])
})

t.test('every relative import names a file', async (t) => {
  const paths = new Set(names(sourceFiles))
  t.same(imports.filter(({ to }) => !paths.has(to)).map(arrow), [])
})

t.test('no file imports from a room above its own', async (t) => {
  t.same(imports.filter(({ from, to }) => levelOf(to) > levelOf(from)).map(arrow), [])
})

t.test('every file of the runtime and of the actors stands in a room, none lies flat', async (t) => {
  const inside = sourceFiles.filter(({ path }) => roomsAround(path) !== undefined)
  t.ok(inside.length > 250)
  t.same(names(inside.filter(({ path }) => levelWithin(path) === -1)), [])
})

t.test('no file of the runtime or of the actors imports from a later room of its own folder', async (t) => {
  const within = imports.filter(({ from, to }) => roomsAround(from) && roomsAround(from) === roomsAround(to))
  t.ok(within.length > 800)
  t.same(within.filter(({ from, to }) => levelWithin(to) > levelWithin(from)).map(arrow), [])
})

t.test('no part of the runtime is given the whole supervisor: each takes by name what it uses', async (t) => {
  const whole = 'src/runtime/supervision/supervisor.ts'
  const joins = ['telemetry', 'runs', 'metrics', 'team', 'testing'].map((room) => `src/runtime/${room}/`)
  const takers = imports.filter(({ from, to }) => to === whole && !joins.some((room) => from.startsWith(room)))
  t.same(takers.map(arrow), [])
  const made = sourceFiles.filter(({ path, text }) => path.startsWith('src/runtime/') && /new \w+\(this[,)]/.test(text))
  t.same(names(made), [])
})

t.test('mailbox and blackboard do not know each other', async (t) => {
  const beside = imports.filter(({ from, to }) => {
    const rooms = [roomOf(from), roomOf(to)]
    return rooms.includes('mailbox') && rooms.includes('blackboard')
  })
  t.same(beside.map(arrow), [])
})

t.test('neither the runtime nor the protocols know a built-in tool', async (t) => {
  const users = imports.filter(({ to }) => roomOf(to) === 'tools')
  t.same(users.filter(({ from }) => ['runtime', 'protocols'].includes(roomOf(from))).map(arrow), [])
})

t.test('the protocols know what options are, and nothing of the runtime that runs', async (t) => {
  const options = /^src\/runtime\/(checks|settings)\/[a-z-]+\.ts$/
  const users = imports.filter(({ from, to }) => roomOf(from) === 'protocols' && roomOf(to) === 'runtime')
  t.ok(users.length > 0)
  t.same(users.filter(({ to }) => !options.test(to)).map(arrow), [])
})

t.test('nobody imports the entries of threads, which are started by their URL', async (t) => {
  const entries = ['src/actors/loop/thread-entry.ts', 'src/actors/tools/tool-entry.ts']
  t.same(imports.filter(({ to }) => entries.includes(to)).map(arrow), [])
})

t.test('agents of tests import dramatis by name: its path loads the whole library in each thread', async (t) => {
  const agents = filesIn('test/fixtures').filter(({ text }) => /^export default define(Agent|Protocol)\b/m.test(text))
  t.ok(agents.length > 50)
  t.same(names(agents.filter((file) => importsOf(file).includes('src/index.ts'))), [])
})

t.test('only src/testing.ts and src/rehearsal.ts import the test kit', async (t) => {
  const kit = 'src/runtime/testing/'
  const users = ['src/rehearsal.ts', 'src/testing.ts']
  const strangers = imports.filter(
    ({ from, to }) => to.startsWith(kit) && !from.startsWith(kit) && !users.includes(from),
  )
  t.same(strangers.map(arrow), [])
})

t.test('no imports go round in a circle', async (t) => {
  t.same(circles(), [])
})

t.test('no folder collects what has no name', async (t) => {
  const nameless = sourceFiles.filter((file) => file.path.split('/').some((part) => forbiddenFolders.includes(part)))
  t.same(names(nameless), [])
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

function roomOf(path: string): string {
  if (rootFiles.includes(path)) return 'root'
  return path.split('/')[1]!.replace(/\.ts$/, '')
}

function levelOf(path: string): number {
  return levels.findIndex((rooms) => rooms.includes(roomOf(path)))
}

/** The rooms of the folder that a file is in, if it has any. */
function roomsAround(path: string): string[] | undefined {
  const folder = path.split('/')[1]
  return folder === 'runtime' ? runtimeRooms : folder === 'actors' ? actorRooms : undefined
}

/** -1: it stands in none of them. */
function levelWithin(path: string): number {
  const [, , room, ...below] = path.split('/')
  return below.length === 0 ? -1 : roomsAround(path)!.indexOf(room!)
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

function arrow({ from, to }: { from: string; to: string }): string {
  return `${from} -> ${to}`
}
