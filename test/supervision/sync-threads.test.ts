/** Rule 31 on real threads: who has arrived stays so while its thread is replaced. */
import t from 'tap'
import { createTeam, type OrchestratorContext } from '../../src/index.ts'
import { gate, numbers, silent } from './teams.ts'

const module = new URL('../fixtures/supervision/meets.js', import.meta.url)

function start(
  t: { teardown(end: () => Promise<void>): void },
  names: string[],
  run: (script: OrchestratorContext) => Promise<string>,
) {
  const team = createTeam({
    agents: names.map((name) => ({ name, module })),
    orchestration: { strategy: 'custom', run },
    syncPoints: [{ name: 'meet', requiredAgents: names, timeoutMs: 60_000 }],
    threads: { warmSpares: 0 },
    logger: silent,
  })
  t.teardown(() => team.close())
  return team
}

t.test('rule 31: a thread that dies while it waits leaves its arrival behind', async (t) => {
  const died = gate()
  const team = start(t, ['ann', 'bob'], async (script) => {
    const ann = script.request('ann', 'die')
    await died.opened
    const bob = await script.request('bob', 'go')
    const { generation } = await script.synced('meet')
    return `${(await ann).content}; ${bob.content}; ${generation}`
  })
  team.events.subscribe((event) => {
    if (event.type === 'agent.crashed') died.open()
  })
  const { finalOutput, orchestrationTrace } = await team.execute('go')
  t.equal(finalOutput, 'ann: 1 ann,bob ann,bob in 2; bob: 1 ann,bob ann,bob in 1; 1')
  t.equal(orchestrationTrace.events.filter(({ eventType }) => eventType === 'sync').length, 1)
})

t.test('rule 31: six threads meet twenty times', async (t) => {
  const names = numbers(6).map((n) => `agent${n}`)
  const team = start(t, names, async (script) => {
    const generations: number[] = []
    for (let round = 0; round < 20; round++) {
      await script.requestAll(names, 'go')
      const { generation, missing } = await script.synced('meet')
      if (missing.length === 0) generations.push(generation)
    }
    return generations.join()
  })
  const { finalOutput } = await team.execute('go')
  t.equal(
    finalOutput,
    numbers(20)
      .map((n) => Number(n) + 1)
      .join(),
  )
})
