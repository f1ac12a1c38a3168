/** Conversations of agents: their own, one run's, and with a threadId from run to run. */
import t from 'tap'
import { textOf } from '../../src/actors/definition/content.ts'
import type { ModelRequest } from '../../src/actors/definition/model.ts'
import { gate } from '../kit/team.ts'
import { calls } from './fake-model.ts'
import { modelTeam } from './teams.ts'

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
