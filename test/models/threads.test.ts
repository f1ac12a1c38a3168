/** Model calls of agents on real threads, whose threads die: their own, and those that they share. */

import type { Test } from 'tap'
import t from 'tap'
import { textOf } from '../../src/actors/definition/content.ts'
import type { ModelPiece, ModelRequest } from '../../src/actors/definition/model.ts'
import type { AgentRole } from '../../src/index.ts'
import { endShared } from '../fixtures/share-threads.ts'
import { gate, silent } from '../kit/team.ts'
import { FakeModel } from './fake-model.ts'
import { ThreadTeam } from './teams.ts'

const orchestration = { strategy: 'sequential' as const, agentOrder: ['ann'] }

/** What the agent has, and what is ended of it. */
const WAYS = ['its own thread', 'its seat in a shared thread', 'the thread that it shares'] as const

for (const way of WAYS) t.test(`with ${way}`, (t) => plays(t, way))

async function plays(t: Test, way: (typeof WAYS)[number]): Promise<void> {
  const isolation = way === 'its own thread' ? 'thread' : 'shared'

  function threadTeam(
    t: Pick<Test, 'teardown'>,
    model: { complete(request: ModelRequest): AsyncIterable<ModelPiece> },
    role: Omit<AgentRole, 'name'> = {},
  ): ThreadTeam {
    const agents: AgentRole[] = [{ name: 'ann', systemPrompt: 'Answer.', isolation, ...role }]
    if (isolation === 'shared') agents.push({ name: 'neighbour', isolation })
    const team = new ThreadTeam({ agents, orchestration, models: { default: model }, logger: silent })
    t.teardown(() => team.close())
    return team
  }

  const end = (team: ThreadTeam): void => {
    if (way === 'the thread that it shares') endShared(team.host.directory.agent('ann')!.incarnation?.thread)
    else team.end('ann')
  }

  await t.test('a role without code answers from its own thread', async (t) => {
    const model = new FakeModel(['hello'])
    const result = await threadTeam(t, model).execute('hi')
    t.equal(result.finalOutput, 'hello')
  })

  await t.test('a call that is under way when the thread dies is answered once', async (t) => {
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
    end(team)
    await restarted
    answer.open()
    const result = await pending
    t.equal(result.finalOutput, 'hello')
    t.equal(model.requests.length, 1)
    t.equal(result.totalTokenUsage.calls, 1)
  })

  await t.test('a call that is answered while nobody lives is answered once', async (t) => {
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
    end(team)
    t.equal((await pending).finalOutput, 'hello')
    t.equal(model.requests.length, 1)
  })

  await t.test('a streamed answer goes on after a death, and each piece is said once', async (t) => {
    const said = gate()
    const alive = gate()
    const team = threadTeam(t, {
      async *complete() {
        yield { text: 'hel' }
        await alive.opened
        yield { text: 'lo' }
      },
    })
    const run = team.launch('hi')
    const chunks: string[] = []
    const read = async () => {
      for await (const chunk of run.text()) {
        chunks.push(chunk)
        said.open()
      }
    }
    team.events.subscribe((event) => {
      if (event.type === 'turn.started' && event.attempt === 2) alive.open()
    })
    const reading = read()
    await said.opened
    end(team)
    await reading
    t.equal((await run.result).finalOutput, 'hello')
    t.same(chunks, ['hel', 'lo'])
  })

  await t.test('a summary is paid for once, whenever the thread dies', async (t) => {
    for (const when of ['while it is made', 'after it was made'] as const) {
      const called = gate()
      const alive = gate()
      const isSummary = ({ messages }: ModelRequest) => /You sum up/.test(textOf(messages[0]?.content ?? ''))
      let summarized = false
      const model = new FakeModel(async (request) => {
        if (!isSummary(request) && !summarized) return 'yes '.repeat(60)
        const isIt = (when === 'while it is made') === isSummary(request)
        summarized = true
        if (isIt) {
          called.open()
          await alive.opened
        }
        return isSummary(request) ? 'They spoke.' : 'at last'
      })
      const team = threadTeam(t, model, {
        maxTokens: 500,
        contextStrategy: { strategy: 'append_until_full', keepRecent: 2 },
      })
      team.events.subscribe((event) => {
        if (event.type === 'turn.started' && event.attempt === 2) alive.open()
      })
      let answer = ''
      void called.opened.then(() => end(team))
      for (let i = 0; answer !== 'at last'; i++)
        answer = (await team.execute(`question ${i}`, { threadId: 'a' })).finalOutput ?? 'none'
      t.equal(model.requests.filter(isSummary).length, 1, when)
      t.match(model.requests.at(-1)?.messages[0]?.content, /Answer/)
      t.equal(new Set(model.requests.map(({ messages }) => messages.at(-1)?.content)).size, model.requests.length)
      await team.close()
    }
  })
}
