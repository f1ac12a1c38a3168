/**
 * What agents without a thread take, and how soon they get one: a team of many agents that share few threads. Each
 * agent is asked once, so that each request gives an agent a thread that another one loses.
 *
 *   registered-agents.js <agents> <threads> <requests>
 *
 * Prints the heap of an agent that has never had a thread, in KB, and how many agents got a thread in a second.
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { createTeam } from 'dramatis'

export interface RegisteredCosts {
  heapKb: number
  startMs: number
  activationsPerS: number
}

const [agents = 10_000, threads = 16, requests = 400] = process.argv.slice(2).map(Number)

setFlagsFromString('--expose-gc')
const collect: () => void = runInNewContext('gc')
const heapUsed = () => {
  collect()
  collect()
  return process.memoryUsage().heapUsed
}

const module = new URL('../agents/greeter.js', import.meta.url)
const teamOf = (count: number) =>
  createTeam({
    agents: Array.from({ length: count }, (_, i) => ({ name: `greeter-${i + 1}`, module })),
    threads: { max: threads },
    orchestration: { strategy: 'sequential' },
  })

const before = heapUsed()
const team = teamOf(agents)
const startedAt = performance.now()
await team.start()
const startMs = performance.now() - startedAt
const heapKb = (heapUsed() - before) / agents / 1_024

/** Callers that ask one agent after the other: twice as many as there are threads, so that some always wait. */
let asked = 0
async function caller(until: number): Promise<void> {
  while (asked < until) {
    const at = (asked++ * 7_919) % agents // far from each other
    await team.sendMessage({ recipient: `greeter-${at + 1}`, content: 'hello', requiresResponse: true })
  }
}
const callers = (until: number) => Promise.all(Array.from({ length: 2 * threads }, () => caller(until)))
await callers(2 * threads)
const since = performance.now()
await callers(2 * threads + requests)
const activationsPerS = requests / ((performance.now() - since) / 1_000)
await team.close()
const costs: RegisteredCosts = { heapKb, startMs, activationsPerS }
console.log(JSON.stringify(costs))
