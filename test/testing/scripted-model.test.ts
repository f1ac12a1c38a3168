import t from 'tap'
import { countPrompt, countTokens } from '../../src/actors/model/tokens.ts'
import { type Script, scriptedModel, virtualClock } from '../../src/testing.ts'
import { ask } from '../runtime/models/pieces.ts'

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
