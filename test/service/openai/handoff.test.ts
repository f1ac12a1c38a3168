/** A desk that hands conversations on, to clients of OpenAI's formats and in `dramatis chat`: who works and who speaks. */
import OpenAI from 'openai'
import type { Test } from 'tap'
import t from 'tap'
import { httpApi } from '../../../src/service/api/index.ts'
import { Chat } from '../../../src/service/terminal/chat.ts'
import { localSource } from '../../../src/service/terminal/source.ts'
import { testTeam } from '../../../src/testing.ts'
import { gate, silent } from '../../kit/team.ts'
import { type Answers, calls, FakeModel } from '../../models/fake-model.ts'
import { FakeTerminal } from '../../terminal/fake-terminal.ts'
import { callerOf } from '../http/stage.ts'

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
