/** The conversations of threads are bounded: the one that was used longest ago goes. */
import t from 'tap'
import { textOf } from '../../src/actors/definition/content.ts'
import { type Conversation, historyOf, NO_CONVERSATION, withTurn } from '../../src/actors/model/conversation.ts'
import type { Cell } from '../../src/runtime/host/agent.ts'
import { Conversations } from '../../src/runtime/host/parts.ts'
import { RunState } from '../../src/runtime/host/run.ts'

const cell = (index = 1, fields: object = {}) =>
  Object.assign({ index, run: undefined, settings: { playedByModel: true } }, fields) as Cell
const run = (threadId: string | undefined) => new RunState(1, 'id', '', 0, {}, threadId)
const saying = (content: string): Conversation =>
  withTurn(NO_CONVERSATION, content.slice(0, 9), [{ role: 'user', content }])

/** What an agent finds in a run of that thread. */
function found(conversations: Conversations, threadId: string | undefined, of = cell()): string[] {
  const next = run(threadId)
  conversations.begin(of, next)
  const conversation = next.states.get(of.index) as Conversation | undefined
  return historyOf(conversation ?? NO_CONVERSATION).map(({ content }) => textOf(content))
}

t.test('keeps a thousand of them', async (t) => {
  const conversations = new Conversations()
  for (let i = 0; i < 1_000; i++) conversations.committed(cell(), run(`${i}`), NO_CONVERSATION, saying(`said ${i}`))
  t.same(found(conversations, '0'), ['said 0'])
  conversations.committed(cell(), run('one more'), NO_CONVERSATION, saying('more'))
  t.same(found(conversations, '0'), ['said 0'], 'it was used last')
  t.same(found(conversations, '1'), [])
  t.same(found(conversations, '2'), ['said 2'])
})

t.test('keeps 64 Mi characters of them', async (t) => {
  const conversations = new Conversations()
  const large = 'x'.repeat(2 ** 22)
  for (let i = 0; i < 17; i++) conversations.committed(cell(), run(`${i}`), NO_CONVERSATION, saying(large))
  t.same(found(conversations, '0'), [])
  t.equal(found(conversations, '1').length, 1)
  for (let i = 1; i < 17; i++) conversations.committed(cell(), run(`${i}`), saying(large), NO_CONVERSATION)
  conversations.committed(cell(), run('more'), NO_CONVERSATION, saying(large))
  t.equal(found(conversations, 'more').length, 1)
})

t.test('a conversation that is gone comes back with what its run has of it', async (t) => {
  const conversations = new Conversations()
  const before = saying('one')
  const after = withTurn(before, 'two', [{ role: 'user', content: 'two' }])
  conversations.committed(cell(), run('a'), before, after)
  t.same(found(conversations, 'a'), ['one', 'two'])
})

t.test('is for models in threads, and not for agents of one run', async (t) => {
  const conversations = new Conversations()
  for (const [other, threadId] of [
    [cell(), undefined],
    [cell(1, { run: run('a') }), 'a'],
    [cell(1, { settings: { playedByModel: false } }), 'a'],
  ] as const)
    conversations.committed(other, run(threadId), NO_CONVERSATION, saying('hello'))
  t.same(found(conversations, 'a'), [])
  t.same(found(conversations, undefined), [])
})

t.test('a run that goes on keeps its own', async (t) => {
  const conversations = new Conversations()
  const own = run('a')
  own.states.set(1, saying('own'))
  conversations.committed(cell(), run('a'), NO_CONVERSATION, saying('other'))
  conversations.begin(cell(), own)
  t.same(historyOf(own.states.get(1) as Conversation), [{ role: 'user', content: 'own' }])
})

t.test('goes with its agent', async (t) => {
  const conversations = new Conversations()
  for (const index of [1, 2]) conversations.committed(cell(index), run('a'), NO_CONVERSATION, saying(`of ${index}`))
  conversations.forget(1)
  t.same(found(conversations, 'a'), [])
  t.same(found(conversations, 'a', cell(2)), ['of 2'])
})
