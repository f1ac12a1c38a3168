/**
 * Starts a team, or as many threads without an agent, side by side as a team does: how long it takes, and what resident memory it adds
 * in MB. With an idle time also that memory, and the share of a core that the process takes, when V8 has collected what the start
 * has left behind.
 *
 *   start.js agents|threads <count> <idle ms>
 */
import { availableParallelism } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { createTeam } from 'dramatis'

export interface Start {
  startMs: number
  /** Processor time until then, of all threads. */
  cpuMs: number
  addedMb: number
  /** These two are 0 where they were not asked for. */
  idleShare: number
  idleMb: number
}

/** For the spare thread to get ready. */
const SETTLE_MS = 1_000
/** V8 collects the garbage of threads that do nothing bit by bit, for more than a minute. */
const COLLECTED_MS = 75_000
const [kind, count, idleMs] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])]

const before = process.memoryUsage.rss()
const beganAt = performance.now()
const cpuBefore = process.cpuUsage()
const close = await (kind === 'agents' ? startTeam() : startThreads())
const startMs = performance.now() - beganAt
const cpuMs = cpuSince(cpuBefore)
await sleep(SETTLE_MS)
const addedMb = memoryAdded()
const idle = idleMs === 0 ? { idleShare: 0, idleMb: 0 } : await whileIdle()
await close()
console.log(JSON.stringify({ startMs, cpuMs, addedMb, ...idle } satisfies Start))

async function whileIdle(): Promise<Pick<Start, 'idleShare' | 'idleMb'>> {
  await sleep(COLLECTED_MS)
  const since = process.cpuUsage()
  await sleep(idleMs)
  return { idleShare: cpuSince(since) / idleMs, idleMb: memoryAdded() }
}

function memoryAdded(): number {
  return (process.memoryUsage.rss() - before) / 2 ** 20
}

function cpuSince(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1_000
}

async function startTeam(): Promise<() => Promise<void>> {
  const module = new URL('../agents/greeter.js', import.meta.url)
  const team = createTeam({
    agents: Array.from({ length: count }, (_, i) => ({ name: `greeter-${i + 1}`, module })),
    orchestration: { strategy: 'custom', run: async () => '' },
  })
  await team.start()
  return () => team.close()
}

async function startThreads(): Promise<() => Promise<void>> {
  const threads: Worker[] = []
  const startOne = () => {
    const code =
      "const { parentPort } = require('node:worker_threads'); parentPort.on('message', () => {}); parentPort.postMessage(0)"
    const thread = new Worker(code, { eval: true, env: {} })
    threads.push(thread)
    return new Promise((resolve) => thread.once('message', resolve))
  }
  const startOthers = async () => {
    while (threads.length < count) await startOne()
  }
  await Promise.all(Array.from({ length: Math.max(2, availableParallelism()) }, startOthers))
  return async () => {
    await Promise.all(threads.map((thread) => thread.terminate()))
  }
}
