/** One agent under test, and its scripted model. */
import t from 'tap'
import { z } from 'zod'
import { countPrompt, countTokens } from '../../src/actors/model/tokens.ts'
import { agentRef, defineAgent, TaskRefusedError } from '../../src/index.ts'
import { type Script, scriptedModel, testAgent, virtualClock } from '../../src/testing.ts'
import { ask } from '../runtime/models/pieces.ts'

// One agent under test: what it is asked, what it answers, what it keeps, what it sends.

const counter = defineAgent({
  input: z.object({ by: z.number() }),
  output: z.object({ count: z.number() }),
  data: z.object({ step: z.number() }).default({ step: 1 }),
  initialState: { count: 0 },
  receive({ structuredData }, context) {
    context.setState((draft) => {
      draft.count += structuredData.by * context.data.step
    })
    return { content: `by ${structuredData.by}`, structuredData: { count: context.state.count } }
  },
})

t.test('a request brings its reply', async (t) => {
  const reply = await testAgent(counter).request('count', { by: 2 })
  t.match(reply, {
    type: 'response',
    sender: 'agent',
    recipient: '$user',
    content: 'by 2',
    structuredData: { count: 2 },
  })
})

t.test('state is what it keeps, before the first request too', async (t) => {
  const agent = testAgent(counter)
  t.same(agent.state, { count: 0 })
  await agent.request('count', { by: 2 })
  await agent.request('count', { by: 3 })
  t.same(agent.state, { count: 5 })
})

t.test('its state survives a restart, as often as one likes', async (t) => {
  const agent = testAgent(counter)
  await agent.request('count', { by: 2 })
  for (let times = 0; times < 10; times++) await agent.restart()
  t.same(agent.state, { count: 2 })
  t.match(await agent.request('count', { by: 1 }), { structuredData: { count: 3 } })
})

t.test('a restart runs the start hook again', async (t) => {
  const code = defineAgent({
    initialState: { starts: 0 },
    start(context) {
      context.setState((draft) => {
        draft.starts += 1
      })
    },
    receive: () => 'done',
  })
  const agent = testAgent(code)
  await agent.request('hi')
  await agent.restart()
  t.same(agent.state, { starts: 2 })
})

t.test('input, output and data are checked like in a team', async (t) => {
  await t.rejects(testAgent(counter).request('count', { by: 'two' as never }), {
    code: 'MESSAGE_REJECTED',
    message: /input schema: by: /,
  })
  const wrong = defineAgent({
    output: z.object({ n: z.number() }),
    receive: () => ({ structuredData: { n: 'x' as never } }),
  })
  await t.rejects(testAgent(wrong).request('hi'), { code: 'REPLY_INVALID' })
  await t.rejects(testAgent(counter, { role: { data: { step: 'x' } } }).request('count', { by: 1 }), {
    code: 'CONFIGURATION',
  })
})

t.test('its role is the one that it is given', async (t) => {
  const tells = defineAgent({ receive: (_message, { role }) => JSON.stringify(role) })
  t.equal((await testAgent(tells).request('hi')).content, '{"name":"agent"}')
  const role = { name: 'ann', capabilities: ['counting'], data: { step: 2 } }
  t.same(JSON.parse((await testAgent(tells, { role }).request('hi')).content), role)
  t.match(await testAgent(counter, { role }).request('count', { by: 3 }), {
    sender: 'ann',
    structuredData: { count: 6 },
  })
})

t.test('what it fails with is what the request rejects with', async (t) => {
  const moody = defineAgent({
    receive({ content }, context) {
      if (content === 'refuse') throw context.refuse('no time')
      throw new Error('broken')
    },
  })
  const agent = testAgent(moody)
  await t.rejects(agent.request('refuse'), { code: 'TASK_REFUSED', details: { reason: 'no time' } })
  await t.rejects(agent.request('work'), { code: 'AGENT_FAILED', message: /broken/, cause: { message: /broken/ } })
})

const asks = defineAgent({
  async receive({ content }, context) {
    const [to = '', words = ''] = content.split(' ')
    const { content: answer, structuredData } = await context.request(to, words, { structuredData: { asked: words } })
    return { content: answer, structuredData: structuredData ?? 'no data' }
  },
})

t.test('its partners answer a text, data, nothing, or what a function says', async (t) => {
  const agent = testAgent(asks, {
    replies: {
      text: '42',
      data: { content: 'words', structuredData: { n: 1 } },
      nothing: undefined,
      asked: ({ content, structuredData, sender }) => `${sender} ${content} ${JSON.stringify(structuredData)}`,
    },
  })
  const answers = []
  for (const content of ['text x', 'data x', 'nothing x', 'asked why']) {
    const { content: words, structuredData } = await agent.request(content)
    answers.push([words, structuredData])
  }
  t.same(answers, [
    ['42', 'no data'],
    ['words', { n: 1 }],
    ['', 'no data'],
    ['agent why {"asked":"why"}', 'no data'],
  ])
})

t.test('a partner can fail, with any error or with one of the library', async (t) => {
  const agent = testAgent(asks, {
    replies: { bad: new Error('broken'), shy: new TaskRefusedError('not mine', { agent: 'shy', reason: 'not mine' }) },
  })
  await t.rejects(agent.request('bad x'), {
    code: 'AGENT_FAILED',
    details: { cause: { code: 'AGENT_FAILED', message: /Error: broken/ } },
  })
  await t.rejects(agent.request('shy x'), { code: 'AGENT_FAILED', details: { cause: { code: 'TASK_REFUSED' } } })
})

t.test('a partner that nobody plays is unknown', async (t) => {
  await t.rejects(testAgent(asks).request('zoe x'), {
    code: 'AGENT_FAILED',
    details: { cause: { code: 'UNKNOWN_AGENT' } },
  })
})

t.test('sent has every message that it sends, in order, and no replies', async (t) => {
  const talks = defineAgent({
    async receive(_message, context) {
      await context.send('b', 'one', { structuredData: { n: 1 } })
      await context.request(agentRef('c'), 'two', { priority: 3 })
      return 'done'
    },
  })
  const agent = testAgent(talks, { replies: { b: 'B', c: 'C' } })
  t.same(agent.sent, [])
  for (let times = 0; times < 120; times++) await agent.request('go')
  t.equal(agent.sent.length, 240)
  t.match(agent.sent.slice(-2), [
    { type: 'request', sender: 'agent', recipient: 'b', content: 'one', structuredData: { n: 1 } },
    { type: 'request', sender: 'agent', recipient: 'c', content: 'two', priority: 3, requiresResponse: true },
  ])
})

const listens = defineAgent({
  initialState: { heard: [] as unknown[] },
  receive: () => 'done',
  async observe(message, context) {
    await null
    const { type, sender, content, structuredData, priority, threadId, metadata } = message
    if (content === 'throw') throw new Error('broken')
    context.setState((draft) => {
      draft.heard.push(
        JSON.parse(JSON.stringify({ type, sender, content, structuredData, priority, threadId, metadata })),
      )
    })
  },
})

t.test('observe gives it a message of any type, and waits until it is handled', async (t) => {
  const agent = testAgent(listens, { replies: { b: 'B' } })
  await agent.observe({})
  await agent.observe({ type: 'report', sender: 'b', content: 'news', structuredData: { n: 1 } })
  await agent.observe({ type: 'publish', content: 'finding.1', priority: 2, threadId: 'talk', metadata: { m: 1 } })
  t.match(agent.state.heard, [
    { type: 'broadcast', sender: '$user', content: '' },
    { type: 'report', sender: 'b', content: 'news', structuredData: { n: 1 } },
    { type: 'publish', content: 'finding.1', priority: 2, threadId: 'talk', metadata: { m: 1 } },
  ])
})

t.test('observe rejects with what the handler throws', async (t) => {
  const agent = testAgent(listens)
  await t.rejects(agent.observe({ content: 'throw' }), { code: 'AGENT_FAILED', message: /broken/ })
  await agent.observe({ content: 'fine' })
  t.match(agent.state.heard, [{ content: 'fine' }])
})

t.test('what it publishes is on a blackboard of its own request', async (t) => {
  const writes = defineAgent({
    async receive(_message, context) {
      await context.publish('n', 1, 'fact')
      return String((await context.blackboard.read('n'))?.version)
    },
  })
  const agent = testAgent(writes)
  t.equal((await agent.request('hi')).content, '1')
  t.equal((await agent.request('hi')).content, '1')
})

t.test('at every sync point it is alone, and goes on with what it has brought', async (t) => {
  const meets = defineAgent({
    async receive(_message, context) {
      const first = await context.sync('planned')
      const second = await context.sync('revealed', 4)
      const third = await context.sync('revealed', 5)
      return JSON.stringify([first, second, third])
    },
  })
  const { content } = await testAgent(meets, { role: { name: 'ann' } }).request('hi')
  const alone = { arrived: ['ann'], missing: [], timedOut: false }
  t.same(JSON.parse(content), [
    { generation: 1, ...alone, data: {} },
    { generation: 1, ...alone, data: { ann: 4 } },
    { generation: 2, ...alone, data: { ann: 5 } },
  ])
})

t.test('its time is that of the clock that it is given', async (t) => {
  const slow = defineAgent({
    async receive(_message, context) {
      await context.sleep(50)
      return String(context.now())
    },
  })
  const clock = virtualClock({ startAt: 1_000 })
  const pending = testAgent(slow, { clock }).request('hi')
  await clock.advance(50)
  t.equal((await pending).content, '1050')
})

t.test('what is no agent, and what is not there yet, is refused at once', async (t) => {
  t.throws(() => testAgent({} as never), { code: 'CONFIGURATION' })
  t.throws(() => testAgent(counter, { tools: { 'no name': () => 1 } }), { code: 'CONFIGURATION' })
  t.throws(() => testAgent(counter, { model: {} as never }), { code: 'CONFIGURATION' })
})

t.test('its tools are played by the test', async (t) => {
  const asked: unknown[] = []
  const agent = defineAgent({
    async receive({ content }, context) {
      const { celsius } = (await context.tool('weather', { city: content })) as { celsius: number }
      return `${celsius} degrees`
    },
  })
  const tools = {
    weather(input: unknown) {
      asked.push(input)
      if (asked.length === 2) throw new Error('no such city')
      return { celsius: 21 }
    },
  }
  const bench = testAgent(agent, { tools })
  t.match(await bench.request('Oslo'), { content: '21 degrees' })
  await t.rejects(bench.request('Atlantis'), { code: 'AGENT_FAILED', message: /no such city/ })
  t.same(asked, [{ city: 'Oslo' }, { city: 'Atlantis' }])
})

t.test('an answer is exactly what the script says', async (t) => {
  const model = scriptedModel([{ reply: ' as it is \n' }, { reply: { winner: 'ann', votes: [1, 2] } }])
  t.match(await ask(model, 'one'), { text: ' as it is \n', finishReason: 'stop' })
  t.match(await ask(model, 'two'), { text: '{"winner":"ann","votes":[1,2]}', finishReason: 'stop' })
  t.same(model.rehearsal, undefined)
  model.assertDone()
})

t.test('each agent gets the first answer left that is meant for it', async (t) => {
  const model = scriptedModel([
    { agent: 'ann', reply: 'first of ann' },
    { reply: 'of anybody' },
    { agent: 'ann', reply: 'second of ann' },
    { agent: 'bob', reply: 'of bob' },
  ])
  const said = []
  for (const agent of ['bob', 'bob', 'ann', 'ann']) said.push((await ask(model, 'go', { agent })).text)
  t.same(said, ['of anybody', 'of bob', 'first of ann', 'second of ann'])
  model.assertDone()
})

t.test('an answer can wait for what is said last', async (t) => {
  const duration = /\d+ ms/g
  const model = scriptedModel([
    { when: 'slower', reply: 'to a text' },
    { when: duration, reply: 'to a pattern' },
    { when: duration, reply: 'again' },
  ])
  t.equal((await ask(model, 'It takes 12 ms.')).text, 'to a pattern')
  t.equal((await ask(model, 'Or 15 ms.')).text, 'again')
  const conversation = [
    { role: 'user' as const, content: 'Is it slower?' },
    { role: 'tool' as const, content: 'no', toolCallId: 'a' },
  ]
  await t.rejects(ask(model, conversation), { code: 'MODEL' })
  t.equal((await ask(model, 'It is slower.')).text, 'to a text')
})

t.test('a tool is called with exactly that input', async (t) => {
  const input = { query: 'REST', limit: 3 }
  const model = scriptedModel([{ toolCall: { name: 'search', input } }, { toolCall: { name: 'search', input } }])
  const [one, other] = [await ask(model, 'go'), await ask(model, 'go')]
  t.match(one, { text: '', finishReason: 'tool_calls', toolCalls: [{ name: 'search', input: JSON.stringify(input) }] })
  t.not(one.toolCalls[0]!.id, other.toolCalls[0]!.id)
})

t.test('it fails as a provider does', async (t) => {
  const model = scriptedModel([{ fail: 'rate_limit' }, { fail: 'timeout' }, { fail: 'server' }])
  const limit = { status: 429, retryable: true, retryAfterMs: 1_000 }
  await t.rejects(ask(model, 'go'), { code: 'MODEL', message: /"test".*too often/, details: limit })
  await t.rejects(ask(model, 'go'), { code: 'MODEL', message: /silent/, details: { retryable: true } })
  await t.rejects(ask(model, 'go'), { code: 'MODEL', details: { status: 500, retryable: true } })
  model.assertDone()
})

t.test('what is not in the script fails, says who asked what, and what was left', async (t) => {
  const model = scriptedModel([
    { agent: 'judge', when: /winner/, reply: 'ann' },
    { agent: 'critic', toolCall: { name: 'search', input: {} } },
    { when: 'now', fail: 'server' },
  ])
  const asked = ask(model, `Why? ${'x'.repeat(500)}`, { agent: 'judge' })
  await t.rejects(asked, { code: 'MODEL', details: { agent: 'judge', retryable: false } })
  const message = await asked.then(String, String)
  t.match(message, /no answer left for "judge", who asked "Why\? x+\.\.\."/)
  t.match(
    message,
    'Left: 1. reply "ann" for "judge" when /winner/; 2. call of search for "critic"; 3. failure server when "now".',
  )
  t.ok(message.length < 400)
  await ask(model, 'the winner', { agent: 'judge' })
  await t.rejects(ask(scriptedModel([]), 'go'), { message: /no answer left for nobody by name.*Left: nothing/ })
})

t.test('it is done when all was asked for, and nothing else', async (t) => {
  const left = scriptedModel([{ reply: 'one' }, { agent: 'ann', reply: 'two' }])
  t.throws(() => left.assertDone(), {
    code: 'MODEL',
    message: /never asked for 1\. reply "one"; 2\. reply "two" for "ann"/,
  })
  await ask(left, 'go')
  t.throws(() => left.assertDone(), { message: /never asked for 2\. reply "two" for "ann"\. Change/ })
  await ask(left, 'go', { agent: 'ann' })
  left.assertDone()
  await ask(left, 'once more', { agent: 'bob' }).catch(() => {})
  t.throws(() => left.assertDone(), { code: 'MODEL', message: /had no answer for "bob", who asked "once more"/ })
})

t.test('its calls can be looked at', async (t) => {
  const model = scriptedModel([{ reply: 'yes' }])
  await ask(model, 'first', { agent: 'ann' })
  await ask(model, 'second', { agent: 'bob' }).catch(() => {})
  t.same(model.calls, [
    { agent: 'ann', prompt: 'first' },
    { agent: 'bob', prompt: 'second' },
  ])
})

t.test('a delay passes by the clock of the team', async (t) => {
  const clock = virtualClock()
  const model = scriptedModel([{ reply: 'late', delayMs: 60_000 }])
  let heard: string | undefined
  void ask(model, 'go', { clock }).then(({ text }) => {
    heard = text
  })
  await clock.advance(59_999)
  t.equal(heard, undefined)
  await clock.advance(1)
  t.equal(heard, 'late')
})

t.test('its signal ends a delay', async (t) => {
  const controller = new AbortController()
  const reason = new Error('enough')
  const asked = ask(scriptedModel([{ reply: 'late', delayMs: 60_000 }]), 'go', {
    clock: virtualClock(),
    signal: controller.signal,
  })
  controller.abort(reason)
  await t.rejects(asked, reason)
  await t.rejects(ask(scriptedModel([{ reply: 'at once' }]), 'go', { signal: controller.signal }), reason)
})

t.test('its usage is counted', async (t) => {
  const { usage } = await ask(scriptedModel([{ reply: 'two words' }]), 'go')
  const inputTokens = countPrompt({ messages: [{ role: 'user', content: 'go' }], model: 'test' })
  const outputTokens = countTokens('two words')
  t.same(usage, { inputTokens, outputTokens, totalTokens: inputTokens + outputTokens, calls: 1 })
})

t.test('an entry says one thing to do', async (t) => {
  const made = (entry: unknown) => () => scriptedModel([{ reply: 'fine' }, entry as Script])
  t.throws(made({ agent: 'ann' }), { code: 'CONFIGURATION', message: 'script[1]: got none of them; one of' })
  t.throws(made({ reply: 'a', fail: 'server' }), { code: 'CONFIGURATION', details: { path: 'script[1]' } })
  t.throws(made(undefined), { code: 'CONFIGURATION' })
})
