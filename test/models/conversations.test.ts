/** Conversations of agents from run to run, and in a store that processes share. */
import t, { type Test } from 'tap'
import { textOf } from '../../src/actors/definition/content.ts'
import type { ModelRequest } from '../../src/actors/definition/model.ts'
import { NO_CONVERSATION, withTurn } from '../../src/actors/model/conversation.ts'
import type { ConversationStore, StoredConversation } from '../../src/index.ts'
import type { RunState } from '../../src/runtime/host/run.ts'
import { ThreadStore } from '../../src/runtime/runs/conversations.ts'
import type { Supervisor } from '../../src/runtime/supervision/host.ts'
import { testTeam, virtualClock } from '../../src/testing.ts'
import { Dice } from '../dice.ts'
import { gate, silent } from '../kit/team.ts'
import { type Answers, calls, FakeModel } from './fake-model.ts'
import { modelTeam } from './teams.ts'

// Conversations of agents: their own, one run's, and with a threadId from run to run.

const contents = (request: ModelRequest | undefined) => request?.messages.map(({ content }) => content)
const ann = { name: 'ann', systemPrompt: 'Answer.' }

t.test('runs of one thread go on with one conversation, others know nothing of it', async (t) => {
  const { team, model } = modelTeam(t, (_request, nth) => `answer ${nth}`, [ann])
  await team.execute('one', { threadId: 'a' })
  await team.execute('two', { threadId: 'a' })
  await team.execute('three', { threadId: 'b' })
  await team.execute('four')
  t.same(model.requests.map(contents), [
    ['Answer.', 'one'],
    ['Answer.', 'one', 'answer 0', 'two'],
    ['Answer.', 'three'],
    ['Answer.', 'four'],
  ])
})

t.test('a message from outside goes on with a thread too', async (t) => {
  const { team, model } = modelTeam(t, () => 'ok', [ann])
  await team.execute('one', { threadId: 'a' })
  await team.sendMessage({ recipient: 'ann', content: 'two', requiresResponse: true, threadId: 'a' })
  t.same(contents(model.requests[1]), ['Answer.', 'one', 'ok', 'two'])
})

t.test('of two runs of a thread at once neither hears the other, and the next one has both', async (t) => {
  const both = gate()
  const first = gate()
  let open = 0
  const { team, model } = modelTeam(
    t,
    async ({ messages }) => {
      const asked = messages.at(-1)!.content
      if (++open === 3) both.open()
      if (open <= 3) await both.opened
      if (asked === 'two') await first.opened
      return `heard ${asked}`
    },
    [ann],
  )
  await Promise.resolve()
  open = 1
  const one = team.execute('one', { threadId: 'a' })
  const two = team.execute('two', { threadId: 'a' })
  await one
  first.open()
  await two
  await team.execute('three', { threadId: 'a' })
  t.same(model.requests.slice(0, 2).map(contents), [
    ['Answer.', 'one'],
    ['Answer.', 'two'],
  ])
  t.same(contents(model.requests[2]), ['Answer.', 'one', 'heard one', 'two', 'heard two', 'three'])
})

t.test('a turn that fails has said nothing', async (t) => {
  const { team, model } = modelTeam(t, (_request, nth) => (nth === 0 ? [new Error('down')] : 'ok'), [ann], {
    communication: { turnRetries: 0 },
  })
  await team.execute('one', { threadId: 'a' })
  await team.execute('two', { threadId: 'a' })
  t.same(contents(model.requests[1]), ['Answer.', 'two'])
})

t.test('each agent has its own', async (t) => {
  const { team, model } = modelTeam(t, ({ agent }) => `of ${agent}`, [ann, { name: 'bob', systemPrompt: 'Go on.' }])
  await team.execute('one', { threadId: 'a' })
  await team.execute('two', { threadId: 'a' })
  t.same(
    contents(model.requests[3])?.filter((content) => content !== 'of ann'),
    ['Go on.', 'of bob'],
  )
})

t.test('with an agent goes its conversation, also for who has its name next', async (t) => {
  const { team, model } = modelTeam(t, () => 'ok', [ann, { name: 'bob' }], {
    orchestration: { strategy: 'custom', run: async (script, query) => (await script.request('bob', query)).content },
  })
  await team.execute('one', { threadId: 'a' })
  await team.removeAgent('bob')
  await team.addAgent({ name: 'bob', systemPrompt: 'New.' })
  await team.execute('two', { threadId: 'a' })
  t.same(contents(model.requests[1]), ['New.', 'two'])
})

t.test('a thread outlives the life of the agent', async (t) => {
  const { team, model } = modelTeam(t, () => 'ok', [ann])
  await team.execute('one', { threadId: 'a' })
  team.crash('ann')
  await team.clock.runToIdle()
  await team.execute('two', { threadId: 'a' })
  t.same(contents(model.requests[1]), ['Answer.', 'one', 'ok', 'two'])
})

t.test('a turn that runs within another is remembered with it, the inner one first', async (t) => {
  const { team, model } = modelTeam(
    t,
    ({ agent, messages }, nth) => {
      if (agent === 'bob')
        return messages.length === 2 ? calls(['request', { to: 'boss', content: 'which one?' }]) : 'dug'
      if (nth === 0) return calls(['request', { to: 'bob', content: 'dig' }])
      return messages.at(-1)?.role === 'tool' ? 'all done' : 'the left one'
    },
    [
      { name: 'boss', systemPrompt: 'Lead.', delegationAllowed: true },
      { name: 'bob', systemPrompt: 'Dig.', tools: ['request'] },
    ],
    {
      orchestration: {
        strategy: 'custom',
        async run(script) {
          await script.request('boss', 'a hole')
          return (await script.request('boss', 'what was said?')).content
        },
      },
    },
  )
  t.ok((await team.execute('go')).success)
  const said = contents(model.requests.at(-1)) ?? []
  t.match(said[1], /which one\?/)
  t.same(said.slice(2), ['the left one', 'a hole', '', 'dug', 'all done', 'what was said?'])
})

t.test(
  'what a turn within another has summarized is still there for the outer one when it is tried again',
  async (t) => {
    const long = 'word '.repeat(700)
    const waits = gate()
    const goesOn = gate()
    const { team, model } = modelTeam(
      t,
      async ({ agent, messages }) => {
        const last = messages.at(-1)!
        if (/You sum up/.test(textOf(messages[0]!.content))) return 'They spoke.'
        if (agent === 'bob') {
          if (last.role !== 'tool') return calls(['request', { to: 'boss', content: `which one? ${long}` }])
          waits.open()
          await goesOn.opened
          return 'dug'
        }
        if (/a hole$/.test(textOf(last.content))) return calls(['request', { to: 'bob', content: 'dig' }])
        return last.role === 'tool' ? 'all done' : 'yes'
      },
      [
        {
          name: 'boss',
          delegationAllowed: true,
          maxTokens: 1_500,
          contextStrategy: { strategy: 'append_until_full', keepRecent: 2 },
        },
        { name: 'bob', systemPrompt: 'Dig.', tools: ['request'] },
      ],
      {
        orchestration: {
          strategy: 'custom',
          async run(script) {
            for (let i = 0; i < 2; i++) await script.request('boss', `${i} ${'word '.repeat(100)}`)
            const { content } = await script.request('boss', 'a hole')
            return `${content}, ${(await script.request('boss', 'what was said?')).content}`
          },
        },
      },
    )
    const pending = team.execute('go')
    await waits.opened
    t.equal(model.requests.filter(({ messages }) => /You sum up/.test(textOf(messages[0]!.content))).length, 1)
    team.events.subscribe((event) => {
      if (event.type === 'turn.started' && event.attempt === 2) goesOn.open()
    })
    team.crash('boss')
    t.equal((await pending).finalOutput, 'all done, yes')
    const asked = model.requests.filter(
      ({ agent, messages }) => agent === 'boss' && /a hole$/.test(textOf(messages.at(-1)!.content)),
    )
    t.equal(asked.length, 1, 'nothing was asked twice')
  },
)

// Conversations of threads in a store that several teams share, as several processes do.

/** The contract in its shortest form. */
class Table implements ConversationStore {
  readonly rows = new Map<string, string>()
  conflicts = 0
  /** Called before each write. */
  before: () => Promise<void> = async () => {}

  async load(threadId: string): Promise<StoredConversation[]> {
    return [...this.rows].filter(([key]) => key.startsWith(`${threadId} `)).map(([, row]) => JSON.parse(row))
  }
  async save(threadId: string, stored: StoredConversation): Promise<boolean> {
    await this.before()
    const key = `${threadId} ${stored.agent}`
    const row = this.rows.get(key)
    const version = row === undefined ? 0 : (JSON.parse(row) as StoredConversation).version
    if (version !== stored.version - 1) this.conflicts += 1
    else this.rows.set(key, JSON.stringify(stored))
    return version === stored.version - 1
  }
}

let seed = 0

/** A team as one of several processes has it: ids of its messages are its own. */
function replica(t: Test, conversations: ConversationStore, answers: Answers) {
  const model = new FakeModel(answers)
  const options = { agents: [{ name: 'bot' }], orchestration: { strategy: 'sequential' as const }, logger: silent }
  const team = testTeam({ ...options, conversations }, { model, seed: ++seed })
  t.teardown(() => team.close())
  return { team, model }
}

const re: Answers = ({ messages }) => `re ${textOf(messages.at(-1)!.content)}`

const seen = (model: FakeModel) =>
  model.requests.map(({ messages }) => messages.filter(({ role }) => role !== 'system').map(({ content }) => content))

t.test('each run of a thread goes on with what any process has said in it', async (t) => {
  const table = new Table()
  const one = replica(t, table, re)
  const two = replica(t, table, re)
  await one.team.execute('a', { threadId: 'talk' })
  await two.team.execute('b', { threadId: 'talk' })
  await two.team.execute('other', { threadId: 'another' })
  await one.team.execute('c', { threadId: 'talk' })
  t.same(seen(one.model).at(-1), ['a', 're a', 'b', 're b', 'c'])
  t.same(seen(two.model), [['a', 're a', 'b'], ['other']])
  await one.team.execute('none')
  t.same(
    [...table.rows.keys()].sort(),
    ['another $thread', 'another bot', 'talk $thread', 'talk bot'],
    'a run without a thread stores nothing',
  )
})

t.test('what a run has not changed is not saved again', async (t) => {
  const table = new Table()
  const team = testTeam(
    {
      agents: [{ name: 'ann' }, { name: 'bob' }],
      orchestration: {
        strategy: 'custom',
        async run(script, query) {
          if (query === 'both') await script.request('bob', query)
          return (await script.request('ann', query)).content
        },
      },
      logger: silent,
      conversations: table,
    },
    { model: new FakeModel(re), seed: ++seed },
  )
  t.teardown(() => team.close())
  for (const query of ['both', 'ann alone']) await team.execute(query, { threadId: 'talk' })
  const stored = await table.load('talk')
  t.same(stored.map(({ agent, version }) => `${agent} ${version}`).sort(), ['$thread 1', 'ann 2', 'bob 1'])
})

t.test('runs of two processes at once are merged, whoever is first', async (t) => {
  const table = new Table()
  const both = gate()
  let open = 0
  const answers: Answers = async (request, nth) => {
    if (++open === 2) both.open()
    await both.opened
    return (re as (asked: typeof request, n: number) => string)(request, nth)
  }
  const one = replica(t, table, answers)
  const two = replica(t, table, answers)
  await Promise.all([one.team.execute('a', { threadId: 'talk' }), two.team.execute('b', { threadId: 'talk' })])
  await one.team.execute('c', { threadId: 'talk' })
  const [last] = seen(one.model).slice(-1)
  t.same(last!.slice(-1), ['c'])
  t.same(last!.slice(0, 4).sort(), ['a', 'b', 're a', 're b'])
  t.equal(table.conflicts, 2, 'one for the thread, which both begin')
})

t.test('a message from outside goes on with the thread, and is saved', async (t) => {
  const table = new Table()
  const one = replica(t, table, re)
  const two = replica(t, table, re)
  await one.team.execute('a', { threadId: 'talk' })
  await two.team.sendMessage({ recipient: 'bot', content: 'b', requiresResponse: true, threadId: 'talk' })
  await two.team.close()
  await one.team.execute('c', { threadId: 'talk' })
  t.same(seen(one.model).at(-1), ['a', 're a', 'b', 're b', 'c'])
})

t.test('whatever the order of runs and processes, nothing that was said is lost or said twice', async (t) => {
  for (let nth = 1; nth <= 10; nth += 1) {
    const dice = new Dice(nth)
    const table = new Table()
    const teams = Array.from({ length: 3 }, () => replica(t, table, re))
    const said: string[] = []
    for (let round = 0; round < 4; round += 1) {
      const queries = Array.from({ length: 1 + dice.upTo(3) }, (_, i) => `q${round}.${i}`)
      said.push(...queries)
      await Promise.all(queries.map((query) => dice.pick(teams).team.execute(query, { threadId: 'talk' })))
    }
    const { team, model } = replica(t, table, re)
    await team.execute('last', { threadId: 'talk' })
    t.same(
      seen(model)[0]!
        .filter((text) => String(text).startsWith('q'))
        .sort(),
      said.sort(),
      `seed ${nth}`,
    )
    for (const { team: each } of [...teams, { team }]) await each.close()
  }
})

t.test('a store that fails, is late or gives nonsense fails the run, or is named beside its answer', async (t) => {
  const wrong: [load: () => unknown, said: RegExp][] = [
    [() => Promise.reject(new Error('no database')), /load failed: Error: no database/],
    [
      () => {
        throw new TypeError('oops')
      },
      /load failed: TypeError: oops/,
    ],
    [() => new Promise(() => {}), /load did not settle within 30000 ms/],
    [() => 'text', /load resolved to "text"; a list is needed/],
    [() => [5], /load gave 5/],
    [() => [{ agent: 'bot', version: 0, conversation: {} }], /version 0 for "bot"/],
    [() => [{ agent: 'bot', version: 1, conversation: '{}' }], /conversation of "bot"; give it back as it was/],
  ]
  for (const [load, said] of wrong) {
    const { team, model } = replica(t, { load, save: async () => true } as unknown as ConversationStore, re)
    const result = team.execute('a', { threadId: 'talk' })
    await team.clock.advance(40_000)
    t.match((await result).error, { code: 'CONVERSATION_STORE', message: said })
    t.equal(model.requests.length, 0)
  }
  for (const [save, said] of [
    [() => Promise.reject(new Error('read only')), /save failed: Error: read only/],
    [() => 'yes', /save resolved to "yes"/],
    [() => false, /save resolved to false 16 times for "bot"/],
    [() => new Promise(() => {}), /save did not settle/],
  ] as const) {
    const { team } = replica(t, { load: async () => [], save } as unknown as ConversationStore, re)
    const result = team.execute('a', { threadId: 'talk' })
    await team.clock.advance(40_000)
    t.match(await result, {
      success: true,
      finalOutput: 're a',
      failures: [{ error: { code: 'CONVERSATION_STORE', message: said } }],
    })
  }
  t.throws(() => replica(t, { load: async () => [] } as never, re), {
    code: 'CONFIGURATION',
    message: /conversations.*without save/,
  })
})

t.test('saves of a run come one after the other, also after one that failed', async (t) => {
  const written: string[] = []
  const wait = gate()
  const store: ConversationStore = {
    load: async () => [],
    async save(_threadId, { version, conversation }) {
      const text = `${version}: ${JSON.stringify(conversation).match(/q\d/g)}`
      written.push(`${text} begins`)
      if (written.length === 1) await wait.opened
      written.push(`${text} ends`)
      if (written.length === 4) throw new Error('no database')
      return true
    },
  }
  const bot = { index: 0, name: 'bot', settings: { playedByModel: true } }
  const supervisor = { clock: virtualClock(), directory: { agents: () => [bot] }, agentStates: {}, parts: {} }
  const threads = new ThreadStore(supervisor as unknown as Supervisor, store)
  const run = { threadId: 'talk', states: new Map(), stored: new Map() } as unknown as RunState
  const saved: Promise<unknown>[] = []
  for (const [nth, said] of [['q1'], ['q1', 'q2'], ['q1', 'q2', 'q3']].entries()) {
    run.states.set(
      0,
      withTurn(
        NO_CONVERSATION,
        `${nth}`,
        said.map((content) => ({ role: 'user', content })),
      ),
    )
    saved.push(threads.save(run).catch(({ code }) => code))
    await new Promise(setImmediate)
  }
  wait.open()
  t.same(await Promise.all(saved), [undefined, 'CONVERSATION_STORE', undefined])
  const order = written.map((text) => text.split(' ').at(-1))
  t.same(order, ['begins', 'ends', 'begins', 'ends', 'begins', 'ends'])
  t.match(written.at(-1), /q3/)
})
