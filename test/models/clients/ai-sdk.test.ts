/** Models of the AI SDK fulfil the contract of clients: the provider packages themselves, in front of loopback servers. */
import { createAnthropic } from '@ai-sdk/anthropic'
import { createGoogleGenerativeAI } from '@ai-sdk/google'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import t from 'tap'
import { fromAiSdk } from '../../../src/ai-sdk/index.ts'
import { chatWire, errorBody } from '../../fixtures/model-wire.ts'
import { anthropicWire } from '../../fixtures/wires/anthropic.ts'
import { geminiWire } from '../../fixtures/wires/gemini.ts'
import { event, namedEvent } from '../../fixtures/wires/wire.ts'
import { providerContract } from './contract.ts'

const KEY = 'key-of-the-package-7'

providerContract(t, {
  name: 'AI SDK, Anthropic',
  wire: anthropicWire,
  client: ({ baseURL }) => fromAiSdk(createAnthropic({ baseURL, apiKey: KEY })('claude-sonnet-4-5')),
  key: KEY,
  keeps: 'signature',
  unknownEvent: namedEvent({ type: 'content_block_news' }),
  errorEvent: namedEvent({ type: 'error', ...anthropicWire.error(529, 'Overloaded') }),
  tooLong: anthropicWire.error(400, 'prompt is too long: 210000 tokens > 200000 maximum'),
})

providerContract(t, {
  name: 'AI SDK, Gemini',
  wire: geminiWire,
  client: ({ baseURL }) => fromAiSdk(createGoogleGenerativeAI({ baseURL, apiKey: KEY })('gemini-2.5-flash')),
  key: KEY,
  keeps: 'signature',
  hasNoIds: true,
  unknownEvent: event({ news: [] }),
  errorEvent: event(geminiWire.error(503, 'The model is overloaded.')),
  tooLong: geminiWire.error(
    400,
    'The input token count (2000000) exceeds the maximum number of tokens allowed (1048576).',
  ),
})

providerContract(t, {
  name: 'AI SDK, OpenAI compatible',
  wire: chatWire,
  client({ baseURL }) {
    const provider = createOpenAICompatible({ name: 'local', baseURL, apiKey: KEY, includeUsage: true })
    return fromAiSdk(provider('small'))
  },
  key: KEY,
  keeps: 'text',
  unknownEvent: event({ object: 'chat.completion.news', choices: [] }),
  errorEvent: event(errorBody('Overloaded.', 'overloaded')),
  tooLong: errorBody("This model's maximum context length is 8192 tokens.", null),
})
