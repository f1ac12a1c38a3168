/** What the pages say in tables and lists is what the code has; requirements name what shows them. */
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import t from 'tap'
import { protocolFrom } from '../src/protocols/index.ts'
import { settingsFrom } from '../src/runtime/settings/settings.ts'
import * as errors from '../src/shared/errors.ts'
import * as tools from '../src/tools/index.ts'
import { read } from './docs/page.ts'
import { pluck } from './kit/lists.ts'
import { sourceFiles } from './source-files.ts'

// What the pages say in tables and lists is what the code has: defaults, tools, rules, what is not available.

t.test('the tables of options have the defaults', async (t) => {
  const { agents, ...team } = settingsFrom({ agents: [{ name: 'any', module: 'any' }] })
  const { mailbox, supervision, responseTimeoutMs, modelTimeoutMs, answerWithinMs, queueTimeoutMs, retries } =
    agents[0]!
  const { turnRetries, turnTimeoutMs, concurrency, instances, reentrancy, isolation } = agents[0]!
  const defaults: Record<string, unknown> = {
    maxConcurrentAgents: team.maxConcurrentAgents,
    maxStoredBytes: team.maxStoredBytes,
    maxConcurrentRuns: team.maxConcurrentRuns,
    maxQueuedRuns: team.maxQueuedRuns,
    maxSpawnedAgents: team.maxSpawnedAgents,
    globalTimeoutMs: team.globalTimeoutMs,
    taskRouting: team.taskRouting,
    enableBlackboard: team.blackboard,
    'threads.warmSpares': team.threads.warmSpares,
    'threads.toolQueue': team.threads.tools.queue,
    'threads.isolation': isolation,
    'communication.mailboxCapacity': mailbox.capacity,
    'communication.mailboxBytes': mailbox.bytes,
    'communication.maxMessageBytes': mailbox.maxMessageBytes,
    'communication.overflow': mailbox.overflow,
    'communication.responseTimeoutMs': responseTimeoutMs,
    'communication.modelTimeoutMs': modelTimeoutMs,
    'communication.answerWithinMs': answerWithinMs,
    'communication.queueTimeoutMs': queueTimeoutMs,
    'communication.retries': retries,
    'communication.turnRetries': `${turnRetries}, 1 for a model`,
    'supervision.strategy': supervision.strategy,
    'supervision.restart': supervision.restart,
    'supervision.maxRestarts': supervision.maxRestarts,
    'supervision.withinMs': supervision.withinMs,
    'supervision.coolDownMs': supervision.coolDownMs,
    'supervision.backoff.baseMs': supervision.backoff.baseMs,
    'supervision.backoff.capMs': supervision.backoff.capMs,
    'supervision.poisonAttempts': supervision.poisonAttempts,
    'supervision.onHandlerError': supervision.onHandlerError,
    'supervision.watchdogMs': supervision.watchdogMs,
    'supervision.deadlock': team.deadlock,
    'supervision.confirmMs': team.confirmMs,
    'supervision.stopGraceMs': supervision.stopGraceMs,
    'supervision.slowMs': supervision.slowMs.turn,
    'supervision.livelock': team.livelock && !team.livelock.ofCode && team.loops ? 'of models' : 'other',
    'limits.turnTimeoutMs': turnTimeoutMs,
    'limits.messagesPerTurn': 'no limit',
    concurrency,
    instances,
    reentrancy,
    isolation,
  }
  const rows = [...read('docs/reference/options.md').matchAll(/^\| `([\w.]+)` +\| (.*?) +\|/gm)]
  const written = Object.fromEntries(rows.map(([, option, value]) => [option!, contentOf(value!)]))
  t.match(written, defaults)
})

t.test('defaults beside those of the documents are the ones of the other tables', async (t) => {
  const [page, ofDocuments] = read('docs/reference/options.md').split('## Defaults of the documents')
  const rowsOf = (text: string) =>
    [...text.matchAll(/^\| (.*) \|$/gm)].map(([, row]) => row!.split('|').map((cell) => cell.trim()))
  const [ofStrategies] = read('docs/reference/strategies.md').split('\n## auction')
  const elsewhere = [...rowsOf(page!), ...rowsOf(ofStrategies!)].reverse()
  const written = Object.fromEntries(elsewhere.map(([option, value]) => [option!, contentOf(value!)]))
  const rows = rowsOf(ofDocuments!).slice(2)
  t.ok(rows.length > 25)
  let compared = 0
  for (const [document, , there, here, options, why] of rows) {
    const [first = ''] = options!.split(/, /)
    const ours = here === 'the same' ? there! : here!
    t.ok(here === 'the same' || why !== '', `${document} ${options}: it says why it differs`)
    if (!(first in written)) continue
    compared += 1
    t.ok(told(ours).includes(told(`${written[first]}`)), `${options}: ${ours} and ${written[first]}`)
  }
  t.ok(compared > 12)
})

/** A default without the ways in which documents write it. */
const told = (text: string) => text.toLowerCase().replaceAll(/[`',]/g, '')

t.test('the tables of tools have all that there are', async (t) => {
  const text = read('docs/reference/built-in-tools.md')
  for (const name of Object.keys(tools)) t.match(text, new RegExp(`^\\|.*\`${name}[\`(]`, 'm'), name)
})

t.test('the page of imports has each path of the package, and no other', async (t) => {
  const { exports } = JSON.parse(read('package.json')) as { exports: Record<string, unknown> }
  const paths = Object.keys(exports).filter((path) => path !== './package.json')
  const written = [...read('docs/reference/imports.md').matchAll(/^\| `(dramatis[\w/-]*)` /gm)].map(([, path]) => path)
  t.same(written.sort(), paths.map((path) => path.replace('.', 'dramatis')).sort())
})

t.test('the page of errors has a row for each class, and no other', async (t) => {
  const written = [...read('docs/reference/errors.md').matchAll(/^\| `(\w+)` `([A-Z_]+)` /gm)]
  const classes = Object.entries(errors).flatMap(([name, value]) =>
    /Error$/.test(name) && name !== 'DramatisError' && typeof value === 'function' ? [name] : [],
  )
  t.same(written.map(([, name]) => name).sort(), classes.sort())
  for (const [, name, code] of written) t.equal(`${code!.toLowerCase().replaceAll('_', '')}error`, name!.toLowerCase())
})

t.test('the page of events has each type of event', async (t) => {
  const declared = /export type RuntimeEvent[\s\S]*?\n\n/.exec(declaring('export type RuntimeEvent'))![0]
  const types = [...declared.matchAll(/Event<\s*((?:'[\w.]+'(?: \| )?)+)/g)].flatMap(
    ([, names]) => names!.match(/[\w.]+/g) ?? [],
  )
  const alarms = /export interface AlarmFields \{[\s\S]*?\n\}/.exec(declaring('export interface AlarmFields'))![0]
  types.push(...[...alarms.matchAll(/^ {2}(\w+): /gm)].map(([, name]) => name!))
  t.ok(types.includes('deadlock'))
  t.ok(types.length > 15)
  const page = read('docs/reference/events.md')
  t.same(
    types.filter((type) => !page.includes(`\`${type}\``)),
    [],
  )
})

t.test('the page of verbs has each member of a context', async (t) => {
  const named = [...read('docs/reference/verbs.md').matchAll(/^\| ([^|]+) \|/gm)].flatMap(
    ([, cell]) => cell!.match(/\w+/g) ?? [],
  )
  for (const name of ['AgentContext', 'OrchestratorContext', 'ConversationContext', 'TaskContext', 'StateContext'])
    t.same(
      membersOf(name).filter((member) => !named.includes(member)),
      [],
      name,
    )
})

t.test('the page of options names each option of a team, a role and a run', async (t) => {
  const page = read('docs/reference/options.md')
  const options = {
    TeamOptions: '',
    ThreadsConfig: 'threads.',
    CommunicationConfig: 'communication.',
    SupervisionConfig: 'supervision.',
    RoleInfo: '',
    AgentRole: '',
    RunOptions: '',
  }
  for (const [name, prefix] of Object.entries(options))
    t.same(
      membersOf(name).filter((member) => !new RegExp(`\`${prefix}${member}[\`.]`).test(page)),
      [],
      name,
    )
})

t.test('the page of strategies has each strategy, in the table and with a section', async (t) => {
  const page = read('docs/reference/strategies.md')
  const { message } = refusal(() => protocolFrom(Object({ strategy: 'none' }), []))
  const strategies = message.match(/\b(?:[a-z]+, ){5,}[a-z]+\b/)![0].split(', ')
  t.ok(strategies.length > 5)
  for (const strategy of strategies) t.match(page, new RegExp(`^\\| \`${strategy}\` [\\s\\S]*^## ${strategy}$`, 'm'))
})

t.test('the page of strategies names each option', async (t) => {
  const page = read('docs/reference/strategies.md')
  const strategies = ['Sequential', 'Parallel', 'Auction', 'Blackboard', 'Consensus', 'Debate', 'Hierarchical']
  for (const name of [...strategies, 'Collaborate', 'Supervisor'].map((strategy) => `${strategy}Config`))
    t.same(
      membersOf(name).filter((member) => member !== 'strategy' && !new RegExp(`\`${member}\\b`).test(page)),
      [],
      name,
    )
})

t.test('the generated parts of the reference are what the code says', async (t) => {
  const { status, stdout } = spawnSync(process.execPath, ['scripts/make-reference.mjs', '--check'], {
    encoding: 'utf8',
  })
  t.equal(status, 0, stdout)
})

t.test('each rule that code, tests and benchmarks cite by its number is in the list of rules', async (t) => {
  const page = read('docs/explanation/supervision.md')
  const rules = [...page.matchAll(/^### Rule (\d+)\. /gm)].map(([, number]) => Number(number))
  t.same(
    rules,
    Array.from(rules, (_, at) => at),
  )
  const files = ['src', 'test', 'bench'].flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts'))
      .map((name) => join(folder, name)),
  )
  const cited = files.flatMap((file) =>
    [...read(file).matchAll(/\brules? (\d+)(?:(?: and |, | to )(\d+))?/gi)].flatMap(([, one, other]) =>
      [one, other].filter((number) => number !== undefined).map(Number),
    ),
  )
  t.ok(cited.length > 100)
  t.same(
    cited.filter((number) => !rules.includes(number)),
    [],
  )
})

/** Names of the members that an exported type of objects declares itself. */
function membersOf(name: string): string[] {
  const start = ['interface', 'type'].flatMap((kind) => [`export ${kind} ${name}<`, `export ${kind} ${name} `])
  const [, body] = declaring(...start).split(new RegExp(`export \\w+ ${name}\\b`))
  const members = [...body!.split(/^}/m)[0]!.matchAll(/^ {2}(?:readonly )?(\w+)[?(<:]/gm)].map(([, member]) => member!)
  if (members.length < 4) throw new Error(`${name} has ${members.length} members`)
  return members
}

/** The source file that declares it. */
function declaring(...starts: string[]): string {
  const file = sourceFiles.find(({ text }) => starts.some((start) => text.includes(start)))
  if (!file) throw new Error(`nothing declares ${starts[0]}`)
  return file.text
}

function refusal(run: () => unknown): Error {
  try {
    run()
  } catch (error) {
    if (error instanceof Error) return error
  }
  throw new Error('nothing was refused')
}

/** A value as the table writes it: `1,024`, `'block'` in a code span, `false`. */
function contentOf(cell: string): unknown {
  const text = cell.replaceAll('`', '')
  if (/^[\d,]+$/.test(text)) return Number(text.replaceAll(',', ''))
  if (text === 'true' || text === 'false') return text === 'true'
  return text.replaceAll("'", '')
}

// docs/project/requirements.md has each requirement once, and what it names is there: tests, commands and pages.

const page = readFileSync('docs/project/requirements.md', 'utf8') // tests are started in the project's folder
const { scripts } = JSON.parse(readFileSync('package.json', 'utf8')) as { scripts: Record<string, string> }

const numbered = (letter: string, last: number) => Array.from({ length: last }, (_, i) => `${letter}${i + 1}`)
const ROWS = [...numbered('W', 9), ...numbered('Q', 8), ...numbered('P', 31), ...numbered('J', 10), ...numbered('S', 7)]

interface Row {
  row: string
  names: string[]
}

const inCode = (text: string) => [...text.matchAll(/`([^`]+)`/g)].map(([, name]) => name!)

/** What the items of the list name as what shows them. */
const items = (text: string): Row[] =>
  [...text.matchAll(/^- \*\*(\w\d+)\*\*: (.+(?:\n(?!- ).+)*)/gm)].map(([, row, item]) => ({
    row: row!,
    names: inCode(item!.replaceAll(/\s+/g, ' ').split('Shown by ')[1] ?? ''),
  }))

/** What the tables name: a file with its fields in the first cell, or what shows a failure in the last one. */
const cells = (text: string): Row[] =>
  text
    .split('\n')
    .filter((line) => /^\| (?!failure|file|-)/.test(line))
    .map((line) => {
      const [first = '', ...others] = line.split('|').slice(1, -1)
      return { row: first.trim(), names: inCode(first.includes('`') ? first : (others.at(-1) ?? '')) }
    })

const shownIn = (text: string): Row[] => [...items(text), ...cells(text)]

/** Whether a stranger can run what a row names: a test by its file, a script, a benchmark, a team with the CLI. */
function isThere(name: string): boolean {
  const [, script, benchmark] = /^npm (?:run (?:-s )?)?([\w-]+)(?: -- (\w+))?$/.exec(name) ?? []
  if (script) return script in scripts && (benchmark === undefined || existsSync(`bench/${benchmark}.ts`))
  const [, team] = /^dramatis run (\S+)/.exec(name) ?? []
  return existsSync(team ?? `test/${name}.test.ts`)
}

const missing = (text: string) => shownIn(text).flatMap(({ names }) => names.filter((name) => !isThere(name)))
const bare = (text: string) => shownIn(text).flatMap(({ row, names }) => (names.length === 0 ? [row] : []))

t.test('each row is there once, in order', async (t) => {
  t.same(pluck(items(page), 'row'), ROWS)
})

t.test('each row names tests or commands, which are there', async (t) => {
  t.ok(shownIn(page).flatMap(({ names }) => names).length > 250)
  t.same(bare(page), [])
  t.same(missing(page), [])
})

t.test('what is gone is found, and so is a row that nothing shows', async (t) => {
  const gone = ['routing/rout', 'npm run -s deskless', 'npm run bench -- b0', 'dramatis run examples/none.ts']
  const named = gone.map((name) => `\`${name}\``).join(',\n  ')
  const text = `- **W1**: asks.\n  Shown by ${named}.\n- **W2**: asks for \`this\`.\n\n| \`routing/none\` | \`name\` |\n| a crash | |`
  t.same(missing(text), [...gone, 'routing/none'])
  t.same(bare(text), ['W2', 'a crash'])
})

t.test('each page that it links to is there', async (t) => {
  const files = [...page.matchAll(/\]\(([^)#]+)/g)].map(([, link]) => posix.join('docs/project', link!))
  t.ok(files.length > 2)
  t.same(
    files.filter((file) => !existsSync(file)),
    [],
  )
})
