/** The role option `concurrency` on real threads: runs that interleave, and do not mix. */
import t from 'tap'
import { type AgentRole, createTeam } from '../../src/index.ts'
import { numbers, silent } from './teams.ts'

const fixture = (name: string) => new URL(`../fixtures/supervision/${name}.js`, import.meta.url)

function start(t: { teardown(end: () => Promise<void>): void }, worker: Omit<AgentRole, 'name' | 'module'>) {
  const team = createTeam({
    logger: silent,
    threads: { warmSpares: 0 },
    supervision: { maxRestarts: 9, backoff: { baseMs: 0, capMs: 0 } },
    orchestration: {
      strategy: 'custom',
      run: async (script, query) => {
        const { content, structuredData } = await script.request('worker', query)
        return { content, structuredData }
      },
    },
    agents: [
      { ...worker, name: 'worker', module: fixture('interleaves') },
      { name: 'echo', module: fixture('echoes'), concurrency: 16 },
    ],
  })
  t.teardown(() => team.close())
  return team
}

t.test('16 runs have their turns open in one thread at once', async (t) => {
  const team = start(t, { concurrency: 16 })
  const results = await Promise.all(numbers(16).map((runId) => team.execute('wait 16', { runId })))
  t.same(
    results.map(({ finalOutput }) => finalOutput),
    numbers(16).map((runId) => `${runId} 0`),
  )
  t.equal(team.health().agents.worker?.restarts, 0)
})

t.test('while one run waits for what never comes the others of its thread go on', async (t) => {
  const team = start(t, { concurrency: 4 })
  const waits = team.launch('wait 99', { runId: 'waits' })
  const others = await Promise.all(numbers(12).map((runId) => team.execute('sum 5', { runId })))
  t.ok(others.every(({ success }) => success))
  t.equal(waits.status, 'running')
  await waits.cancel()
})

t.test('50 runs never mix', async (t) => {
  const team = start(t, { concurrency: 16 })
  const results = await Promise.all(numbers(50).map((runId) => team.execute('sum 20', { runId })))
  for (const [i, { finalOutput, agentOutputs }] of results.entries()) {
    t.equal(finalOutput, `${i} 190`)
    t.match(agentOutputs.worker, [{ structuredData: { attempt: 1, asked: 20 } }])
    t.same(
      agentOutputs.echo?.map(({ content }) => content),
      numbers(20),
    )
  }
})

for (const fate of ['exit', 'loop']) {
  t.test(`rule 7: a thread that dies of "${fate}" in one of its turns loses none of the others`, async (t) => {
    const team = start(t, { concurrency: 8, supervision: { watchdogMs: 300 } })
    const guilty = team.execute(fate, { runId: 'guilty' })
    const results = await Promise.all(numbers(7).map((runId) => team.execute('sum 60', { runId })))
    t.same(
      results.map(({ finalOutput }) => finalOutput),
      numbers(7).map((runId) => `${runId} 1770`),
    )
    t.equal((await guilty).finalOutput, 'guilty 0')
    t.same(team.deadLetters.list(), [])
  })
}
