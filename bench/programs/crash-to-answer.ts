/**
 * An agent's thread exits in the middle of a request; another thread takes the request over and answers it. In ms,
 * one per round: from the crash event and from the request to the answer, and the spawn of a raw thread beside it.
 *
 *   crash-to-answer.js <rounds>
 */
import { Worker } from 'node:worker_threads'
import { createTeam } from 'dramatis'

export interface CrashToAnswer {
  crashMs: number[]
  requestMs: number[]
  spawnMs: number[]
}

const rounds = Number(process.argv[2] ?? 1)
const times: CrashToAnswer = { crashMs: [], requestMs: [], spawnMs: [] }
let crashedAt = Number.NaN

const team = createTeam({
  agents: [{ name: 'crasher', module: new URL('../agents/crasher.js', import.meta.url) }],
  threads: { warmSpares: 1 },
  supervision: { maxRestarts: Number.POSITIVE_INFINITY, backoff: { baseMs: 0, capMs: 0 } },
  orchestration: {
    strategy: 'custom',
    run: async (orchestrator) => {
      for (let round = -1; round < rounds; round++) {
        await orchestrator.sleep(200) // the next spare gets ready meanwhile
        const spawnMs = await rawSpawnMs()
        await orchestrator.sleep(50)
        crashedAt = Number.NaN
        const askedAt = performance.now()
        const answer = await orchestrator.request('crasher', 'crash once')
        const answeredAt = performance.now()
        if (answer.content !== 'attempt 2') throw new Error(`expected the second attempt, got "${answer.content}"`)
        if (Number.isNaN(crashedAt)) throw new Error('the answer came before the event agent.crashed')
        if (round < 0) continue // warm-up: its first thread starts in this one
        times.spawnMs.push(spawnMs)
        times.crashMs.push(answeredAt - crashedAt)
        times.requestMs.push(answeredAt - askedAt)
      }
      return 'done'
    },
  },
})
team.events.subscribe((event) => {
  if (event.type === 'agent.crashed') crashedAt = performance.now()
})
const result = await team.execute('go')
await team.close()
if (!result.success) throw result.error
console.log(JSON.stringify(times))

/** The least that any design without spares pays: a new thread until its first word. */
async function rawSpawnMs(): Promise<number> {
  const startedAt = performance.now()
  const worker = new Worker('require("node:worker_threads").parentPort.postMessage(1)', { eval: true })
  await new Promise((resolve, reject) => worker.once('message', resolve).once('error', reject))
  const tookMs = performance.now() - startedAt
  await worker.terminate()
  return tookMs
}
