import t from 'tap'
import type { ModelMessage } from '../../src/actors/definition/model.ts'
import {
  countMessage,
  countMessages,
  countPrompt,
  countTokens,
  countTools,
  encodingOf,
  mostTokens,
} from '../../src/actors/model/tokens.ts'

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
