import t from 'tap'
import { Redactor } from '../../../src/runtime/logging/redactor.ts'
import { failureOf } from '../../../src/runtime/providers/openai-caller.ts'
import { modelServer } from '../../fixtures/model-server.ts'
import { type Answer, errorBody } from '../../fixtures/model-wire.ts'
import { BOTH, clientOf, errorOf, request } from './asking.ts'

const choice = (fields: object) => ({ choices: [{ index: 0, finish_reason: 'stop', ...fields }] })
const event = (data: object | string) => `data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`
const half = event(choice({ delta: { content: 'Half' }, finish_reason: null }))
const silence = { delta: { role: 'assistant' }, finish_reason: null }

interface Case {
  title: string
  answer: Answer
  stream?: boolean
  says: string | RegExp
  retryable: boolean
}

const cases: Case[] = [
  { title: 'no choices', answer: { body: { choices: [] } }, says: 'answered without any choice', retryable: true },
  { title: 'nothing at all', answer: { body: {} }, says: 'answered without any choice', retryable: true },
  {
    title: 'a stream without choices',
    stream: true,
    answer: { events: [event('[DONE]')] },
    says: 'answered without any choice',
    retryable: true,
  },
  {
    title: 'a stream that ends before its first word',
    stream: true,
    answer: { events: [event(choice(silence))] },
    says: 'broke off: its answer has no end',
    retryable: true,
  },
  {
    title: 'a stream that is done before its first word',
    stream: true,
    answer: { events: [event(choice(silence)), event('[DONE]')] },
    says: 'broke off: its answer has no end',
    retryable: true,
  },
  {
    title: 'a body without words and without an end',
    answer: { body: choice({ message: { content: '' }, finish_reason: null }) },
    says: 'broke off: its answer has no end',
    retryable: true,
  },
  {
    title: 'a choice without a message',
    answer: { body: choice({ message: null }) },
    says: 'answered without a message',
    retryable: true,
  },
  {
    title: 'an end by an error',
    answer: { text: 'Well', finishReason: 'error' },
    says: 'ended its answer with an error',
    retryable: true,
  },
  {
    title: 'a tool without its name',
    answer: { toolCalls: [{ input: {} }] },
    says: 'called a tool without its name',
    retryable: false,
  },
  {
    title: 'broken server-sent events',
    stream: true,
    answer: { events: [half, 'data: {"choices": [{"del\n\n'] },
    says: 'sent what is no JSON, or broken server-sent events',
    retryable: true,
  },
  {
    title: 'half a body',
    answer: { body: '{"choices": [{"mess' },
    says: 'sent what is no JSON, or broken server-sent events',
    retryable: true,
  },
  {
    title: 'an error with status 200',
    answer: { body: errorBody('The model is asleep.', 'server_error') },
    says: 'answered with an error: The model is asleep.',
    retryable: true,
  },
  {
    title: 'an error with status 200 that says which status it is',
    answer: { body: { error: { message: 'Slow down.', code: 429 } } },
    says: 'is asked too often (429): Slow down.',
    retryable: true,
  },
  {
    title: 'an error that is a text',
    answer: { body: { error: 'model "small" not found' } },
    says: 'answered with an error: model "small" not found',
    retryable: false,
  },
  {
    title: 'an error in place of a stream',
    stream: true,
    answer: { body: errorBody('No such tool.', 'bad_tool') },
    says: 'answered with an error: No such tool.',
    retryable: false,
  },
  {
    title: 'an error in the middle of a stream',
    stream: true,
    answer: { events: [half, event(errorBody('Overheated.', 'overloaded'))] },
    says: 'answered with an error: Overheated.',
    retryable: true,
  },
  {
    title: 'a web page',
    answer: { body: '<html>Welcome</html>', headers: { 'content-type': 'text/html; charset=utf-8' } },
    says: 'answered with text/html, where JSON or a stream of events is due',
    retryable: false,
  },
  {
    title: 'a web page in place of a stream',
    stream: true,
    answer: { body: '<html>Welcome</html>', headers: { 'content-type': 'text/html' } },
    says: 'answered with text/html, where JSON or a stream of events is due',
    retryable: false,
  },
  {
    title: 'a stream in place of a body',
    answer: { body: half, headers: { 'content-type': 'text/event-stream' } },
    says: 'answered with text/event-stream, where JSON or a stream of events is due',
    retryable: false,
  },
  {
    title: 'content that is no text',
    answer: { body: choice({ message: { content: { a: 1 } } }) },
    says: 'answered with something else than chat completions at choices.0.message.content, where string is due',
    retryable: false,
  },
  {
    title: 'a list',
    answer: { body: [1, 2] },
    says: 'answered with something else than chat completions at the body, where object is due',
    retryable: false,
  },
  {
    title: 'a reason that nobody knows',
    answer: { finishReason: 'abducted' },
    says: 'stopped for the reason "abducted" that chat completions do not have',
    retryable: false,
  },
]

t.test('what a provider answers wrongly is a ModelError that says what it was', async (t) => {
  const server = await modelServer(t)
  const provider = new URL(server.baseURL).host
  for (const { title, answer, stream = false, says, retryable } of cases) {
    server.answer(answer)
    const { message, details } = await errorOf(clientOf(server), { stream })
    t.match(message, `Model "small" of ${provider} ${says}`, title)
    t.match(details, { provider, model: 'small', retryable }, title)
    t.match(message, /\. [A-Z].*\.$/, `${title}: what to do`)
  }
})

t.test('a body that nobody reads to its end does not keep its socket', async (t) => {
  const server = await modelServer(t)
  server.always({ body: '<html>', headers: { 'content-type': 'text/html' }, between: new Promise(() => {}) })
  for (const how of BOTH) {
    await errorOf(clientOf(server), how)
    t.equal(await server.calls.at(-1)?.ended, 'left')
  }
})

t.test('a provider that hangs up is named as that, wherever it does', async (t) => {
  const server = await modelServer(t)
  for (const how of BOTH)
    for (const hangUp of ['at once', 'in the body'] as const) {
      server.answer({ text: ['One', 'two'], hangUp })
      const { message, details } = await errorOf(clientOf(server), how)
      t.match(message, /broke the connection off \(\w+\)\. /, hangUp)
      t.match(details, { model: 'small', retryable: true, status: undefined }, hangUp)
    }
})

t.test('a server that does not listen is named as that', async (t) => {
  const server = await modelServer(t)
  const { baseURL } = server
  await server.close()
  const refused = await errorOf(clientOf({ baseURL }))
  t.match(refused.message, 'refuses the connection (ECONNREFUSED). Check its baseURL, and that the server runs.')
  t.equal(refused.details.retryable, true)
})

t.test('what the system says is told by its code, and whether it can pass', async (t) => {
  const sdk = await import('openai')
  const failed = (code: string) => {
    const cause = new TypeError('fetch failed', { cause: Object.assign(new Error('secret words'), { code }) })
    const asked = { provider: 'a.host', model: 'small' }
    const words = { keyAdvice: 'Check KEY.', isKeyless: false, speaks: 'chat completions' }
    const call = { asked, request: request(), ...words, redactor: new Redactor(), now: 0 }
    return failureOf(new sdk.APIConnectionError({ cause }), call)
  }
  const says: Record<string, [says: string, retryable: boolean]> = {
    ENOTFOUND: ['cannot be found: no such host (ENOTFOUND). Check its baseURL.', false],
    EAI_AGAIN: ['cannot be reached (EAI_AGAIN). Check its baseURL', true],
    CERT_HAS_EXPIRED: ['has a certificate that is not trusted (CERT_HAS_EXPIRED)', false],
    DEPTH_ZERO_SELF_SIGNED_CERT: ['has a certificate that is not trusted', false],
    UND_ERR_HEADERS_TIMEOUT: ['was silent for too long (UND_ERR_HEADERS_TIMEOUT)', true],
    ECONNRESET: ['broke the connection off (ECONNRESET)', true],
  }
  for (const [code, [text, retryable]] of Object.entries(says)) {
    const error = failed(code)
    t.match(error, { message: `Model "small" of a.host ${text}`, details: { retryable } })
    t.notMatch(String(error), 'secret words')
  }
})
