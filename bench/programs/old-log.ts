/**
 * Writes a log, and then, in another process, goes on with it.
 *
 *   old-log.js handled <messages> <folder>     writes: an agent has handled so many messages of 200 characters
 *   old-log.js open <runs> <folder>            writes: so many runs wait for a person when the team is closed
 *   old-log.js resume <runs> <folder>          goes on, until so many questions are open; 0: until all agents are ready
 */
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { createTeam } from 'dramatis'
import type { Order } from '../agents/producer.ts'
import { SIZE } from '../workload.ts'

export interface Resumed {
  ms: number
  /** Of the log. */
  mb: number
  /** Largest resident memory. */
  peakMb: number
}

const MB = 2 ** 20
const [what, much, folder] = [process.argv[2], Number(process.argv[3]), process.argv[4]!]
const startedAt = performance.now()
const team = createTeam({
  agents: [
    { name: 'producer', module: new URL('../agents/producer.js', import.meta.url) },
    { name: 'counter', module: new URL('../agents/counter.js', import.meta.url) },
    { name: 'asker', module: new URL('../agents/asks-person.js', import.meta.url), concurrency: 256 },
  ],
  stateManagement: { path: folder },
  maxConcurrentRuns: 10_000,
  orchestration: {
    strategy: 'custom',
    run: async (orchestrator, query) => {
      if (query === 'ask') return (await orchestrator.request('asker', query)).content
      const structuredData: Order = { to: 'counter', count: much, size: SIZE, inFlight: 64 }
      await orchestrator.request('producer', 'go', { structuredData })
      return String((await orchestrator.request('counter', 'how many?')).content)
    },
  },
})

if (what === 'handled') {
  const result = await team.execute('send', { timeoutMs: 600_000 })
  if (!result.success) throw result.error
} else if (what === 'open') {
  for (let run = 0; run < much; run++) team.launch('ask', { runId: `run-${run}` })
  await questionsOpen(much)
  await team.flush()
} else {
  await team.start()
  await questionsOpen(much)
}
const ms = performance.now() - startedAt
const bytes = readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0)
const peakMb = process.resourceUsage().maxRSS / 1_024
await team.close()
console.log(JSON.stringify({ ms, mb: bytes / MB, peakMb } satisfies Resumed))

async function questionsOpen(count: number): Promise<void> {
  while (team.questions().length < count) await new Promise((resolve) => setImmediate(resolve))
}
