/** A turn of many steps whose thread dies at any of them: each model call was made once, and each tool was used once. */
import t from 'tap'
import type { MultiAgentPatternOptions } from '../../src/team.ts'
import { OpenTeam, silent } from '../kit/team.ts'
import { calls, FakeModel } from './fake-model.ts'
import { killAt } from './killed-turns.ts'
import { ThreadTeam } from './teams.ts'

type Test = Pick<typeof t, 'teardown'>

/** Six model calls with five calls of tools between them, beside what the host says when the turn begins. */
const answers = () => [
  calls(['request', { to: 'bob', content: 'one' }]),
  calls(['publish', { key: 'fact', value: 1, entryType: 'fact' }]),
  calls(['read_blackboard', {}]),
  calls(['delegate', { to: 'bob', task: 'two' }], ['request', { to: 'bob', content: 'three' }]),
  calls(['agent_status', {}]),
  [{ text: 'do' }, { text: 'ne' }],
]
const PLACES = 2 * (1 + 6 + 6)

const agents = [
  { name: 'ann', tools: ['request', 'delegate', 'publish', 'read_blackboard', 'agent_status'] },
  { name: 'bob' },
]

const options = (model: FakeModel): Omit<MultiAgentPatternOptions, 'agents'> => ({
  models: { default: model },
  logger: silent,
  orchestration: { strategy: 'sequential', agentOrder: ['ann'] },
  supervision: { maxRestarts: Number.POSITIVE_INFINITY, backoff: { baseMs: 0, capMs: 0 }, poisonAttempts: 1_000 },
})

/** In this thread. */
class LocalTeam extends OpenTeam {
  end(agent: string): void {
    this.crash(agent)
  }
}

/** By what it was asked it says what to do next, so that a call that is made twice shows. */
const modelFor = () => {
  const script = answers()
  return new FakeModel(({ agent, messages }) =>
    agent === 'bob' ? 'yes' : script[messages.filter(({ role }) => role === 'assistant').length]!,
  )
}

interface Played {
  places: number
  calls: { ann: number; bob: number }
  said: string[]
  output: string | null
  spent: number
  versions: number
  mismatches: number
}

/** The team is asked once, and its agent dies at these places. */
async function play(
  team: ThreadTeam | LocalTeam,
  model: FakeModel,
  places: (place: number) => boolean,
): Promise<Played> {
  const said: string[] = []
  let versions = 0
  team.events.subscribe((event) => {
    if (event.type === 'blackboard') versions = event.entry.version
  })
  await team.start()
  const count = killAt(team, 'ann', places)
  const run = team.launch('go')
  for await (const text of run.text()) said.push(text)
  const result = await run.result
  const of = (name: string) => model.requests.filter(({ agent }) => agent === name).length
  return {
    places: count(),
    calls: { ann: of('ann'), bob: of('bob') },
    said,
    output: result.finalOutput ?? result.error?.message ?? null,
    spent: result.totalTokenUsage.calls,
    versions,
    mismatches: result.orchestrationTrace.events.filter(({ eventType }) => eventType === 'step.mismatch').length,
  }
}

const WELL: Omit<Played, 'places'> = {
  calls: { ann: 6, bob: 3 },
  said: ['do', 'ne'],
  output: 'done',
  spent: 9,
  versions: 1,
  mismatches: 0,
}

function inVirtualTime(t: Test, model: FakeModel): LocalTeam {
  const team = new LocalTeam({ ...options(model), agents }, new Map(), 1)
  t.teardown(() => team.close())
  return team
}

function onThreads(t: Test, model: FakeModel): ThreadTeam {
  const team = new ThreadTeam({ ...options(model), agents })
  t.teardown(() => team.close())
  return team
}

// On threads some of them: each needs new ones.
for (const [where, make, step] of [
  ['in virtual time', inVirtualTime, 1],
  ['on threads', onThreads, 5],
] as const) {
  t.test(`a turn that nothing cuts off, ${where}`, async (t) => {
    const model = modelFor()
    t.match(await play(make(t, model), model, () => false), { ...WELL, places: PLACES })
  })

  t.test(`a turn that is cut off at one place, ${where}`, async (t) => {
    for (let at = 1; at <= PLACES; at += step) {
      const model = modelFor()
      t.match(await play(make(t, model), model, (place) => place === at), WELL, `at ${at}`)
    }
  })

  t.test(`a turn that is cut off at every place, ${where}`, async (t) => {
    const model = modelFor()
    t.match(await play(make(t, model), model, () => true), WELL)
  })
}

t.test('a turn that goes on has the conversation that it began with', async (t) => {
  const played = async (places: (place: number) => boolean) => {
    const model = new FakeModel(({ messages }) => {
      const { role, content } = messages.at(-1)!
      if (role === 'tool') return 'second'
      return content === 'one' ? 'first' : calls(['publish', { key: 'fact', value: 1, entryType: 'fact' }])
    })
    const team = new LocalTeam(
      {
        ...options(model),
        agents: [{ name: 'ann', tools: ['publish'] }],
        orchestration: {
          strategy: 'custom',
          run: async (script) => {
            for (const query of ['one', 'two']) await script.request('ann', query)
            return 'done'
          },
        },
      },
      new Map(),
      1,
    )
    t.teardown(() => Promise.all([team.close(), team.clock.runToIdle()]))
    const starting = team.start()
    await team.clock.runToIdle()
    await starting
    const count = killAt(team, 'ann', places)
    const run = team.launch('go')
    await team.clock.runToIdle()
    t.equal((await run.result).finalOutput, 'done')
    const prompts = model.requests.map(({ messages }) =>
      messages
        .slice(1)
        .map(({ content }) => content)
        .join(),
    )
    return { prompts: prompts.map((prompt) => prompt.split(',').slice(0, 3).join()), places: count() }
  }
  const { prompts, places } = await played(() => false)
  t.same(prompts, ['one', 'one,first,two', 'one,first,two'])
  t.ok(places >= 8)
  for (let at = 1; at <= places; at++)
    t.same((await played((place) => place === at)).prompts, prompts, `ended at place ${at}`)
})
