/** What clients of OpenAI's formats see of a task that waits for a person, or is handed on. */
import OpenAI from 'openai'
import t, { type Test } from 'tap'
import { z } from 'zod'
import { defineTool } from '../../../src/index.ts'
import { httpApi } from '../../../src/service/api/index.ts'
import { Chat } from '../../../src/service/terminal/chat.ts'
import { localSource } from '../../../src/service/terminal/source.ts'
import { testTeam } from '../../../src/testing.ts'
import { gate, silent } from '../../kit/team.ts'
import { type Answer, type Answers, calls, FakeModel } from '../../models/fake-model.ts'
import { FakeTerminal } from '../../terminal/fake-terminal.ts'
import { callerOf, send } from '../http/stage.ts'

// What clients of OpenAI's formats see of a task that waits for a person.

const ASKED =
  /^desk asks a person: .*pay.* \(2 of finance have to agree, not who began the task\)\. It is answered at POST \/api\/tasks\/[\w-]+\/answers with \{"questionId":"[\w-]+","digest":"[0-9a-f]{64}","answer":"\.\.\."\}\.$/s

/** A desk that pays when two people agree. */
async function served(t: Test, answers: Answers, personWaitMs = 20) {
  const paid: number[] = []
  const pay = defineTool({
    name: 'pay',
    description: 'Pays.',
    input: z.object({ cents: z.number() }),
    approval: { groups: ['finance'], quorum: 2 },
    run: ({ cents }) => {
      paid.push(cents)
      return 'paid'
    },
  })
  const team = testTeam(
    {
      agents: [{ name: 'desk', systemPrompt: 'You pay.', tools: [pay] }],
      orchestration: { strategy: 'sequential' },
      logger: silent,
    },
    { model: new FakeModel(answers) },
  )
  const limits = { postsPerSecond: 10_000, getsPerSecond: 10_000, personWaitMs, disconnectGraceMs: 0 }
  const api = httpApi({ teams: { desk: team }, authorize: callerOf, logger: silent, limits })
  t.teardown(async () => {
    await api.close()
    await team.close()
  })
  const client = new OpenAI({
    baseURL: 'http://localhost/v1',
    apiKey: 'none',
    defaultHeaders: { 'x-caller': 'ann:run' },
    maxRetries: 0,
    fetch: (url, init) => api.fetch(new Request(url, init as RequestInit)),
  })
  /** Two people agree to what is asked, once it is. */
  const agree = async () => {
    while (team.questions().length === 0) await new Promise(setImmediate)
    const { runId, questionId, digest } = team.questions()[0]!
    for (const caller of ['bob:approve::finance', 'eve:approve::finance']) {
      const body = { questionId, digest, answer: 'yes' }
      const { status } = await send(api, 'POST', `/api/tasks/${runId}/answers`, { caller, body })
      t.ok(status < 300, `${caller}: ${status}`)
    }
    return team.getRun(runId)!.result
  }
  return { team, client, paid, agree }
}

const pays: Answers = ({ messages }) =>
  messages.at(-1)!.role === 'tool'
    ? 'It is paid.'
    : [{ text: 'One moment.' }, ...(calls(['pay', { cents: 500 }]) as [])]

const asked = { model: 'desk', messages: [{ role: 'user' as const, content: 'Pay.' }] }

t.test('a whole completion says what its task waits for, and the task goes on', async (t) => {
  const { client, agree, paid } = await served(t, pays)
  const { data, response } = await client.chat.completions.create(asked).withResponse()
  t.match(data.choices[0]?.message.content, ASKED)
  t.match(data.choices[0]?.message.content, response.headers.get('x-dramatis-waits')!)
  t.same(paid, [])
  t.match(await agree(), { success: true, finalOutput: 'It is paid.' })
  t.same(paid, [500])
})

t.test('it has the answer if people are in time, and if it has to fit a schema', async (t) => {
  const { client, agree } = await served(t, pays, 60_000)
  const [whole] = await Promise.all([client.chat.completions.create(asked).withResponse(), agree()])
  t.equal(whole.data.choices[0]?.message.content, 'It is paid.')
  t.equal(whole.response.headers.get('x-dramatis-waits'), null)

  const data: Answers = (request, nth) =>
    request.messages.at(-1)!.role === 'tool' ? '{"paid":true}' : (pays as (...given: unknown[]) => Answer)(request, nth)
  const typed = await served(t, data, 1)
  const response_format = {
    type: 'json_schema' as const,
    json_schema: { name: 'paid', schema: z.toJSONSchema(z.object({ paid: z.boolean() })) },
  }
  const answer = typed.client.chat.completions.create({ ...asked, response_format })
  while (typed.team.questions().length === 0) await new Promise(setImmediate)
  await typed.agree()
  t.equal((await answer).choices[0]?.message.content, '{"paid":true}')
})

t.test('a streamed completion has the question between the words, and ends with the answer', async (t) => {
  const { client, agree } = await served(t, pays)
  const stream = await client.chat.completions.create({ ...asked, stream: true })
  let text = ''
  let agreed: Promise<unknown> | undefined
  for await (const { choices } of stream) {
    text += choices[0]?.delta.content ?? ''
    if (text.includes('asks a person')) agreed ??= agree()
  }
  const [words, question, answer] = text.split('\n\n')
  t.equal(words, 'One moment.')
  t.match(question, ASKED)
  t.equal(answer, 'It is paid.')
  await agreed
})

t.test('a response is in progress while its task waits, and complete after', async (t) => {
  const { client, agree } = await served(t, pays)
  const response = await client.responses.create({ model: 'desk', input: 'Pay.' })
  t.equal(response.status, 'in_progress')
  t.match(response.output_text, ASKED)
  await agree()
  const after = await client.responses.retrieve(response.id)
  t.match([after.status, after.output_text], ['completed', 'It is paid.'])

  const stream = await client.responses.create({ model: 'desk', input: 'Pay.', stream: true })
  let text = ''
  let agreed: Promise<unknown> | undefined
  for await (const event of stream) {
    if (event.type === 'response.output_text.delta') text += event.delta
    if (text.includes('asks a person')) agreed ??= agree()
  }
  t.match(text, /^One moment\.\n\ndesk asks a person: .*\n\nIt is paid\.$/s)
  await agreed
})

// A desk that hands conversations on, to clients of OpenAI's formats and in `dramatis chat`: who works and who
// speaks.

const hands: Answers = ({ agent }) =>
  agent === 'triage' ? calls(['handoff', { to: 'billing', task: 'Look at the invoice.' }]) : `${agent} answers.`

function desk(t: Test, answers: Answers) {
  const model = new FakeModel(answers)
  const team = testTeam(
    {
      agents: [
        { name: 'triage', systemPrompt: 'You find out.', canHandoffTo: ['billing'] },
        { name: 'billing', systemPrompt: 'You know invoices.', canHandoffTo: ['triage'] },
      ],
      orchestration: { strategy: 'handoff', start: 'triage' },
      logger: silent,
    },
    { model },
  )
  const api = httpApi({ teams: { desk: team }, authorize: callerOf, logger: silent })
  t.teardown(async () => {
    await api.close()
    await team.close()
  })
  const client = new OpenAI({
    baseURL: 'http://localhost/v1',
    apiKey: 'none',
    defaultHeaders: { 'x-caller': 'ann:run' },
    maxRetries: 0,
    fetch: (url, init) => api.fetch(new Request(url, init as RequestInit)),
  })
  return { team, model, client, asked: () => model.requests.map(({ agent }) => agent) }
}

const messages = [{ role: 'user' as const, content: 'My invoice is wrong.' }]

t.test('the model desk/billing begins with billing, which may hand on as any', async (t) => {
  const { client, asked } = desk(t, hands)
  const said = async (model: string) =>
    (await client.chat.completions.create({ model, messages })).choices[0]?.message.content
  t.equal(await said('desk/billing'), 'billing answers.')
  t.same(asked(), ['billing'])
  t.equal(await said('desk'), 'billing answers.')
  t.same(asked().slice(1), ['triage', 'billing'])
  t.equal((await client.responses.create({ model: 'desk/billing', input: 'Hello.' })).output_text, 'billing answers.')
  t.same(asked().slice(3), ['billing'])
  await t.rejects(client.chat.completions.create({ model: 'desk/nobody', messages }), { message: /404/ })
})

t.test('a stream says who works, before the first word', async (t) => {
  const { client } = desk(t, hands)
  const stream = await client.chat.completions.create({ model: 'desk', messages, stream: true })
  let [progress, text] = ['', '']
  for await (const { choices } of stream) {
    const delta = choices[0]?.delta as { content?: string; reasoning_content?: string } | undefined
    if (text === '') progress += delta?.reasoning_content ?? ''
    text += delta?.content ?? ''
  }
  t.equal(progress, 'triage works\nbilling works\n')
  t.equal(text, 'billing answers.')
})

t.test('the chat in a terminal says who works while triage does, and who speaks then', async (t) => {
  const [begun, going] = [gate(), gate()]
  const { team } = desk(t, async (request, nth) => {
    if (request.agent === 'triage') {
      begun.open()
      await going.opened
    }
    return (hands as (request: object, nth: number) => ReturnType<typeof calls>)(request, nth)
  })
  const terminal = new FakeTerminal({ columns: 100, rows: 30 })
  const chat = new Chat({
    source: localSource(team),
    screen: terminal.screen,
    input: terminal.keys,
    tell: async () => {},
    isTerminal: true,
    signal: new AbortController().signal,
  })
  const talking = chat.talk(undefined)
  await terminal.shows('A line is a message')
  terminal.press('My invoice is wrong.\r')
  await begun.opened
  await terminal.shows('triage: model')
  going.open()
  await terminal.shows('billing speaks now')
  await terminal.shows('billing answers.')
  terminal.press('\u0004')
  t.equal(await talking, true)
})
