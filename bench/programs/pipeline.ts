/**
 * A pipeline of agents that do nothing, run after run: what one step costs, in us.
 *
 *   pipeline.js <steps> <runs> <runs before>
 */
import { createTeam } from 'dramatis'

export interface Pipeline {
  usPerStep: number
}

const TEXT = 'pass it on'
const [steps = 1, runs = 1, before = 0] = process.argv.slice(2).map(Number)
const module = new URL('../agents/stage.js', import.meta.url)

const team = createTeam({
  agents: Array.from({ length: steps }, (_, i) => ({ name: `stage-${i + 1}`, module })),
  orchestration: { strategy: 'sequential' },
})
for (let i = 0; i < before; i++) await run()
const startedAt = performance.now()
for (let i = 0; i < runs; i++) await run()
const pipeline: Pipeline = { usPerStep: ((performance.now() - startedAt) * 1_000) / runs / steps }
await team.close()
console.log(JSON.stringify(pipeline))

async function run(): Promise<void> {
  const { finalOutput, error } = await team.execute(TEXT)
  if (finalOutput !== TEXT) throw error ?? new Error(`The pipeline answered ${finalOutput}.`)
}
