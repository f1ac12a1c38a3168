/** Model calls of agents on real threads, whose threads die. */
import t from 'tap'
import type { ModelPiece, ModelRequest } from '../../src/actors/model.ts'
import { gate, silent } from '../supervision/teams.ts'
import { FakeModel } from './fake-model.ts'
import { ThreadTeam } from './teams.ts'

type Test = Pick<typeof t, 'teardown'>

const orchestration = { strategy: 'sequential' } as const

function threadTeam(t: Test, model: { complete(request: ModelRequest): AsyncIterable<ModelPiece> }): ThreadTeam {
  const agents = [{ name: 'ann', systemPrompt: 'Answer.' }]
  const team = new ThreadTeam({ agents, orchestration, models: { default: model }, logger: silent })
  t.teardown(() => team.close())
  return team
}

t.test('a role without code answers from its own thread', async (t) => {
  const model = new FakeModel(['hello'])
  const result = await threadTeam(t, model).execute('hi')
  t.equal(result.finalOutput, 'hello')
})

t.test('a call that is under way when the thread dies is answered once', async (t) => {
  const called = gate()
  const answer = gate()
  const model = new FakeModel(async () => {
    called.open()
    await answer.opened
    return 'hello'
  })
  const team = threadTeam(t, model)
  const restarted = new Promise<void>((resolve) => {
    team.events.subscribe((event) => {
      if (event.type === 'turn.started' && event.attempt === 2) resolve()
    })
  })
  const pending = team.execute('hi')
  await called.opened
  team.end('ann')
  await restarted
  answer.open()
  const result = await pending
  t.equal(result.finalOutput, 'hello')
  t.equal(model.requests.length, 1)
  t.equal(result.totalTokenUsage.calls, 1)
})

t.test('a call that is answered while nobody lives is answered once', async (t) => {
  const called = gate()
  const dead = gate()
  const model = new FakeModel(async () => {
    called.open()
    await dead.opened
    return 'hello'
  })
  const team = threadTeam(t, model)
  team.events.subscribe((event) => {
    if (event.type === 'agent.crashed') dead.open()
  })
  const pending = team.execute('hi')
  await called.opened
  team.end('ann')
  t.equal((await pending).finalOutput, 'hello')
  t.equal(model.requests.length, 1)
})

t.test('a streamed answer goes on after a death, and each piece is said once', async (t) => {
  const said = gate()
  const alive = gate()
  const team = threadTeam(t, {
    async *complete() {
      yield { text: 'hel' }
      await alive.opened
      yield { text: 'lo' }
    },
  })
  const chunks: string[] = []
  team.events.subscribe((event) => {
    if (event.type === 'output.delta') {
      chunks.push(event.chunk)
      said.open()
    } else if (event.type === 'turn.started' && event.attempt === 2) alive.open()
  })
  const pending = team.execute('hi')
  await said.opened
  team.end('ann')
  t.equal((await pending).finalOutput, 'hello')
  t.same(chunks, ['hel', 'lo'])
})
