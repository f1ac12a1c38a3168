/**
 * A log of many runs, and what it costs to use it. None ends its team: for the log all are killed.
 *
 *   grown-log.js grow <MB> <folder>     runs go on until the log has that size
 *   grown-log.js open <MB> <folder>     opens it, and lists its runs
 *   grown-log.js thread <MB> <folder>   plays tasks of one thread
 */
import { randomBytes } from 'node:crypto'
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { createTeam, type RunFilter } from 'dramatis'

export interface Grown {
  openMs: number
  /** Processor time of the opening. */
  cpuMs: number
  /** Longest time that the event loop stood meanwhile. */
  longestMs: number
  /** Processor time of a list of 12 runs: of all, and of one caller in a hundred. */
  listMs: number
  ownMs: number
}

/** Bytes that each of ten tasks of one thread has logged on average. */
export interface Threaded {
  first: number
  last: number
}

const MB = 2 ** 20
const AT_ONCE = 16
const CALLERS = 100
const TEXT_BYTES = 4_096
const TURNS = 8
const LISTS = 200
const TASKS = 10
const [what, size, folder] = [process.argv[2], Number(process.argv[3]), process.argv[4]!]

/** Text that nothing else has in common with. */
const text = () => randomBytes(TEXT_BYTES / 2).toString('hex')

const team = createTeam({
  agents: [{ name: 'ann', systemPrompt: 'Answer.' }],
  models: {
    default: {
      offline: true,
      async *complete() {
        yield { type: 'text', text: text() }
      },
    },
  },
  stateManagement: { path: folder, keep: { runs: 1e6, bytes: 2 ** 40, days: 1_000 } },
  orchestration: {
    strategy: 'custom',
    run: async (orchestrator, query) => {
      for (let turn = 0; turn < TURNS; turn++) await orchestrator.request('ann', `${query} ${text()}`)
      return 'done'
    },
  },
})

if (what === 'grow') await grow()
else console.log(JSON.stringify(await (what === 'open' ? open() : thread())))
process.exit()

async function grow(): Promise<void> {
  for (let runs = 0; logBytes() < size * MB; )
    await Promise.all(
      Array.from({ length: AT_ONCE }, () =>
        team.execute('why?', { metadata: { caller: `caller ${runs++ % CALLERS}` } }),
      ),
    )
  await team.flush()
  console.log('{}')
}

async function open(): Promise<Grown> {
  const delay = monitorEventLoopDelay({ resolution: 1 })
  delay.enable()
  const [startedAt, before] = [performance.now(), process.cpuUsage()]
  await team.listRuns({ limit: 1 })
  const openMs = performance.now() - startedAt
  const [cpuMs, longestMs] = [cpuMsSince(before), delay.max / 1e6]
  delay.disable()
  return { openMs, cpuMs, longestMs, listMs: await listed({}), ownMs: await listed({ caller: 'caller 7' }) }
}

/** The first task is left out: it logs what all of them have in common. */
async function thread(): Promise<Threaded> {
  await team.execute('why?', { threadId: 'talk' })
  const first = await loggedBy(TASKS)
  await loggedBy(TASKS * 3)
  return { first, last: await loggedBy(TASKS) }
}

async function loggedBy(tasks: number): Promise<number> {
  await team.flush()
  const before = logBytes()
  for (let task = 0; task < tasks; task++) await team.execute('why?', { threadId: 'talk' })
  await team.flush()
  return (logBytes() - before) / tasks
}

async function listed(filter: RunFilter): Promise<number> {
  const before = process.cpuUsage()
  for (let n = 0; n < LISTS; n++) await team.listRuns({ ...filter, limit: 12 })
  return cpuMsSince(before) / LISTS
}

function cpuMsSince(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1_000
}

function logBytes(): number {
  const segments = readdirSync(folder).filter((name) => name.endsWith('.log'))
  return segments.reduce((sum, name) => sum + statSync(join(folder, name)).size, 0)
}
