/** Calls of models in turns whose thread dies: made once, whatever thread asked. */

import t, { type Test } from 'tap'
import { textOf } from '../../src/actors/definition/content.ts'
import type { ModelPiece, ModelRequest } from '../../src/actors/definition/model.ts'
import type { AgentRole, Run } from '../../src/index.ts'
import type { MultiAgentPatternOptions } from '../../src/team.ts'
import { type ModelServer, modelServer } from '../fixtures/model-server.ts'
import type { Answer } from '../fixtures/model-wire.ts'
import { endShared } from '../fixtures/share-threads.ts'
import { howMany } from '../how-many.ts'
import { gate, OpenTeam, silent } from '../kit/team.ts'
import { ledger, recordModule } from '../toolbox/desk.ts'
import { adder } from '../toolbox/tools.ts'
import { calls, FakeModel } from './fake-model.ts'
import { killAt } from './killed-turns.ts'
import { ThreadTeam } from './teams.ts'

// A turn of many steps whose thread dies at any of them: each model call was made once, and each tool was used once.

type KilledTurnsTest = Pick<typeof t, 'teardown'>

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

function inVirtualTime(t: KilledTurnsTest, model: FakeModel): LocalTeam {
  const team = new LocalTeam({ ...options(model), agents }, new Map(), 1)
  t.teardown(() => team.close())
  return team
}

function onThreads(t: KilledTurnsTest, model: FakeModel): ThreadTeam {
  const team = new ThreadTeam({ ...options(model), agents })
  t.teardown(() => team.close())
  return team
}

// On threads some of them: each needs new ones.
for (const [where, make, step] of [
  ['in virtual time', inVirtualTime, howMany(3, 1)],
  ['on threads', onThreads, howMany(13, 5)],
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

// A turn of eleven steps on a real thread, played by a model behind a socket, with tools in the host, in the thread
// and in a
// thread of their own. Its thread is ended after each step, and in the middle of each call of the model: what has
// happened
// outside of the thread has happened once. So it is where an answer without tools is read along as it comes.

/**
 * What the turn does: what stands together is under way at once. Each begins at one place and has ended at another, and all of
 * one line before the next.
 */
const STEPS = [
  ['model'],
  ['host', 'thread', 'isolated'],
  ['model'],
  ['isolated'],
  ['model'],
  ['host'],
  ['model'],
  ['thread'],
  ['model'],
]
/** By place, from 1 on: what is under way there. */
const AT_PLACES = [[], ...STEPS.flatMap((steps) => Array.from({ length: 2 * steps.length }, () => steps))]
const KILLED_ON_THREADS_PLACES = AT_PLACES.length - 1
/** What may be under way when a thread is gone that is ended there: it goes on until the order to end reaches it. */
const underWayAt = (place: number) => [...AT_PLACES[place]!, ...(AT_PLACES[place + 1] ?? [])]
const CALLS = STEPS.filter(([step]) => step === 'model').length

/** By how many answers it has given in the run. No two sums of usage are the same. The last one tells what tools gave. */
function answerOf(nth: number, shared: string, alone: string, outputs: string[]): Answer {
  const usage = { inputTokens: 10 ** nth, outputTokens: 2 ** nth }
  const add = (a: number) => ({ name: 'add', input: { a } })
  const again = { name: 'again', input: { file: shared } }
  const record = { name: 'record', input: { file: alone } }
  switch (nth) {
    case 0:
      return { toolCalls: [add(1), again, record], usage }
    case 1:
      return { toolCalls: [record], usage }
    case 2:
      return { toolCalls: [add(2)], usage }
    case 3:
      return { toolCalls: [again], usage }
    default: {
      const [one, , two, three, four] = outputs.map((output) => JSON.parse(output) as { sum?: number; runs?: number })
      return { text: [`${one?.sum} `, `${two?.runs} ${three?.runs} `, `${four?.sum}`], usage }
    }
  }
}

interface Ending {
  /** The thread ends there. */
  place?: number
  /** It ends while the provider has said half of this answer; the rest comes when there is a new thread. */
  within?: number
}

/** One team for many runs, one after the other. */
async function stage(t: KilledTurnsTest, server: ModelServer) {
  const { tool, calls: sums } = adder()
  const team = new ThreadTeam({
    agents: [
      {
        name: 'ann',
        tools: [tool, { module: recordModule, export: 'again' }, { module: recordModule, isolate: true }],
      },
    ],
    models: { default: { model: 'small', baseURL: server.baseURL, apiKey: 'key-of-the-team-1' } },
    orchestration: { strategy: 'sequential' },
    supervision: { maxRestarts: Number.POSITIVE_INFINITY, backoff: { baseMs: 0, capMs: 0 }, poisonAttempts: 10 },
    logger: silent,
  })
  t.teardown(() => team.close())
  await team.start()
  const said: string[] = []
  let died = gate()
  team.events.subscribe((event) => {
    if (event.type === 'agent.crashed') died.open()
  })
  let next = 0
  const places = killAt(team, 'ann', (place) => place === next)

  return async ({ place = 0, within }: Ending) => {
    const [shared, alone] = [ledger(t), ledger(t)]
    const [asked, begun] = [server.calls.length, places()]
    const { opened: released, open: release } = gate()
    next = place === 0 ? 0 : begun + place
    died = gate()
    server.always(({ body: { messages } }) => {
      const outputs = messages.filter(({ role }) => role === 'tool').map(({ content }) => content ?? '')
      const nth = messages.filter(({ role }) => role === 'assistant').length
      const answer = answerOf(nth, shared.file, alone.file, outputs)
      return { ...answer, ...(nth === within && { between: released }) }
    })
    const run = team.launch('go')
    const reading = read(run, said)
    if (within !== undefined) {
      await server.called(asked + within + 1)
      team.end('ann')
      await died.opened
      await team.host.lifecycle.ready(team.host.directory.agent('ann')!)
      release()
    }
    const { finalOutput, totalTokenUsage, orchestrationTrace, error } = await run.result
    await reading
    if (place > 0) await died.opened
    const keys = new Set(shared.keys()).size
    return {
      output: finalOutput ?? error?.message,
      said: said.splice(0),
      asked: server.calls.slice(asked).map(({ body }) => body.messages.length),
      usage: totalTokenUsage,
      sums: sums.splice(0).map(({ a }) => a),
      alone: alone.runs(),
      shared: { calls: keys, repeated: shared.runs() - keys },
      mismatches: orchestrationTrace.events.filter(({ eventType }) => eventType === 'step.mismatch').length,
      places: places() - begun,
    }
  }
}

async function read(run: Run, said: string[]): Promise<void> {
  for await (const text of run.text()) said.push(text)
}

/** What a run is like, whatever has died. */
const KILLED_ON_THREADS_WELL = {
  output: '2 1 2 3',
  said: ['2 ', '1 2 ', '3'],
  asked: [2, 6, 8, 10, 12],
  usage: { inputTokens: 11_111, outputTokens: 31, totalTokens: 11_142, calls: CALLS },
  sums: [1, 2],
  alone: 2,
  shared: { calls: 2, repeated: 0 },
  mismatches: 0,
}

t.test('eleven steps, of which three are under way at once, and their thread ends at one place', async (t) => {
  const play = await stage(t, await modelServer(t))
  t.strictSame(await play({}), { ...KILLED_ON_THREADS_WELL, places: KILLED_ON_THREADS_PLACES }, 'nowhere')
  for (let place = 1; place <= KILLED_ON_THREADS_PLACES; place += howMany(3, 1)) {
    const { places: _, ...played } = await play({ place })
    // The idempotent tool was about to run in the thread that ended, or did: then nobody knows whether it has.
    const mayRepeat = underWayAt(place).includes('thread') && played.shared.repeated === 1
    const shared = { calls: 2, repeated: mayRepeat ? 1 : 0 }
    t.strictSame(played, { ...KILLED_ON_THREADS_WELL, shared }, `at ${place}`)
  }
})

t.test('eleven steps, and their thread ends in the middle of an answer', async (t) => {
  const play = await stage(t, await modelServer(t))
  for (let within = 0; within < CALLS; within += howMany(2, 1))
    t.strictSame(
      await play({ within }),
      { ...KILLED_ON_THREADS_WELL, places: KILLED_ON_THREADS_PLACES },
      `in answer ${within}`,
    )
})

for (const [answers, whole, pieces] of [
  ['in a stream', false, ['one ', 'two ', 'three']],
  ['in one body', true, ['one two three']],
] as const)
  t.test(`an answer ${answers} is read along, and its thread ends in the middle`, async (t) => {
    const server = await modelServer(t)
    const team = new ThreadTeam({
      agents: [{ name: 'ann' }],
      models: { default: { model: 'small', baseURL: server.baseURL, apiKey: 'key-of-the-team-1' } },
      orchestration: { strategy: 'sequential' },
      supervision: { backoff: { baseMs: 0, capMs: 0 } },
      logger: silent,
    })
    t.teardown(() => team.close())
    const revived = gate()
    server.always({ text: ['one ', 'two ', 'three'], whole, between: revived.opened })
    team.events.subscribe((event) => {
      if (event.type === 'turn.started' && event.attempt === 2) revived.open()
    })
    const run = team.launch('go')
    const said: string[] = []
    const reading = read(run, said)
    await server.called(1)
    team.end('ann')
    await reading
    t.strictSame(said, pieces, 'each piece comes once')
    t.equal((await run.result).finalOutput, 'one two three')
    t.strictSame(
      server.calls.map(({ body }) => body.stream),
      [true],
    )
  })

// Model calls of agents on real threads, whose threads die: their own, and those that they share.

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
