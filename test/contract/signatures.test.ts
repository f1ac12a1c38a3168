/** Each type that a public signature names can be imported: the declarations that the package ships are read, as they are. */
import { readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'

const root = fileURLToPath(new URL('../../', import.meta.url)) // dist
const ENTRIES = [
  'index',
  'models',
  'protocols',
  'telemetry',
  'testing',
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
