/**
 * Seven agents that wait, beside one whose thread is in an endless loop: ms until all seven have answered, and ms
 * until `close()` has got rid of the looping one.
 *
 *   beside-a-loop.js <rounds>
 */
import { createTeam } from 'dramatis'

export interface BesideALoop {
  tookMs: number[]
  closeMs: number
}

const rounds = Number(process.argv[2] ?? 1)
const waiters = Array.from({ length: 7 }, (_, i) => `waiter-${i + 1}`)

let onMeasured: (tookMs: number[]) => void
const measured = new Promise<number[]>((resolve) => {
  onMeasured = resolve
})

const team = createTeam({
  agents: [
    { name: 'looper', module: new URL('../agents/looper.js', import.meta.url) },
    ...waiters.map((name) => ({ name, module: new URL('../agents/waiter.js', import.meta.url) })),
  ],
  // one run holds the loop and the seven, each with a permit
  maxConcurrentAgents: 8,
  orchestration: {
    strategy: 'custom',
    run: async (orchestrator) => {
      const askAll = async () => {
        const startedAt = performance.now()
        const outcomes = await orchestrator.requestAll(waiters, 'wait')
        const tookMs = performance.now() - startedAt
        for (const outcome of outcomes) if (!outcome.ok) throw outcome.error
        return tookMs
      }
      await askAll() // now their threads are up
      const looping = orchestrator.request('looper', 'loop')
      await orchestrator.sleep(300) // now the looping one's is
      const tookMs: number[] = []
      for (let round = 0; round < rounds; round++) tookMs.push(await askAll())
      onMeasured(tookMs)
      await looping // never answers: close() ends this run
      return 'unreachable'
    },
  },
})

const run = team.launch('go')
const failed = run.result.then((result) => Promise.reject(result.error ?? new Error('the endless loop ended')))
const tookMs = await Promise.race([measured, failed])
const status = team.getAgentStatus('looper')
if (status !== 'running') throw new Error(`the loop should still run, but its agent is ${status}`)

const closedAt = performance.now()
await team.close()
const closeMs = performance.now() - closedAt
console.log(JSON.stringify({ tookMs, closeMs } satisfies BesideALoop))
