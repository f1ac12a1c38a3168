/** Words that people say to a run while it works: who reads them, when, and what becomes of them at its end. */

import type { Test } from 'tap'
import t from 'tap'
import { z } from 'zod'
import { type Content, textOf } from '../../src/actors/definition/content.ts'
import {
  type AgentRole,
  defineAgent,
  defineTool,
  type Guardrail,
  ModelError,
  type MultiAgentPatternOptions,
  type Run,
  type RuntimeEvent,
  type SteerOptions,
  type SteerReceipt,
} from '../../src/index.ts'
import { testTeam } from '../../src/testing.ts'
import { gate, silent } from '../kit/team.ts'
import { type Answer, type Answers, calls, FakeModel } from './fake-model.ts'

/** A team whose agents are played by a model, with a tool that says what it is told to and can be held. */
function steered(t: Test, answers: Answers, options: Partial<MultiAgentPatternOptions> & { modules?: object } = {}) {
  const { modules = {}, ...others } = options
  const model = new FakeModel(answers)
  const held: { begun: () => void; until: Promise<unknown> | undefined } = { begun: () => {}, until: undefined }
  const look = defineTool({
    name: 'look',
    description: 'Looks.',
    input: z.object({}),
    readOnly: true,
    run: async () => {
      held.begun()
      await held.until
      return 'seen'
    },
  })
  const ask = defineTool({
    name: 'pay',
    description: 'Pays.',
    input: z.object({}),
    approval: true,
    run: () => 'paid',
  })
  const team = testTeam(
    {
      agents: [{ name: 'ann', tools: [look, ask] }],
      orchestration: { strategy: 'sequential' },
      logger: silent,
      ...others,
    },
    { model, modules: modules as Record<string, ReturnType<typeof defineAgent>> },
  )
  t.teardown(() => team.close())
  return { team, model, held, told: (agent = 'ann') => prompts(model, agent) }
}

/** What a model was told, each time that it was asked, without its system prompt. */
const prompts = ({ requests }: FakeModel, agent: string): string[][] =>
  requests
    .filter((request) => request.agent === agent)
    .map(({ messages }) => messages.slice(1).map(({ role, content }) => `${role}: ${textOf(content)}`))

async function eventsOf(run: Run<unknown>, ...types: RuntimeEvent['type'][]): Promise<RuntimeEvent<unknown>[]> {
  const events: RuntimeEvent<unknown>[] = []
  for await (const event of run.events({ types })) events.push(event)
  return events
}

/** Says words to the only run, as soon as it is there. */
class Person {
  run: Run | undefined
  readonly receipts: SteerReceipt[] = []
  async says(words: string | Content, options?: SteerOptions): Promise<SteerReceipt> {
    const receipt = await this.run!.steer(words, options)
    this.receipts.push(receipt)
    return receipt
  }
}

const LOOK = calls(['look', {}])

t.test('words stand last in the next prompt, and once in each one after it', async (t) => {
  const person = new Person()
  const { team, told } = steered(t, async (_request, nth) => {
    if (nth === 0) await person.says('Only in Europe.', { by: { id: 'joe' } })
    return nth < 2 ? LOOK : 'done'
  })
  const run = team.launch('Harbours.')
  person.run = run
  t.match(await run.result, { success: true, finalOutput: 'done' })
  const [, second, third] = told()
  t.same(second, ['user: Harbours.', 'assistant: ', 'tool: seen', 'user: Only in Europe.'])
  t.same(third, [...second!, 'assistant: ', 'tool: seen'])
  const [receipt] = person.receipts
  t.equal(await receipt!.settled, 'read')
  t.same(receipt!.readBy, ['ann'])
  const id = receipt!.id
  t.match(await eventsOf(run, 'steer', 'steer.read', 'steer.unread'), [
    { type: 'steer', steerId: id, text: 'Only in Europe.', to: null, by: 'joe' },
    { type: 'steer.read', steerId: id, agent: 'ann' },
  ])
  t.match(run.steers, [{ id, text: 'Only in Europe.', to: null, by: 'joe', readBy: ['ann'], settled: 'read' }])
})

t.test('several words go in the order of their acceptance, in one call', async (t) => {
  const person = new Person()
  const { team, told } = steered(t, async (_request, nth) => {
    if (nth === 0) for (const words of ['one', 'two', 'three']) await person.says(words)
    return nth < 1 ? LOOK : 'done'
  })
  person.run = team.launch('go')
  await person.run.result
  t.same(told()[1]!.slice(-3), ['user: one', 'user: two', 'user: three'])
})

t.test('an answer without the words is not that of the run: its agent is asked again', async (t) => {
  const person = new Person()
  const { team, told } = steered(t, async (_request, nth) => {
    if (nth === 0) await person.says('In metres.')
    return nth === 0 ? [{ text: '3 feet' }] : [{ text: '1 metre' }]
  })
  const run = team.launch('How long?', { threadId: 'ann' })
  person.run = run
  const parts: string[] = []
  for await (const part of run.stream())
    if (part.type === 'text') parts.push(part.text)
    else if (part.type === 'superseded') parts.push(part.reason)
  t.equal((await run.result).finalOutput, '1 metre')
  t.same(parts, ['3 feet', 'steered', '1 metre'])
  t.same(told()[1], ['user: How long?', 'user: In metres.'])
  t.equal(await person.receipts[0]!.settled, 'read')
  let text = ''
  for await (const piece of run.text()) text += piece
  t.equal(text, '3 feet\n\n1 metre')
  t.equal((await team.execute('And wide?', { threadId: 'ann' })).success, true)
  t.same(told().at(-1), ['user: How long?', 'user: In metres.', 'assistant: 1 metre', 'user: And wide?'])
})

t.test('an answer without words that came while it was checked is not that of the run either', async (t) => {
  for (const whose of ['agent', 'team'] as const) {
    const person = new Person()
    const said: string[] = []
    const check: Guardrail<string>['check'] = async (text) => {
      if (said.push(text) === 1) await person.says('In metres.')
    }
    const guards = { guardrails: { output: [{ name: 'slow', check }] } }
    const { team, told } = steered(t, (_request, nth) => (nth === 0 ? '3 feet' : '1 metre'), {
      agents: [{ name: 'bob' }, { name: 'ann', ...(whose === 'agent' && guards) }],
      orchestration: { strategy: 'sequential', agentOrder: ['ann'] },
      ...(whose === 'team' && guards),
    })
    const run = team.launch('How long?', { threadId: 'ann' })
    person.run = run
    t.match(await run.result, { success: true, finalOutput: '1 metre', speaker: 'ann' }, whose)
    t.same(said, ['3 feet', '1 metre'])
    const [, again] = told()
    t.same(again!.slice(0, 2), ['user: How long?', 'assistant: 3 feet'])
    t.match(again!.slice(2), [/^user: Your answer was not given yet/, 'user: In metres.'])
    const [receipt] = person.receipts
    t.equal(await receipt!.settled, 'read')
    t.same(receipt!.readBy, ['ann'])
    t.same(await eventsOf(run, 'steer.unread'), [])
    t.equal((await team.execute('And wide?', { threadId: 'ann' })).success, true)
    t.same(told().at(-1)!.slice(0, 4), again, 'the thread goes on with what was said')
  }
})

t.test('an answer stands whose agent fails when it is asked again, and to be asked again is no input', async (t) => {
  const refusing = (pattern: RegExp): Guardrail<string> => ({
    name: 'own',
    check: (text) => (pattern.test(text) ? { refuse: 'Not that.' } : undefined),
  })
  type Case = [what: string, second: Answer, own: AgentRole['guardrails'], team: Guardrail<string>[], ...string[]]
  const cases: Case[] = [
    ['no input before', '1 metre', { input: [{ ...refusing(/not given/), when: 'before' }] }, [], '1 metre', 'read'],
    ['no input beside', '1 metre', { input: [refusing(/not given/)] }, [], '1 metre', 'read'],
    ['a failed call', [new ModelError('Broken.', { reason: 'auth' })], {}, [], '3 feet', 'unread'],
    ['an answer that its agent may not give', '1 metre', { output: [refusing(/metre/)] }, [], '3 feet', 'unread'],
    ['an answer that the team may not give', '1 metre', {}, [refusing(/metre/)], '3 feet', 'unread'],
  ]
  for (const [what, second, guardrails, ofTeam, finalOutput, settled] of cases) {
    const person = new Person()
    const check: Guardrail<string>['check'] = async () => {
      if (person.receipts.length === 0) await person.says('In yards.')
    }
    const { team, model } = steered(t, (_request, nth) => (nth === 0 ? '3 feet' : second), {
      agents: [{ name: 'ann', ...(guardrails && { guardrails }) }],
      guardrails: { output: [{ name: 'slow', check }, ...ofTeam] },
    })
    person.run = team.launch('How long?')
    t.match(await person.run.result, { success: true, finalOutput, speaker: 'ann' }, what)
    t.equal(model.requests.length, 2, what)
    t.equal(await person.receipts[0]!.settled, settled, what)
    t.equal((await eventsOf(person.run, 'steer.unread')).length, settled === 'read' ? 0 : 1, what)
  }
})

t.test('an answer that is checked is given after 20 others, however much is said', async (t) => {
  const person = new Person()
  let nth = 0
  const check: Guardrail<string>['check'] = async () => void (await person.says(`more ${nth++}`))
  const { team, model } = steered(t, (_request, nth) => `answer ${nth}`, {
    guardrails: { output: [{ name: 'slow', check }] },
  })
  person.run = team.launch('go')
  t.equal((await person.run.result).finalOutput, 'answer 20')
  t.equal(model.requests.length, 21)
  t.match(await eventsOf(person.run, 'steer.unread'), [{ type: 'steer.unread', text: 'more 20' }])
})

t.test('after 20 answers the last one stands, and the receipt says unread', async (t) => {
  const person = new Person()
  const { team, model } = steered(t, async (_request, nth) => {
    await person.says(`more ${nth}`)
    return `answer ${nth}`
  })
  person.run = team.launch('go')
  t.equal((await person.run.result).finalOutput, 'answer 20')
  t.equal(model.requests.length, 21)
  t.same(await Promise.all(person.receipts.map(({ settled }) => settled)), [
    ...Array.from({ length: 20 }, () => 'read'),
    'unread',
  ])
  t.match(await eventsOf(person.run, 'steer.unread'), [{ type: 'steer.unread', text: 'more 20' }])
})

t.test('words give one round more than maxRounds', async (t) => {
  const person = new Person()
  const options = { agents: [{ name: 'ann', maxRounds: 1, tools: [looking(() => person.says('Enough. Answer.'))] }] }
  const { team, told } = steered(t, (_request, nth) => (nth === 0 ? LOOK : 'done'), options)
  person.run = team.launch('go')
  t.match(await person.run.result, { success: true, finalOutput: 'done' })
  t.same(told()[1]!.at(-1), 'user: Enough. Answer.')
  t.equal(await person.receipts[0]!.settled, 'read')

  const again = new Person()
  const { team: other, model } = steered(
    t,
    async (_request, nth) => {
      if (nth === 0) await again.says('Look twice.')
      return nth < 3 ? LOOK : 'done'
    },
    { agents: [{ name: 'ann', maxRounds: 2, tools: [looking(async () => {})] }] },
  )
  again.run = other.launch('go')
  t.match(await again.run.result, { success: false, error: { code: 'TASK_REFUSED' } })
  t.equal(model.requests.length, 3, 'two rounds, and one more')
})

const looking = (during: () => Promise<unknown>) =>
  defineTool({
    name: 'look',
    description: 'Looks.',
    input: z.object({}),
    run: async () => {
      await during()
      return 'seen'
    },
  })

t.test('the same id is the same words, also while they are being checked', async (t) => {
  const person = new Person()
  const { team, told } = steered(
    t,
    async (_request, nth) => {
      if (nth === 0) {
        await Promise.all([person.says('Be brief.', { id: 'a' }), person.says('Be brief.', { id: 'a' })])
        await person.says('Be brief.', { id: 'a' })
      }
      return nth === 0 ? LOOK : 'done'
    },
    { guardrails: { input: [{ name: 'slow', check: async () => undefined }] } },
  )
  person.run = team.launch('go')
  await person.run.result
  t.equal(told()[1]!.filter((message) => message === 'user: Be brief.').length, 1)
  t.same(
    person.receipts.map(({ id }) => id),
    ['a', 'a', 'a'],
  )
  t.equal((await person.run.steer('Be brief.', { id: 'a' })).id, 'a', 'also when the run has ended')
  t.equal((await eventsOf(person.run, 'steer')).length, 1)
})

t.test('interrupting cuts a stream, and the call is made anew with the words', async (t) => {
  const [begun, hold] = [gate(), gate()]
  const model = new FakeModel([])
  model.complete = async function* (request) {
    const nth = this.requests.push(request) - 1
    if (nth > 0) return yield* [{ text: 'in metres' }]
    yield { text: 'in feet and' }
    begun.open()
    await hold.opened
    yield { text: ' inches' }
  }
  const team = testTeam(
    { agents: [{ name: 'ann' }], orchestration: { strategy: 'sequential' }, logger: silent },
    { model },
  )
  t.teardown(() => team.close())
  const run = team.launch('How long?')
  await begun.opened
  const receipt = await run.steer('Stop: metres!', { when: 'interrupt' })
  t.match(await run.result, { success: true, finalOutput: 'in metres' })
  hold.open()
  t.same(prompts(model, 'ann')[1], ['user: How long?', 'user: Stop: metres!'])
  t.not(model.requests[0]!.idempotencyKey, model.requests[1]!.idempotencyKey)
  t.equal(await receipt.settled, 'read')
  const events = await eventsOf(run, 'model.superseded', 'model.called', 'steer.read')
  t.match(events, [
    { type: 'model.called', error: {}, usage: { totalTokens: Number } },
    { type: 'model.superseded', reason: 'steered' },
    { type: 'steer.read' },
    { type: 'model.called', error: null },
  ])
})

t.test('interrupting cuts no call that another agent has begun to read: it cannot give the words back', async (t) => {
  for (const isRead of [false, true]) {
    const [begun, read, hold] = [gate(), gate(), gate()]
    const model = new FakeModel([])
    model.complete = async function* (request) {
      if (this.requests.push(request) > 1) return yield* [{ text: 'in metres' }]
      if (isRead) yield { text: 'in feet' }
      else begun.open()
      await hold.opened
      yield { text: ' and inches' }
    }
    const ann = defineAgent({
      async receive(_message, context) {
        const stream = context.requestStream('bob', 'How long?')
        const pieces: string[] = []
        for await (const piece of stream) {
          pieces.push(piece)
          read.open()
        }
        return `${pieces.join('')} = ${(await stream.response).content}`
      },
    })
    const team = testTeam(
      { agents: [{ name: 'ann' }, { name: 'bob' }], orchestration: { strategy: 'sequential', agentOrder: ['ann'] } },
      { model, modules: { ann } },
    )
    t.teardown(() => team.close())
    const run = team.launch('go')
    await (isRead ? read : begun).opened
    await run.steer('Stop: metres!', { when: 'interrupt' })
    hold.open()
    const whole = isRead ? 'in feet and inches' : 'in metres'
    t.match(await run.result, { success: true, finalOutput: `${whole} = ${whole}` })
    t.equal(model.requests.length, isRead ? 1 : 2)
  }
})

t.test('interrupting cuts no tool and no question', async (t) => {
  const person = new Person()
  const { team, told } = steered(t, (_request, nth) => (nth === 0 ? calls(['look', {}]) : 'done'), {
    agents: [{ name: 'ann', tools: [looking(() => person.says('Hurry.', { when: 'interrupt' }))] }],
  })
  person.run = team.launch('go')
  t.match(await person.run.result, { success: true })
  t.same(told()[1]!.slice(-2), ['tool: seen', 'user: Hurry.'])

  const asking = steered(t, (_request, nth) => (nth === 0 ? calls(['pay', {}]) : 'done'))
  const run = asking.team.launch('go')
  for await (const event of run.events({ types: ['question'] })) {
    await run.steer('yes', { when: 'interrupt' })
    t.equal(run.questions.length, 1, 'words answer nothing')
    await run.answer(event.type === 'question' ? event.questionId : '', 'yes')
    break
  }
  t.match(await run.result, { success: true })
  t.same(asking.told()[1]!.slice(-2), ['tool: paid', 'user: yes'])
})

t.test('each model agent reads them once, and `to` names one', async (t) => {
  const person = new Person()
  const options = { agents: [{ name: 'ann' }, { name: 'bob' }] }
  const { team, told } = steered(
    t,
    async ({ agent }, nth) => {
      if (nth === 0) {
        await person.says('For all.')
        await person.says('For bob.', { to: 'bob' })
      }
      return `${agent} has answered`
    },
    options,
  )
  person.run = team.launch('go')
  t.match(await person.run.result, { success: true, finalOutput: 'bob has answered' })
  t.equal(told('ann').length, 1, 'who does not speak for the run is not asked again')
  t.same(told('bob')[0]!.slice(-2), ['user: For all.', 'user: For bob.'])
  t.same(
    person.receipts.map(({ readBy }) => readBy),
    [['bob'], ['bob']],
  )
  t.same(await Promise.all(person.receipts.map(({ settled }) => settled)), ['read', 'read'])
  const other = new Person()
  const looks = steered(
    t,
    async (_request, nth) => {
      if (nth === 0) await other.says('For ann.', { to: 'ann' })
      return nth === 0 ? LOOK : 'done'
    },
    { agents: [{ name: 'ann', tools: [looking(async () => {})] }, { name: 'bob' }] },
  )
  other.run = looks.team.launch('go')
  await other.run.result
  t.equal(await other.receipts[0]!.settled, 'read', 'also if somebody else speaks for the run')
  t.same(other.receipts[0]!.readBy, ['ann'])
  await t.rejects(team.launch('go').steer('x', { to: 'eve' }), { code: 'UNKNOWN_AGENT', details: { path: 'to' } })
})

t.test('agents that share a conversation have words in it once', async (t) => {
  const person = new Person()
  const agents = [
    { name: 'triage', canHandoffTo: ['refunds'] },
    { name: 'refunds', canHandoffTo: ['triage'] },
  ]
  const { team, told } = steered(
    t,
    async ({ agent }, nth) => {
      if (nth === 0) await person.says('Order 8, not 7.')
      if (nth === 0) return calls(['agent_status', {}])
      return agent === 'triage' ? calls(['handoff', { to: 'refunds', task: 'Refund it.' }]) : 'refunded'
    },
    { agents, orchestration: { strategy: 'handoff', start: 'triage' } },
  )
  person.run = team.launch('Refund order 7.')
  t.match(await person.run.result, { success: true, finalOutput: 'refunded' })
  for (const prompt of [...told('triage').slice(1), ...told('refunds')])
    t.equal(prompt.filter((message) => message === 'user: Order 8, not 7.').length, 1, prompt.join(' | '))
  t.same([...person.receipts[0]!.readBy], ['triage', 'refunds'])
})

t.test('agents with code hear a broadcast of the user', async (t) => {
  const heard: unknown[] = []
  const [begun, told] = [gate(), gate()]
  const ann = defineAgent({
    receive: async () => {
      begun.open()
      await told.opened
      return 'done'
    },
  })
  const bob = defineAgent({
    receive: () => 'done',
    observe: ({ type, sender, content, metadata }) => {
      heard.push({ type, sender, content, metadata })
      told.open()
    },
  })
  const options = { agents: [{ name: 'ann' }, { name: 'bob' }], modules: { ann, bob } }
  const { team } = steered(t, () => 'no', options)
  const run = team.launch('go')
  await begun.opened
  const { id, settled } = await run.steer('Only in Europe.')
  t.match(await run.result, { success: true })
  t.match(heard, [{ type: 'broadcast', sender: '$user', content: 'Only in Europe.', metadata: { steerId: id } }])
  t.equal(run.messageHistory.filter(({ type }) => type === 'broadcast').length, 1)
  t.equal(await settled, 'read')
  t.match(run.steers, [{ id, readBy: ['bob'], settled: 'read' }])
  t.match(await eventsOf(run, 'steer.read'), [{ type: 'steer.read', steerId: id, agent: 'bob' }])
})

t.test('agents with code have read nothing that they do not observe, or fail to', async (t) => {
  const [begun, failed] = [gate(), gate()]
  const ann = defineAgent({
    receive: async () => {
      begun.open()
      await failed.opened
      return 'done'
    },
  })
  const bob = defineAgent({
    receive: () => 'done',
    observe: () => {
      failed.open()
      throw new Error('no')
    },
  })
  const options = { agents: [{ name: 'ann' }, { name: 'bob' }], modules: { ann, bob } }
  const { team } = steered(t, () => 'no', options)
  const run = team.launch('go')
  await begun.opened
  const { settled } = await run.steer('Only in Europe.')
  t.match(await run.result, { success: true })
  t.equal(await settled, 'unread')
  t.match(run.steers, [{ readBy: [], settled: 'unread' }])
})

t.test('guardrails check the words first', async (t) => {
  const person = new Person()
  const input: Guardrail<string>[] = [
    { name: 'card', when: 'before', check: (text) => (text.includes('4111') ? { change: '[card]' } : undefined) },
    { name: 'bombs', check: (text) => (text.includes('bomb') ? { refuse: 'No.' } : undefined) },
  ]
  let refused: unknown
  const { team, told } = steered(
    t,
    async (_request, nth) => {
      if (nth === 0) {
        await person.says('4111')
        refused = await person.says('a bomb').catch((error: unknown) => error)
      }
      return nth === 0 ? LOOK : 'done'
    },
    { guardrails: { input } },
  )
  person.run = team.launch('go')
  await person.run.result
  t.match(refused, { code: 'GUARDRAIL', details: { guardrail: 'bombs' } })
  t.same(told()[1]!.slice(-1), ['user: [card]'])
})

t.test('those of the agents that the words are for check them too, and what is too large is refused', async (t) => {
  const person = new Person()
  const check: Guardrail<string>['check'] = (text) => (text.includes('gun') ? { refuse: 'No.' } : undefined)
  const agents = [{ name: 'ann', guardrails: { input: [{ name: 'guns', check }] } }, { name: 'bob' }]
  const refused: unknown[] = []
  const { team, told } = steered(
    t,
    async (_request, nth) => {
      if (nth > 0) return 'done'
      for (const words of ['a gun', 'x'.repeat(2 ** 24)])
        refused.push(await person.says(words).catch((error: unknown) => error))
      await person.says('a gun', { to: 'bob' })
      return 'by ann'
    },
    { agents },
  )
  person.run = team.launch('go')
  await person.run.result
  t.match(refused, [
    { code: 'GUARDRAIL', details: { guardrail: 'guns', agent: 'ann' } },
    { code: 'MESSAGE_REJECTED', message: /maxMessageBytes/ },
  ])
  t.same(told('bob')[0]!.slice(1), ['user: a gun'])
})

t.test('words of a run that is cancelled or fails are told as unread', async (t) => {
  const [begun, hold] = [gate(), gate()]
  const { team } = steered(t, async () => {
    begun.open()
    await hold.opened
    return 'done'
  })
  const run = team.launch('go', { threadId: 'ann' })
  await begun.opened
  const receipt = await run.steer('Faster.')
  await run.cancel()
  hold.open()
  t.match(receipt, { text: 'Faster.', readBy: [] })
  t.equal(await receipt.settled, 'unread')
  t.match(await eventsOf(run, 'steer.unread', 'run.finished'), [
    { type: 'steer.unread', steerId: receipt.id, text: 'Faster.', to: null, by: null },
    { type: 'run.finished' },
  ])
  await t.rejects(run.steer('And now?'), {
    code: 'RUN_ENDED',
    message: 'The task has ended; send it as the next message of thread "ann".',
  })
})

t.test('words that are checked while the run ends come too late, and nobody has refused them', async (t) => {
  for (const [when, end] of [
    ['before', 'finished'],
    ['beside', 'aborted'],
  ] as const) {
    const [answer, checking, hold] = [gate(), gate(), gate()]
    const check: Guardrail<string>['check'] = async (text) => {
      if (text === 'go') return
      checking.open()
      await hold.opened
    }
    const { team } = steered(
      t,
      async () => {
        await answer.opened
        return 'done'
      },
      { guardrails: { input: [{ name: 'slow', when, check }] } },
    )
    const run = team.launch('go', { threadId: 'ann' })
    const late = run.steer('Faster.')
    late.catch(() => {})
    await checking.opened
    if (end === 'aborted') await run.cancel()
    answer.open()
    await run.result
    t.equal(run.status, end)
    await t.rejects(late, {
      code: 'RUN_ENDED',
      message: 'The task has ended; send it as the next message of thread "ann".',
    })
    hold.open()
  }
})

t.test('a call that fails has not said them: the next attempt reads them', async (t) => {
  const person = new Person()
  const { team, told } = steered(
    t,
    async (_request, nth): Promise<Answer> => {
      if (nth === 0) await person.says('In metres.')
      if (nth === 0) return LOOK
      return nth === 1 ? [new ModelError('Broken.', { reason: 'server' })] : 'done'
    },
    { agents: [{ name: 'ann', tools: [looking(async () => {})], supervision: { onHandlerError: 'retry' } }] },
  )
  person.run = team.launch('go')
  const result = await person.run.result
  const has = (prompt: string[]) => prompt.filter((message) => message === 'user: In metres.').length
  t.same(
    told().slice(1).map(has),
    told()
      .slice(1)
      .map(() => 1),
  )
  t.equal(await person.receipts[0]!.settled, result.success ? 'read' : 'unread')
})

t.test('words come as parts, too', async (t) => {
  const person = new Person()
  const data = new Uint8Array([137, 80, 78, 71])
  const { team, model } = steered(t, async (_request, nth) => {
    if (nth === 0)
      await person.says([
        { type: 'text', text: 'Like this:' },
        { type: 'image', data, mediaType: 'image/png' },
      ])
    return nth === 0 ? LOOK : 'done'
  })
  person.run = team.launch('go')
  await person.run.result
  t.match(model.requests[1]!.messages.at(-1)!.content, [{ type: 'text', text: 'Like this:' }, { type: 'image' }])
  await t.rejects(person.run.steer('  '), { code: 'CONFIGURATION', details: { path: 'words' } })
  await t.rejects(person.run.steer('x', { when: 'now' } as never), { code: 'CONFIGURATION' })
  await t.rejects(person.run.steer('x', { whne: 'next' } as never), {
    message: 'whne: there is no such option; did you mean "when"? Accepted: to, when, id, by.',
  })
})

t.test('words at any moment around the end are read or unread, never neither', async (t) => {
  for (let ticks = 0; ticks < 60; ticks++) {
    let said: Promise<SteerReceipt> | undefined
    const { team, told } = steered(t, (_request, nth) => {
      if (nth === 0) said = later(ticks).then(() => run.steer('Stop.'))
      return `answer ${nth}`
    })
    const run = team.launch('go')
    await run.result
    const receipt = await said!.catch((error: { code: string }) => error.code)
    if (typeof receipt === 'string') {
      t.equal(receipt, 'RUN_ENDED')
      continue
    }
    const isRead = told().some((prompt) => prompt.includes('user: Stop.'))
    t.equal(await receipt.settled, isRead ? 'read' : 'unread', `after ${ticks} ticks`)
    t.equal((await eventsOf(run, 'steer.unread')).length, isRead ? 0 : 1)
  }
})

async function later(ticks: number): Promise<void> {
  for (let n = 0; n < ticks; n++) await (n % 3 === 2 ? new Promise(setImmediate) : Promise.resolve())
}
