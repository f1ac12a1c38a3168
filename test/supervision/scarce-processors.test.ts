/** Rule 13 where there are more threads than processors: who was given none is not stuck. The figures are of Linux. */
import { existsSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import t from 'tap'
import { createTeam, type RuntimeEvent } from '../../src/index.ts'
import { ask, askAll, silent } from './teams.ts'

const module = new URL('../fixtures/supervision/computes.js', import.meta.url)
const skip = !existsSync('/proc/thread-self/schedstat') && 'the kernel tells no figures of threads here'

function teamOf(t: { teardown(end: () => Promise<void>): void }, agents: number, watchdogMs: number) {
  const team = createTeam({
    logger: silent,
    threads: { warmSpares: 0 },
    maxConcurrentAgents: agents,
    supervision: { watchdogMs },
    agents: Array.from({ length: agents }, (_, i) => ({ name: `worker-${i}`, module })),
    orchestration: askAll,
  })
  const crashes: Extract<RuntimeEvent, { type: 'agent.crashed' }>[] = []
  team.events.subscribe((event) => void (event.type === 'agent.crashed' && crashes.push(event)))
  t.teardown(() => team.close())
  return { team, crashes }
}

t.test('rule 13: agents that work at once, more of them than processors, are left alone', { skip }, async (t) => {
  const crowd = Math.min(24, 3 * availableParallelism())
  const { team, crashes } = teamOf(t, crowd, 350)
  const { agentOutputs } = await team.execute('compute 200')
  const answers = Object.values(agentOutputs).flatMap((outputs) => outputs.map(({ content }) => content))
  t.same(answers, Array(crowd).fill('attempt 1'))
  t.same(crashes, [])
})

t.test('rule 13: a thread that computes for watchdogMs is ended, and its death says so', { skip }, async (t) => {
  const { team, crashes } = teamOf(t, 1, 300)
  await t.rejects(ask(team, 'worker-0', 'compute 1000000'), { code: 'AGENT_CRASHED', message: /died 2 times/ })
  for (const { error } of crashes) {
    t.match(error.message, /it used \d+ ms of processor time, was blocked for \d+ ms and waited \d+ ms for a processor/)
    t.ok(Number(error.details?.processorMs) >= 150, `processor time ${error.details?.processorMs}`)
  }
})

t.test('rule 13: a thread that sleeps without its event loop uses no processor, and is ended', { skip }, async (t) => {
  const { team, crashes } = teamOf(t, 1, 300)
  t.equal(await ask(team, 'worker-0', 'sleep'), 'attempt 2')
  t.match(crashes, [{ error: { code: 'AGENT_CRASHED' } }])
  t.ok(Number(crashes[0]!.error.details?.blockedMs) >= 150)
})
