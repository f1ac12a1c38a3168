/** Queries and messages that are more than a text: images, sounds and files reach the models that are asked. */
import t from 'tap'
import { z } from 'zod'
import type { Content } from '../../src/actors/definition/content.ts'
import { createTeam, type MessagePart, type OrchestratorContext } from '../../src/index.ts'
import { MemoryDisk, MemoryStore } from '../durability/memory-store.ts'
import { gate, localTeam, type Receive, silent } from '../kit/team.ts'
import { type Answers, calls, FakeModel } from './fake-model.ts'
import { modelTeam } from './teams.ts'

const PNG = 'data:image/png;base64,iVBORw0KGgo='
const image: MessagePart = { type: 'image', data: PNG }
const query: MessagePart[] = [{ type: 'text', text: 'What is ' }, image, { type: 'text', text: 'this?' }]

const lastOf = (model: FakeModel, nth = 0) => model.requests[nth]?.messages.at(-1)?.content

t.test('a query of parts reaches its model as it is, and is a part of the conversation', async (t) => {
  const { team, model } = modelTeam(t, ['A cat', 'Black'], [{ name: 'bot' }])
  const result = await team.execute(query)
  t.same(lastOf(model), query)
  t.equal(team.getRun(result.runId)?.query, 'What is this?')
  t.same(result.messages, [
    { role: 'user', content: query },
    { role: 'assistant', content: 'A cat' },
  ])
  t.same(
    result.messageHistory.map(({ content, parts, metadata }) => [content, parts, '$parts' in metadata]).slice(0, 2),
    [
      ['What is this?', query, false],
      ['What is this?', query, false],
    ],
  )
  await team.execute('Its colour?', { messages: result.messages })
  t.match(model.requests[1]!.messages.slice(1), [...result.messages, { role: 'user', content: 'Its colour?' }])
})

t.test('bytes and base64 become data URLs; a query of texts alone is a text', async (t) => {
  const { team, model } = modelTeam(t, () => 'ok', [{ name: 'bot' }])
  await team.execute([
    { type: 'image', data: new Uint8Array([1, 2, 3]), mediaType: 'image/png' },
    { type: 'audio', data: 'AQID', mediaType: 'audio/wav' },
  ])
  t.match(lastOf(model), [{ data: 'data:image/png;base64,AQID' }, { data: 'data:audio/wav;base64,AQID' }])
  await team.execute([
    { type: 'text', text: 'two ' },
    { type: 'text', text: 'texts' },
  ])
  t.equal(lastOf(model, 1), 'two texts')
})

t.test('who is asked with the words of the query gets its parts, others do not', async (t) => {
  const { team, model } = modelTeam(t, ({ agent }) => `by ${agent}`, [{ name: 'ann' }, { name: 'bob' }])
  await team.execute(query)
  t.same([lastOf(model, 0), lastOf(model, 1)], [query, 'by ann'])
  const orchestration = { strategy: 'parallel' as const, agents: ['ann', 'bob'] }
  const { team: both, model: of } = modelTeam(t, ({ agent }) => `by ${agent}`, [{ name: 'ann' }, { name: 'bob' }], {
    orchestration,
  })
  await both.execute(query)
  for (const nth of [0, 1]) t.ok(JSON.stringify(lastOf(of, nth)).includes(PNG))
})

t.test('code gets and gives parts', async (t) => {
  const model = new FakeModel(() => 'seen')
  const got: unknown[] = []
  const ann: Receive = async (message, context) => {
    got.push(message.parts, message.metadata)
    return (await context.request('bob', 'Look', { parts: [image], metadata: { a: 1 } })).content
  }
  const bob: Receive = async (message, context) => {
    got.push(message.parts, message.metadata)
    const content = (message.parts ?? []) as Content
    return (await context.complete({ messages: [{ role: 'user', content }] })).text
  }
  const run = async (script: OrchestratorContext, text: string) =>
    (await script.request('ann', `Please: ${text}`)).content
  const team = localTeam(t, { ann, bob }, { models: { default: model }, script: run })
  t.equal((await team.execute(query)).finalOutput, 'seen')
  t.same(got, [query, {}, [image], { a: 1 }])
  t.same(lastOf(model), [image])
})

t.test('a message from outside has parts, also when it is sent again from the dead letters', async (t) => {
  const { team, model } = modelTeam(t, (_request, nth) => (nth === 0 ? [new Error('no')] : 'ok'), [
    { name: 'bot', communication: { turnRetries: 0 } },
  ])
  const message = { recipient: 'bot', content: 'What is this?', parts: query }
  await team.sendMessage(message)
  await team.clock.advance(1_000)
  const [letter] = team.deadLetters.list()
  t.same(letter?.message.parts, query)
  await team.deadLetters.replay(letter!.id)
  await team.clock.advance(1_000)
  t.same([lastOf(model, 0), lastOf(model, 1)], [query, query])
  for (const [parts, said] of [
    ['x', /parts/],
    [[{ type: 'video' }], /parts\[0\]\.type: got "video"/],
  ] as const)
    await t.rejects(team.sendMessage({ ...message, parts: parts as never }), {
      code: 'MESSAGE_REJECTED',
      message: said,
    })
  await t.rejects(team.sendMessage({ ...message, metadata: { $parts: [] } }), { message: /runtime's own/ })
})

t.test('who gets a task by handoff sees its parts', async (t) => {
  const answers: Answers = ({ agent }) =>
    agent === 'ann' ? calls(['handoff', { to: 'bob', task: 'Look at it.', summary: 'An image.' }]) : 'A cat'
  const agents = [{ name: 'ann', canDelegateTo: ['bob'] }, { name: 'bob' }]
  const orchestration = { strategy: 'sequential' as const, agentOrder: ['ann'] }
  const { team, model } = modelTeam(t, answers, agents, { orchestration })
  t.equal((await team.execute(query)).finalOutput, 'A cat')
  t.ok(JSON.stringify(lastOf(model, 1)).includes(PNG))
})

t.test('a role says what it accepts; a mismatch names who, what and what is accepted', async (t) => {
  const { team, model } = modelTeam(t, () => 'ok', [{ name: 'bot', accepts: ['audio'] }])
  t.throws(() => team.launch(query), {
    code: 'CONFIGURATION',
    message: /query\[1\]\.type: got "image", which no agent accepts; accepted: audio/,
  })
  t.equal(model.requests.length, 0)
  const { team: two } = modelTeam(t, () => 'ok', [
    { name: 'ann', accepts: [] },
    { name: 'bob', accepts: ['image'] },
  ])
  const { error } = await two.execute(query)
  t.match(error, {
    code: 'MESSAGE_REJECTED',
    message:
      'Agent "ann" does not accept a part of type "image"; it accepts text (accepts). Ask another agent, or leave the part out.',
    details: { agent: 'ann', path: 'parts', got: 'image' },
  })
  t.throws(() => modelTeam(t, () => 'ok', [{ name: 'bot', accepts: ['video'] as never }]), {
    message: /accepts\[0\].*"image"/,
  })
})

t.test('what is no query and no part is refused by its place', async (t) => {
  const { team } = modelTeam(t, () => 'ok', [{ name: 'bot' }])
  const wrong: [query: unknown, said: RegExp][] = [
    [5, /query: got 5; accepted: a text or a list of parts/],
    [[], /query: got an empty list; accepted: at least one part/],
    [[{ type: 'video' }], /query\[0\]\.type: got "video"/],
    [[{ type: 'image', data: new Uint8Array(1) }], /query\[0\]\.mediaType/],
    [[{ type: 'reasoning', text: 'x' }], /query\[0\]\.type: got "reasoning".*its own model alone/],
  ]
  for (const [given, said] of wrong)
    t.throws(() => team.launch(given as string), { code: 'CONFIGURATION', message: said })
  const errors: unknown[] = []
  const ann: Receive = async (_message, context) => {
    for (const options of [{ parts: 'x' }, { parts: [{ type: 'video' }] }, { metadata: { $parts: [] } }])
      errors.push(await context.request('bob', 'x', options as object).catch((error: Error) => error.message))
    return ''
  }
  await localTeam(t, { ann, bob: () => '' }).execute('go')
  t.match(errors, [/parts.*a list of parts/, /parts\[0\]\.type/, /metadata\.\$parts.*runtime's own/])
})

t.test('a guardrail that changes the text leaves the images', async (t) => {
  const input = [{ name: 'x', when: 'before' as const, check: (text: string) => ({ change: text.toUpperCase() }) }]
  const { team, model } = modelTeam(t, () => 'ok', [{ name: 'bot' }], { guardrails: { input } })
  await team.execute(query)
  t.same(lastOf(model), [{ type: 'text', text: 'WHAT IS THIS?' }, image])
})

t.test('parts cross threads, and are there after a restart', async (t) => {
  const disk = new MemoryDisk()
  const seen: unknown[] = []
  const asked = gate()
  const teamOf = (complete: () => AsyncIterable<{ text: string }>) =>
    createTeam({
      agents: [{ name: 'bot', systemPrompt: 'Look.' }],
      orchestration: { strategy: 'sequential' },
      models: {
        default: {
          offline: true,
          complete(request) {
            seen.push(request.messages.at(-1)?.content)
            return complete()
          },
        },
      },
      stateManagement: { store: new MemoryStore(disk) },
      logger: silent,
    })
  const before = teamOf(async function* () {
    asked.open()
    await new Promise(() => {})
    yield { text: '' }
  })
  before.launch(query, { runId: 'one' })
  await asked.opened
  await before.close()
  const after = teamOf(async function* () {
    yield { text: 'A cat' }
  })
  t.teardown(() => after.close())
  await after.start()
  const result = await after.getRun('one')!.result
  t.same(seen, [query, query])
  t.same(result.messages[0], { role: 'user', content: query })
})

t.test('an answer with a schema to an image', async (t) => {
  const answers: Answers = () => '{"animal": "cat"}'
  const { team } = modelTeam(t, answers, [{ name: 'bot' }])
  t.match(await team.execute(query, { output: z.object({ animal: z.string() }) }), { data: { animal: 'cat' } })
})
