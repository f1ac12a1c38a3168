/** Row J5: where the work stands from the goal down, and the last exchanges. */
import t from 'tap'
import type { ModelMessage } from '../../src/actors/definition/model.ts'
import { type ContextSource, nextContext } from '../../src/actors/model/window.ts'
import { ConfigurationError } from '../../src/shared/errors.ts'
import { assistant, calls, count, isPaired, sourceOf, talk, user, windowOf } from './conversations.ts'

const never = () => Promise.reject(new Error('nothing is to be summarized'))
const hierarchical = (source: ContextSource, window = windowOf(8_000), historyKeep?: number) =>
  nextContext({ strategy: 'hierarchical', ...(historyKeep && { historyKeep }) }, source, window, never)

/** The exchanges of a task under way: a question, and then rounds of a tool. */
const rounds = (n: number): ModelMessage[] => Array.from({ length: n }, (_, i) => calls(`${i}`, `result ${i}`)).flat()

const called = (name: string, input: object, id = name): ModelMessage[] => [
  { role: 'assistant', content: '', toolCalls: [{ id, name, input: JSON.stringify(input) }] },
  { role: 'tool', content: 'done', toolCallId: id },
]
const levels = { goal: 'Build a calculator', task: 'Write the parser' }

t.test(
  'keeps the last 12 exchanges, an exchange being what the model said with the results of its tools',
  async (t) => {
    const history = [user('Write the parser'), ...rounds(20)]
    const { messages, dropped } = await hierarchical(sourceOf(history, { levels }))
    t.equal(dropped, 1 + 8 * 2)
    t.same(messages.slice(2), history.slice(-24))
    t.ok(isPaired(messages))
  },
)

t.test('keeps as many as historyKeep says, and a question that is not answered yet beside them', async (t) => {
  const history = [...talk(10), user('and now?')]
  const { messages } = await hierarchical(sourceOf(history, { levels }), windowOf(8_000), 3)
  t.same(messages.slice(2), history.slice(-7))
})

t.test('says goal, task and sub-task, and that earlier actions are left out', async (t) => {
  const history = [
    user('Write the parser'),
    ...called('decompose_task', { subtasks: ['Tokens', { description: 'Grammar' }, 'Tests'] }),
    ...rounds(3),
    ...called('mark_subtask_complete', { result: 'ok' }),
    ...rounds(14),
  ]
  const { messages, dropped } = await hierarchical(sourceOf(history, { levels }))
  t.equal(
    messages[1]?.content,
    `Goal: Build a calculator\nTask: Write the parser\nSub-task (2 of 3): Grammar\n(${dropped} messages are left out here; what follows is what was done last.)`,
  )
})

t.test('a sub-task that was taken apart again is shown with the part that it is at', async (t) => {
  const turn = [
    ...called('decompose_task', { subtasks: ['Tokens', 'Grammar'] }),
    ...called('decompose_task', { subtasks: ['Numbers', 'Signs'] }, 'again'),
    ...called('mark_subtask_complete', {}),
  ]
  const { messages } = await hierarchical(sourceOf(turn, { levels }))
  t.match(messages[1]?.content, /Sub-task \(1 of 2\): Tokens > Signs/)
  const later = [...turn, ...called('mark_subtask_complete', {})]
  const [, place] = (await hierarchical(sourceOf(later, { levels }))).messages
  t.match(place?.content, /Sub-task \(2 of 2\): Grammar/)
})

t.test('says nothing of what the messages themselves say', async (t) => {
  const goal = { goal: 'Write the parser', task: 'Write the parser' }
  const turn = [user('Write the parser'), ...rounds(2)]
  t.same((await hierarchical(sourceOf(turn, { levels: goal }))).messages.slice(1), turn)
  const planned = [...turn, ...called('decompose_task', { subtasks: ['Tokens'] })]
  const [, withPlan] = (await hierarchical(sourceOf(planned, { levels: goal }))).messages
  t.equal(withPlan?.content, 'Goal: Write the parser\nSub-task (1 of 1): Tokens')
  const summary = { text: '', messages: 7 }
  const [, withGap] = (await hierarchical(sourceOf(turn, { levels: goal, summary }))).messages
  t.match(withGap?.content, /Goal: Write the parser\n\(7 messages are left out here/)
})

t.test('says when no sub-task is left', async (t) => {
  const turn = [...called('decompose_task', { subtasks: ['Tokens'] }), ...called('mark_subtask_complete', {})]
  const { messages } = await hierarchical(sourceOf(turn, { levels }))
  t.match(messages[1]?.content, /Sub-task: all 1 are done/)
})

t.test('knows its sub-tasks also when the messages that made them are gone', async (t) => {
  const turn = [user('Write the parser'), ...called('decompose_task', { subtasks: ['Tokens'] }), ...rounds(20)]
  const first = await hierarchical(sourceOf(turn, { levels }))
  const later = sourceOf(turn.slice(first.dropped), { levels, turn, summary: first.summary })
  const { messages } = await hierarchical(later)
  t.match(messages[1]?.content, /Sub-task \(1 of 1\): Tokens\n\(\d+ messages are left out/)
})

t.test('what a model called wrongly makes no sub-task', async (t) => {
  const history = [user('Write the parser'), ...called('decompose_task', { subtasks: 'all' }), assistant('Hm.')]
  history[1]!.toolCalls![0]!.input = '{"subtasks": ['
  const { messages } = await hierarchical(
    sourceOf(history, { levels: { goal: 'Write the parser', task: 'Write the parser' } }),
  )
  t.same(messages.slice(1), history, 'there is nothing to say that the messages do not say')
})

t.test('drops more exchanges where the window is too small, and says how many messages are left out', async (t) => {
  const history = talk(12, 400)
  const { messages, dropped } = await hierarchical(sourceOf(history, { levels }), windowOf(1_000))
  t.ok(dropped > 0)
  t.ok(count(messages) <= 1_000)
  t.match(messages[1]?.content, `(${dropped} messages are left out here`)
})

t.test('then shortens the longest result of a tool', async (t) => {
  const history = [user('Write the parser'), ...calls('a', 'x'.repeat(40_000))]
  const { messages } = await hierarchical(sourceOf(history, { levels }), windowOf(1_000))
  t.ok(count(messages) <= 1_000)
  t.match(messages.at(-1)?.content, /characters left out/)
})

t.test('a goal that is long itself takes no more than its share', async (t) => {
  const long = { goal: 'g'.repeat(50_000), task: 't'.repeat(50_000) }
  const { messages } = await hierarchical(sourceOf(talk(20), { levels: long }), windowOf(1_000))
  t.ok(count(messages) <= 1_000)
  t.match(messages[1]?.content, /^Goal: g+ \[\.\.\. \d+ characters left out \.\.\.\] g+\nTask: t+/)
})

t.test('a goal gives way to the newest message', async (t) => {
  const long = { goal: 'g'.repeat(50_000), task: 't'.repeat(50_000) }
  const newest = user('x'.repeat(3_500))
  const { messages } = await hierarchical(sourceOf([newest], { levels: long }), windowOf(1_000))
  t.ok(count(messages) <= 1_000)
  t.same(messages.at(-1), newest)
})

t.test('what another strategy has summarized stays known', async (t) => {
  const summary = { text: 'They met.', messages: 7 }
  const built = await hierarchical(sourceOf(rounds(20), { levels, summary }))
  t.match(built.messages[1]?.content, /They met\./)
  t.same(built.summary, { text: 'They met.', messages: 7 + built.dropped })
})

t.test('where the newest message does not fit, says so', async (t) => {
  const error = await hierarchical(sourceOf([user('x'.repeat(10_000))]), windowOf(1_000)).catch(
    (thrown: unknown) => thrown,
  )
  t.type(error, ConfigurationError)
  t.match(error, { message: /maxTokens is 1000/ })
})
