/** What an agent keeps of a conversation, what contents of several parts are, and how many tokens they have. */
import fc from 'fast-check'
import { applyPatches, enablePatches } from 'immer'
import t from 'tap'
import {
  type Content,
  lengthOf,
  mediaOf,
  textOf,
  transcriptOf,
  withoutReasoning,
  withText,
} from '../../src/actors/definition/content.ts'
import type { ModelMessage } from '../../src/actors/definition/model.ts'
import {
  bounded,
  type Conversation,
  historyOf,
  merged,
  NO_CONVERSATION,
  patchesOf,
  withoutFirst,
  withTurn,
} from '../../src/actors/model/conversation.ts'
import { spoken } from '../../src/actors/model/summary.ts'
import {
  countMessage,
  countMessages,
  countPrompt,
  countTokens,
  countTools,
  encodingOf,
  mostTokens,
} from '../../src/actors/model/tokens.ts'
import { assistant, calls, isPaired, user } from './conversations.ts'

// What an agent keeps of a conversation: over turns, and where two have changed it at once.

const said = (id: string) => [user(`to ${id}`), assistant(`of ${id}`)]
const conversationSpoken = (...ids: string[]) =>
  ids.reduce<Conversation>((all, id) => withTurn(all, id, said(id)), NO_CONVERSATION)
const contents = (conversation: Conversation) => historyOf(conversation).map(({ content }) => textOf(content))
const turnsOf = (conversation: Conversation) => conversation.turns.map(({ id }) => id)
const summary = (text: string, messages: number) => ({ text, messages })

t.test('turns follow each other, and what one says twice belongs to it', async (t) => {
  const conversation = withTurn(conversationSpoken('a', 'b'), 'a', [assistant('more')])
  t.same(contents(conversation), ['to a', 'of a', 'more', 'to b', 'of b'])
})

t.test('a call of a tool that came to no result is kept with a word on that', async (t) => {
  const open = calls('c', 'one', 'two').slice(0, 2)
  const messages = historyOf(withTurn(NO_CONVERSATION, 'a', [...open, assistant('on')]))
  t.ok(isPaired(messages))
  t.match(messages[2], { role: 'tool', toolCallId: 'c.1', content: /no result/ })
})

t.test('the oldest messages go, also within a turn', async (t) => {
  const left = withoutFirst(conversationSpoken('a', 'b', 'c'), 3, summary('earlier', 3))
  t.same(contents(left), ['of b', 'to c', 'of c'])
  t.same(left.summary, summary('earlier', 3))
})

t.test('a turn that ran within another comes before it, and nothing is lost', async (t) => {
  const before = conversationSpoken('a')
  const inner = withTurn(before, 'inner', said('inner'))
  const outer = withTurn(before, 'outer', said('outer'))
  t.same(turnsOf(merged(inner, before, outer)), ['a', 'inner', 'outer'])
})

t.test('what one has summarized is gone for both, and both summaries stay', async (t) => {
  const before = conversationSpoken('a', 'b')
  const one = withoutFirst(withTurn(before, 'one', said('one')), 2, summary('of a', 2))
  const other = withoutFirst(withTurn(before, 'other', said('other')), 4, summary('of a and b', 4))
  const both = merged(one, before, other)
  t.same(turnsOf(both), ['one', 'other'])
  t.same(both.summary, summary('of a\nof a and b', 6))
  t.same(merged(withTurn(before, 'one', said('one')), before, other).summary, other.summary)
})

t.test('a summary that only one has changed is the one that counts', async (t) => {
  const before = withoutFirst(conversationSpoken('a', 'b', 'c'), 2, summary('of a', 2))
  const shorter = withoutFirst(before, 2, summary('of a and b', 4))
  const longer = withTurn(before, 'd', said('d'))
  t.same(merged(shorter, before, longer).summary, summary('of a and b', 4))
  t.same(merged(longer, before, shorter).summary, summary('of a and b', 4))
  const another = withoutFirst(before, 4, summary('of a to c', 6))
  t.same(merged(shorter, before, another).summary, summary('of a and b\nof a to c', 8))
})

t.test('what was shortened at its front stays short', async (t) => {
  const before = conversationSpoken('a')
  const short = withoutFirst(before, 1, summary('to a', 1))
  const other = withTurn(before, 'b', said('b'))
  t.same(contents(merged(other, before, short)), ['of a', 'to b', 'of b'])
  t.same(contents(merged(short, before, other)), ['of a', 'to b', 'of b'])
})

t.test('the goal is that of who ended last', async (t) => {
  const before = { ...conversationSpoken('a'), goal: 'first' }
  t.equal(merged(before, before, { ...before, goal: 'second' }).goal, 'second')
  t.equal(merged(before, NO_CONVERSATION, conversationSpoken('b')).goal, 'first')
})

/** Somebody who begins with a conversation, summarizes its front, and says something. */
const anyChange = fc.record({ gone: fc.integer({ min: 0, max: 8 }), says: fc.subarray(['p', 'q', 'r']) })

t.test('whoever ends first: each new message is there once, and none that both had comes back', async () => {
  const anyBase = fc.subarray(['a', 'b', 'c', 'd'])
  fc.assert(
    fc.property(anyBase, anyChange, anyChange, (base, first, second) => {
      const before = conversationSpoken(...base)
      const changed = ({ gone, says }: typeof first, by: string) => {
        const count = Math.min(gone, historyOf(before).length)
        const left = count > 0 ? withoutFirst(before, count, summary(by, count)) : before
        return says.reduce((all, id) => withTurn(all, `${by} ${id}`, said(`${by} ${id}`)), left)
      }
      const [one, other] = [changed(first, 'one'), changed(second, 'other')]
      const kept = new Set(contents(one).filter((content) => contents(other).includes(content)))
      const own = [...contents(one), ...contents(other)].filter((content) => /one|other/.test(content))
      const both = contents(merged(one, before, other))
      if (both.toSorted().join() !== [...kept, ...own].toSorted().join()) throw new Error(both.join())
      if (JSON.stringify(merged(before, before, other)) !== JSON.stringify(other))
        throw new Error('alone it is its own')
    }),
  )
})

t.test('what is only heard has a bound, and says what is gone', async (t) => {
  const many = Array.from({ length: 2_500 }, (_, i) => user(`${i}`))
  const few = bounded(withTurn(NO_CONVERSATION, 'a', many))
  t.equal(historyOf(few).length, 1_500)
  t.same(few.summary, summary('', 1_000))
  const long = bounded(withTurn(NO_CONVERSATION, 'a', [user('x'.repeat(2 ** 22)), ...calls('b', 'y')]))
  t.same(contents(long), ['', 'y'])
  const fine = conversationSpoken('a')
  t.equal(bounded(fine), fine)
})

t.test('a commit is as long as what was said', async (t) => {
  enablePatches()
  const now = conversationSpoken('a', 'b')
  const next = withTurn(now, 'c', said('c'))
  const patches = patchesOf(now, next)
  t.same(applyPatches(now, patches), next)
  t.same(patches, [{ op: 'add', path: ['turns', 2], value: { id: 'c', messages: said('c') } }])
  const short = withoutFirst(now, 3, summary('s', 3))
  const shorter = { ...short, goal: 'g' }
  t.same(applyPatches(now, patchesOf(now, shorter)), shorter)
})

// Contents of several parts, as summaries, windows and clients see them.

const image = { type: 'image', data: 'data:image/png;base64,AAAA', name: 'map' } as const
const content: Content = [
  { type: 'reasoning', text: 'Hm.' },
  { type: 'text', text: 'Look ' },
  image,
  { type: 'text', text: 'here' },
]

t.test('the text of parts is that of its text parts', async (t) => {
  t.equal(textOf(content), 'Look here')
  t.equal(textOf('as it is'), 'as it is')
  t.equal(transcriptOf(content), 'Look  (image map) here')
  t.equal(spoken({ role: 'user', content }), 'user: Look  (image map) here')
})

t.test('another text leaves media where they are', async (t) => {
  t.same(withText(content, 'short'), [{ type: 'text', text: 'short' }, image])
  t.equal(withText('long', 'short'), 'short')
  t.equal(withText([{ type: 'text', text: 'a' }], 'b'), 'b')
})

t.test('without reasoning a lone text is a text again, unless its provider wants data back', async (t) => {
  const reasoning = { type: 'reasoning', text: 'Hm.' } as const
  t.equal(withoutReasoning([reasoning, { type: 'text', text: 'a' }]), 'a')
  const signed = { type: 'text', text: 'a', providerData: { x: { y: 1 } } } as const
  t.same(withoutReasoning([reasoning, signed]), [signed])
  t.same(withoutReasoning(content), content.slice(1))
})

t.test('media are read in each form', async (t) => {
  const bytes = new Uint8Array([1, 2, 3])
  t.same(mediaOf({ type: 'image', data: bytes, mediaType: 'image/gif' }), { base64: 'AQID', mediaType: 'image/gif' })
  t.same(mediaOf({ type: 'file', data: 'AQID', mediaType: 'text/plain' }), { base64: 'AQID', mediaType: 'text/plain' })
  t.same(mediaOf(image), { base64: 'AAAA', mediaType: 'image/png' })
  t.same(mediaOf({ type: 'image', data: 'https://x.example/a' }), { url: 'https://x.example/a' })
})

t.test('a window counts media by estimates, not by the letters of their bytes', async (t) => {
  const bytes = 'A'.repeat(4_000_000)
  const message = (data: string): ModelMessage => ({ role: 'user', content: [{ type: 'image', data }] })
  const large = countMessage(message(`data:image/png;base64,${bytes}`))
  t.ok(large < 2_000, `${large} tokens`)
  t.equal(large, countMessage(message('https://x.example/a')))
  t.ok(lengthOf([{ type: 'image', data: bytes }]) >= bytes.length, 'the bounds of what is kept count them')
})

// Of OpenAI's cookbook, "How to count tokens with tiktoken": what it prints, and what the API itself has counted.
const PRINTED: [text: string, cl100k: number, o200k: number][] = [
  ['tiktoken is great!', 6, 6],
  ['antidisestablishmentarianism', 6, 6],
  ['2 + 2 = 4', 7, 7],
  ['お誕生日おめでとう', 9, 8],
]
const JARGON: { role: 'system' | 'user'; name?: string; content: string }[] = [
  {
    role: 'system',
    content: 'You are a helpful, pattern-following assistant that translates corporate jargon into plain English.',
  },
  { role: 'system', name: 'example_user', content: 'New synergies will help drive top-line growth.' },
  { role: 'system', name: 'example_assistant', content: 'Things working well together will increase revenue.' },
  {
    role: 'system',
    name: 'example_user',
    content: "Let's circle back when we have more bandwidth to touch base on opportunities for increased leverage.",
  },
  {
    role: 'system',
    name: 'example_assistant',
    content: "Let's talk later when we're less busy about how to do better.",
  },
  {
    role: 'user',
    content: "This late pivot means we don't have time to boil the ocean for the client deliverable.",
  },
]

t.test('texts have the tokens that the cookbook prints for each vocabulary', async (t) => {
  for (const [text, cl100k, o200k] of PRINTED) {
    t.equal(countTokens(text, 'gpt-4'), cl100k, text)
    t.equal(countTokens(text, 'gpt-4o'), o200k, text)
  }
})

t.test('a chat has the tokens that the API counts', async (t) => {
  const messages: ModelMessage[] = JARGON.map(({ role, content }) => ({ role, content }))
  for (const [model, counted] of Object.entries({ 'gpt-4': 129, 'gpt-3.5-turbo': 129, 'gpt-4o': 124 })) {
    const names = JARGON.flatMap(({ name }) => name ?? []).map((name) => 1 + countTokens(name, model))
    const all = countMessages(messages, model) + names.reduce((sum, tokens) => sum + tokens)
    t.equal(all, counted, model)
  }
})

t.test('tools have no less than the API counts for them, and not twice as much', async (t) => {
  const unit = { type: 'string', description: 'The unit of temperature to return', enum: ['celsius', 'fahrenheit'] }
  const location = { type: 'string', description: 'The city and state, e.g. San Francisco, CA' }
  const inputSchema = { type: 'object', properties: { location, unit }, required: ['location'] }
  const tools = [
    { name: 'get_current_weather', description: 'Get the current weather in a given location', inputSchema },
  ]
  const messages: ModelMessage[] = [
    { role: 'system', content: 'You are a helpful assistant that can answer to questions about the weather.' },
    { role: 'user', content: "What's the weather like in San Francisco?" },
  ]
  for (const [model, counted] of Object.entries({ 'gpt-4': 105, 'gpt-4o': 101 })) {
    const all = countPrompt({ messages, tools, model })
    t.ok(all >= counted && all < 2 * counted, `${model}: ${all}`)
    t.equal(all, countMessages(messages, model) + countTools(tools, model))
  }
  t.equal(countTools([]), 0)
})

t.test('what a prompt has beside its texts counts', async (t) => {
  const model = 'gpt-4o'
  const messages: ModelMessage[] = [{ role: 'user', content: 'hi' }]
  const plain = countPrompt({ messages, model })
  t.equal(plain, 3 + 3 + 1 + 1)
  const jsonSchema = { type: 'object' }
  t.ok(countPrompt({ messages, model, jsonSchema }) > plain)
  const answerFunction = { name: 'answer', description: 'Answers.' }
  const tools = [{ ...answerFunction, inputSchema: jsonSchema }]
  t.equal(countPrompt({ messages, model, jsonSchema, answerFunction }), countPrompt({ messages, model, tools }))
  const toolCalls = [{ id: 'a', name: 'search', input: '{"query":"hi"}' }]
  const call: ModelMessage = { role: 'assistant', content: '', toolCalls }
  t.ok(countMessage(call, model) > 3 + 1 + countTokens('search', model))
  t.equal(countPrompt({ messages: [...messages, call], model }), plain + countMessage(call, model))
})

t.test('each model has its vocabulary; one that is not known has the latest', async (t) => {
  const old = ['gpt-4', 'gpt-4-0613', 'gpt-4-turbo', 'gpt-3.5-turbo', 'ft:gpt-3.5-turbo-0125:us', 'openai/gpt-4']
  const late = [
    'gpt-4o',
    'gpt-4o-mini',
    'gpt-4.1',
    'gpt-4.5-preview',
    'gpt-5',
    'o3',
    'ft:gpt-4o-mini:us',
    'llama3.2',
    '',
  ]
  for (const model of old) t.equal(encodingOf(model), 'cl100k_base', model)
  for (const model of [...late, undefined]) t.equal(encodingOf(model), 'o200k_base', model ?? 'none')
})

t.test('what looks like a sign of the vocabulary is text', async (t) => {
  t.ok(countTokens('a <|endoftext|> b') > 3)
})

t.test('no text has more tokens than bytes', async (t) => {
  for (const text of ['', 'a', 'äöü', '漢字', '😀😀', '\ud800', ' \n\t', '<|im_start|>', JSON.stringify(JARGON)])
    t.ok(countTokens(text) <= mostTokens(text), JSON.stringify(text))
})

t.test('a long text is counted as the sum of its parts', async (t) => {
  const sentence = 'The quick brown fox jumps over the lazy dog. '
  const one = countTokens(sentence)
  t.ok(Math.abs(countTokens(sentence.repeat(5_000)) - 5_000 * (one - 1)) <= 1, 'exactly')
  const huge = countTokens(sentence.repeat(250_000)) / (250_000 * (one - 1))
  t.ok(huge > 0.98 && huge < 1.05, `by samples: ${huge}`)
})

t.test('a text that changes in its middle is sampled throughout', async (t) => {
  const prose = 'word '.repeat(100_000)
  const dense = '漢 '.repeat(250_000)
  const exact = countTokens(prose.slice(0, 200_000)) * 2.5 + countTokens(dense.slice(0, 200_000)) * 2.5
  const all = countTokens(prose + dense) / exact
  t.ok(all > 0.95 && all < 1.05, String(all))
})

t.test('texts without a break are counted too, whatever they are made of', async (t) => {
  for (const unit of ['a', ' ', '漢字', '/\n', '=', '😀', '\u0301']) {
    const text = unit.repeat(250_000 / unit.length)
    const tokens = countTokens(text)
    t.ok(tokens > 0 && tokens <= mostTokens(text), JSON.stringify(unit))
  }
})
