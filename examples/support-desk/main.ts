/** Evaluates the desk: asks what customers have asked, and compares what it does with what is expected. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { createTeam } from 'dramatis'
import { cases } from './cases.ts'
import { modelServers } from './model-servers.ts'
import { Answer, desk } from './team.ts'

const folder = await mkdtemp(join(tmpdir(), 'support-desk-'))
const { models, processes } = await modelServers()
const team = createTeam(desk(folder, models))
team.events.subscribe((event) => {
  if (event.type === 'question') void team.answer(event.questionId, 'yes', { by: { id: 'bob', groups: ['finance'] } })
  if (event.type === 'model.switched') console.log(`  ${event.from} is ${event.reason}: ${event.to} answers`)
})
let [misses, cost] = [0, 0]
for (const { asks, tenant, ...expected } of cases) {
  const { speaker, data, error, money } = await team.launch(asks, { tenant, output: Answer }).result
  const isRight = isDeepStrictEqual({ speaker, about: data?.about, refundedCents: data?.refundedCents }, expected)
  console.log(`${isRight ? 'ok ' : 'NOT'} ${tenant}: ${asks} -> ${error?.message ?? data?.text}`)
  misses += isRight ? 0 : 1
  cost += money?.amount ?? 0
  processes[0]?.kill() // the others are answered all the same
}
console.log(`${cases.length - misses} of ${cases.length} cases as expected, for ${cost.toFixed(4)} EUR`)
await team.close()
await rm(folder, { recursive: true })
process.exit(misses > 0 ? 1 : 0)
