/**
 * What a team of model agents takes that share threads, or have a thread each. All agents are asked at once, again and
 * again; the model answers a text of some 400 characters after a pause, as models do.
 *
 *   model-roles.js <shared|thread> <agents> <rounds>
 *
 * Memory is the resident set of the whole process beyond what it was before anything was imported, in units of 2^20
 * bytes: the runtime and its host's heap are in it.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { ModelClient } from 'dramatis'

const rssMb = () => process.memoryUsage.rss() / 2 ** 20
const atBegin = rssMb()
const { createTeam } = await import('dramatis')
const importedMb = rssMb() - atBegin

export interface ModelRoles {
  /** The runtime alone. */
  importedMb: number
  startMs: number
  startedMb: number
  /** When each agent has answered in each round. */
  answeredMb: number
  /** One round: all agents are asked at once, and have answered. */
  roundMs: number
}

const MODEL_MS = 20
/** For what the work has left behind to go, and for the spare thread to get ready. */
const SETTLE_MS = 1_000

const [isolation = 'shared', count = '200', rounds = '5'] = process.argv.slice(2)
const names = Array.from({ length: Number(count) }, (_, i) => `speaker-${i + 1}`)
const ANSWER = 'What the speaker says of it. '.repeat(14)

const model: ModelClient = {
  rehearsal: true,
  async *complete({ signal }) {
    await sleep(MODEL_MS, undefined, { signal })
    yield { text: ANSWER }
    yield { usage: { inputTokens: 400, outputTokens: 100, totalTokens: 500, calls: 1 }, finishReason: 'stop' }
  },
}

const team = createTeam({
  agents: names.map((name) => ({ name, systemPrompt: `You are ${name}. ${'Be brief. '.repeat(40)}` })),
  threads: { isolation: isolation === 'shared' ? 'shared' : 'thread' },
  models: { default: { client: model, maxConcurrent: 400 } },
  maxConcurrentAgents: 400,
  orchestration: {
    strategy: 'custom',
    run: async (orchestrator, query) => {
      for (const outcome of await orchestrator.requestAll(names, query)) if (!outcome.ok) throw outcome.error
      return 'done'
    },
  },
})
const beganAt = performance.now()
await team.start()
const startMs = performance.now() - beganAt
const startedMb = rssMb() - atBegin

const roundMs: number[] = []
for (let round = 0; round < Number(rounds); round++) {
  const since = performance.now()
  const result = await team.execute(`What do you say of it, in round ${round}? ${'It is long. '.repeat(50)}`)
  if (!result.success) throw result.error
  roundMs.push(performance.now() - since)
}
await sleep(SETTLE_MS)
const answeredMb = rssMb() - atBegin
await team.close()
roundMs.sort((a, b) => a - b)
const costs: ModelRoles = { importedMb, startMs, startedMb, answeredMb, roundMs: roundMs[roundMs.length >> 1] ?? 0 }
console.log(JSON.stringify(costs))
