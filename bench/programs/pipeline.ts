/**
 * A pipeline of agents that do nothing, run after run: what one step costs, in us. The agents are code, or are played by
 * a model that answers at once, each on a thread of its own or all on a shared one.
 *
 *   pipeline.js <steps> <runs> <runs before> [model | shared]
 */
import { createTeam } from 'dramatis'
import type { ModelClient } from 'dramatis/models'

export interface Pipeline {
  usPerStep: number
  /** Processor time of the whole process. */
  cpuUsPerStep: number
}

const TEXT = 'pass it on'
const [steps = 1, runs = 1, before = 0] = process.argv.slice(2).map(Number)
const played = process.argv[5]
const code = { module: new URL('../agents/stage.js', import.meta.url) }
const echo: ModelClient = {
  offline: true,
  async *complete() {
    yield { text: TEXT }
    yield { finishReason: 'stop' }
  },
}

const team = createTeam({
  agents: Array.from({ length: steps }, (_, i) => ({ name: `stage-${i + 1}`, ...(!played && code) })),
  models: { default: echo },
  threads: { isolation: played === 'shared' ? 'shared' : 'thread' },
  orchestration: { strategy: 'sequential' },
})
for (let i = 0; i < before; i++) await run()
const cpu = process.cpuUsage()
const startedAt = performance.now()
for (let i = 0; i < runs; i++) await run()
const usPerStep = ((performance.now() - startedAt) * 1_000) / runs / steps
const { user, system } = process.cpuUsage(cpu)
const pipeline: Pipeline = { usPerStep, cpuUsPerStep: (user + system) / runs / steps }
await team.close()
console.log(JSON.stringify(pipeline))

async function run(): Promise<void> {
  const { finalOutput, error } = await team.execute(TEXT)
  if (finalOutput !== TEXT) throw error ?? new Error(`The pipeline answered ${finalOutput}.`)
}
