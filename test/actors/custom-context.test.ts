/** What `buildContext` returns is checked before a model is asked. */
import t from 'tap'
import { customContext } from '../../src/actors/model/window.ts'
import { ConfigurationError } from '../../src/shared/errors.ts'
import { assistant, calls, user, windowOf } from './conversations.ts'

const built = (messages: unknown, window = windowOf(1_000)) => customContext(messages, 'You write.', window)

t.test('is sent as it is, behind the system prompt of the role', async (t) => {
  const messages = [user('hello'), ...calls('a', 'one', 'two'), assistant('well')]
  t.same(built(messages), [{ role: 'system', content: 'You write.' }, ...messages])
})

t.test('a system message of its own stands for the one of the role', async (t) => {
  const messages = [{ role: 'system', content: 'You count.' }, user('hello')]
  t.same(built(messages), messages)
})

const [call, one, two] = calls('a', 'one', 'two')
const flaws: [string, unknown, string][] = [
  ['no list', 'hello', 'buildContext()'],
  ['an empty list', [], 'buildContext()'],
  ['no message', [user('hello'), null], 'buildContext()[1]'],
  ['an unknown role', [{ role: 'bot', content: '' }], 'buildContext()[0].role'],
  ['no content', [{ role: 'user' }], 'buildContext()[0].content'],
  ['a tool that answers nothing', [{ role: 'tool', content: '' }], 'buildContext()[0].toolCallId'],
  ['a user who answers a call', [{ ...user(''), toolCallId: 'a' }], 'buildContext()[0].toolCallId'],
  ['a user who calls tools', [{ ...user(''), toolCalls: call!.toolCalls }], 'buildContext()[0].toolCalls'],
  ['calls that are no list', [{ ...assistant(''), toolCalls: 'all' }], 'buildContext()[0].toolCalls'],
  ['a call without a name', [{ ...assistant(''), toolCalls: [{ id: 'a', input: '' }] }], 'buildContext()[0].toolCalls'],
  ['a result before its call', [one, call, two], 'buildContext()[0]'],
  ['a result without its call', [user('hello'), one], 'buildContext()[1]'],
  ['a call without its result', [call, two], 'buildContext()[1]'],
  ['a word between a call and its result', [call, two, user('well?'), one], 'buildContext()[1]'],
]

for (const [flaw, messages, path] of flaws)
  t.test(`refuses ${flaw}`, async (t) => {
    t.throws(() => built(messages), { code: 'CONFIGURATION', details: { path, agent: 'writer' } })
  })

t.test('refuses what is longer than the window, which it names', async (t) => {
  const build = () => built([user('x'.repeat(4_000))])
  t.throws(build, ConfigurationError)
  t.throws(build, { message: /maxTokens 1000/ })
})
