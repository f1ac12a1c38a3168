/** What a model is shown of a conversation, by the strategy of its role. */

import fc from 'fast-check'
import t from 'tap'
import { textOf } from '../../src/actors/definition/content.ts'
import type { ModelMessage } from '../../src/actors/definition/model.ts'
import { piecesOf } from '../../src/actors/model/conversation.ts'
import type { TokenWindow } from '../../src/actors/model/shorten.ts'
import { summaryOf, summaryRequest } from '../../src/actors/model/summary.ts'
import { type BuiltContext, type ContextSource, customContext, nextContext } from '../../src/actors/model/window.ts'
import { ConfigurationError, ModelError, RunAbortedError } from '../../src/shared/errors.ts'
import { pluck } from '../kit/lists.ts'
import { anyHistory, assistant, calls, count, isPaired, sourceOf, talk, user, windowOf } from './conversations.ts'

// Row J4: append until a share of the window is full, then the last messages and one summary of the others.

const strategy = { strategy: 'append_until_full' } as const
const never = () => Promise.reject(new Error('nothing is to be summarized'))
const said = async () => 'what was said'

t.test('appends everything below the threshold', async (t) => {
  const history = talk(30)
  const { messages, dropped } = await nextContext(strategy, sourceOf(history), windowOf(8_000), never)
  t.same(messages, [{ role: 'system', content: 'You write.' }, ...history])
  t.equal(dropped, 0)
})

t.test('goes up to the threshold exactly, and not a token further', async (t) => {
  const history = talk(30)
  const tokens = count([{ role: 'system', content: 'You write.' }, ...history])
  const full = { ...strategy, threshold: 0.5 }
  t.equal((await nextContext(full, sourceOf(history), windowOf(tokens * 2), never)).dropped, 0)
  t.equal((await nextContext(full, sourceOf(history), windowOf(tokens * 2 - 1), said)).dropped, 40)
})

t.test('counts the specifications of tools as part of the prompt', async (t) => {
  const history = talk(30)
  const tokens = count([{ role: 'system', content: 'You write.' }, ...history])
  const full = { ...strategy, threshold: 0.5 }
  t.equal((await nextContext(full, sourceOf(history), windowOf(tokens * 2, { overhead: 1 }), said)).dropped, 40)
})

t.test('keeps the last 20 messages and sums the others up, from 80 % of the window on', async (t) => {
  const history = talk(30, 100)
  const summarized: ModelMessage[][] = []
  const summarize = async (messages: readonly ModelMessage[]) => {
    summarized.push([...messages])
    return 'Much was said.'
  }
  const tokens = count([{ role: 'system', content: 'You write.' }, ...history])
  const within = Math.ceil(tokens / 0.8)
  t.equal((await nextContext(strategy, sourceOf(history), windowOf(within), never)).dropped, 0)
  const built = await nextContext(strategy, sourceOf(history), windowOf(within - 2), summarize)
  t.same(summarized, [history.slice(0, 40)])
  t.equal(built.dropped, 40)
  t.same(built.messages[0], { role: 'system', content: 'You write.' })
  t.equal(built.messages[1]?.role, 'user')
  t.match(built.messages[1]?.content, /40 messages.*Much was said\./s)
  t.same(built.messages.slice(2), history.slice(-20))
})

t.test('takes the call of a tool along where the cut would part it from its results', async (t) => {
  const history = [...talk(20, 100), ...calls('a', 'one', 'two', 'three'), ...talk(9)]
  const built = await nextContext(strategy, sourceOf(history), windowOf(1_200), said)
  t.same(built.messages.slice(2), history.slice(-22), '18 of the last 20 are after it')
  t.ok(isPaired(built.messages))
})

t.test('goes on from the summary with what is said then', async (t) => {
  const history = talk(30, 100)
  const window = windowOf(1_800)
  const first = await nextContext(strategy, sourceOf(history), window, said)
  const later = [...history.slice(first.dropped), user('and now?')]
  const { messages } = await nextContext(strategy, sourceOf(later, { summary: first.summary }), window, never)
  t.same(messages, [...first.messages, user('and now?')])
})

t.test('what another strategy has left out is not passed over in silence', async (t) => {
  const summary = { text: '', messages: 7 }
  const { messages } = await nextContext(strategy, sourceOf(talk(1), { summary }), windowOf(1_800), never)
  t.same(messages[1], user('(7 messages are left out here.)'))
})

t.test('a summary is part of the next one', async (t) => {
  const history = talk(30, 100)
  const first = await nextContext(strategy, sourceOf(history), windowOf(1_800), said)
  const later = [...history.slice(first.dropped), ...talk(25, 100)]
  const seen: string[] = []
  const again = await nextContext(
    strategy,
    sourceOf(later, { summary: first.summary }),
    windowOf(1_800),
    async (messages) => {
      seen.push(textOf(messages[0]!.content))
      return 'all of it'
    },
  )
  t.match(seen, [/what was said/])
  t.equal(again.summary?.messages, 40 + again.dropped)
  t.equal(again.messages.filter(({ content }) => textOf(content).includes('Summary of')).length, 1)
  t.match(again.messages[1]?.content, /all of it/)
})

t.test('does not pay for a summary where there is nothing to sum up', async (t) => {
  const history = talk(10, 100)
  const tokens = count([{ role: 'system', content: 'You write.' }, ...history])
  const { messages, dropped } = await nextContext(strategy, sourceOf(history), windowOf(tokens), never)
  t.equal(dropped, 0)
  t.same(messages.slice(1), history)
})

t.test('keeps fewer than 20 where those do not fit into the window', async (t) => {
  const history = talk(20, 400)
  const window = windowOf(1_200)
  const { messages, dropped } = await nextContext(strategy, sourceOf(history), window, said)
  t.ok(dropped > 20)
  t.ok(count(messages) <= 1_200)
  t.same(messages.at(-1), history.at(-1))
})

t.test('leaves room for the answer', async (t) => {
  const history = talk(20, 400)
  const { messages } = await nextContext(strategy, sourceOf(history), windowOf(1_200, { answer: 400 }), said)
  t.ok(count(messages) <= 800)
})

t.test('shortens the longest result of a tool where one exchange is too long, and says by how much', async (t) => {
  const history = [...talk(5), user('look'), ...calls('a', 'x'.repeat(40_000), 'short')]
  const { messages } = await nextContext(strategy, sourceOf(history), windowOf(1_000), said)
  t.ok(count(messages) <= 1_000)
  t.ok(count(messages) > 700, 'no more than has to be')
  t.match(messages.at(-2)?.content, /x \[\.\.\. \d+ characters left out \.\.\.\] x/)
  t.equal(messages.at(-1)?.content, 'short')
  t.ok(isPaired(messages))
})

t.test('a text is not cut within a character', async (t) => {
  const history = calls('a', '🌍'.repeat(10_000))
  const { messages } = await nextContext(strategy, sourceOf(history), windowOf(1_000), said)
  t.match(messages.at(-1)?.content, /^(🌍)+ \[\.\.\. \d+ characters left out \.\.\.\] (🌍)+$/u)
})

t.test('where the newest message does not fit, says so and pays nothing', async (t) => {
  const history = [...talk(30), user('x'.repeat(10_000))]
  const error = await nextContext(strategy, sourceOf(history), windowOf(1_000), never).catch(
    (thrown: unknown) => thrown,
  )
  t.type(error, ConfigurationError)
  t.match(error, { message: /"writer".*maxTokens is 1000/, details: { path: 'maxTokens', maxTokens: 1_000 } })
})

t.test('a model that cannot sum up costs no turn: there is an excerpt that says what it is', async (t) => {
  const history = talk(40, 300)
  const failing = () => Promise.reject(new ModelError('busy'))
  const { messages, summary } = await nextContext(strategy, sourceOf(history), windowOf(4_000), failing)
  t.equal(summary?.isExcerpt, true)
  t.match(messages[1]?.content, /^60 messages are left out here, and could not be summarized.*user: question 0/s)
  t.ok(count(messages) <= 4_000)
})

t.test('an empty summary is none', async (t) => {
  const { summary } = await nextContext(strategy, sourceOf(talk(40, 100)), windowOf(1_000), async () => ' \n')
  t.equal(summary?.isExcerpt, true)
})

t.test('what is no failure of the model ends the turn', async (t) => {
  const over = () => Promise.reject(new RunAbortedError('over'))
  await t.rejects(nextContext(strategy, sourceOf(talk(40, 100)), windowOf(1_000), over), RunAbortedError)
})

t.test('a summary that is too long is cut to a tenth of the window', async (t) => {
  const long = async () => 'y'.repeat(20_000)
  const { summary } = await nextContext(strategy, sourceOf(talk(40, 100)), windowOf(2_000), long)
  t.ok(count([user(summary!.text)]) <= 200)
  t.match(summary?.text, /characters left out/)
})

t.test('a conversation that is short by a cheap bound is not counted', async (t) => {
  const refuse = () => {
    throw new Error('it was counted')
  }
  const window = windowOf(8_000, { count: refuse, bound: () => 6_400 })
  await t.resolves(nextContext(strategy, sourceOf(talk(5)), window, never))
})

t.test('a summary is asked for as a transcript that fits into the window', async (t) => {
  const history = [user('look'), ...calls('a', 'x'.repeat(40_000)), assistant('seen')]
  const request = summaryRequest(history, 100, windowOf(1_000))
  t.same(pluck(request, 'role'), ['system', 'user'])
  t.match(
    request[1]?.content,
    /user: look.*\(calls look \{\}\).*tool: x+ \[\.\.\. \d+ characters left out.*assistant: seen/s,
  )
  t.ok(count(request) <= 900)
  const endless = summaryRequest(talk(2_000, 100), 100, windowOf(1_000))
  t.ok(count(endless) <= 1_000, 'also when there is too much for each of them to say anything')
})

// Row J5: where the work stands from the goal down, and the last exchanges.

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

// What `buildContext` returns is checked before a model is asked.

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

// What holds of both strategies for any conversation.

const anyStrategy = fc.oneof(
  fc.record({
    strategy: fc.constant('append_until_full' as const),
    threshold: fc.double({ min: 0.1, max: 1, noNaN: true }),
    keepRecent: fc.integer({ min: 1, max: 30 }),
  }),
  fc.record({ strategy: fc.constant('hierarchical' as const), historyKeep: fc.integer({ min: 1, max: 15 }) }),
)
const anyWindow = fc.record({
  maxTokens: fc.integer({ min: 300, max: 6_000 }),
  overhead: fc.integer({ min: 0, max: 100 }),
  answer: fc.integer({ min: 0, max: 100 }),
})

const summarize = async (messages: readonly ModelMessage[]) => `summary of ${messages.length}`

type Built = BuiltContext & {
  strategy: typeof anyStrategy extends fc.Arbitrary<infer Each> ? Each : never
  source: ContextSource
  window: TokenWindow
}

/** Holds for each conversation, strategy and window; those for which nothing fits are refused, and only those. */
const always = (holds: (built: Built) => void | Promise<void>) =>
  fc.assert(
    fc.asyncProperty(anyHistory, anyStrategy, anyWindow, async (history, strategy, fields) => {
      const window = windowOf(fields.maxTokens, fields)
      const source = sourceOf(history)
      const built = await nextContext(strategy, source, window, summarize).catch((error: unknown) => error)
      if (!(built instanceof ConfigurationError)) return holds({ ...(built as BuiltContext), strategy, source, window })
      const least = piecesOf(history)
        .at(-1)!
        .map((message) => (message.role === 'tool' ? { ...message, content: 'x'.repeat(192) } : message))
      const needed = count([{ role: 'system', content: source.systemPrompt! }, ...least])
      const summary = fields.maxTokens / 10 + 200
      if (needed + summary <= fields.maxTokens - fields.overhead - fields.answer)
        throw new Error(`it was refused, but needs only ${needed} tokens: ${built.message}`)
    }),
    { numRuns: 100 },
  )

/** What of the history is in the messages; a text that was shortened still begins with its place. */
const placesIn = (messages: readonly ModelMessage[]) =>
  messages.flatMap(({ content }) => /^(\d+\.\d+):/.exec(textOf(content))?.[1] ?? [])

t.test('no result of a tool without its call, no call without its result', async () => {
  await always(({ messages }) => {
    if (!isPaired(messages)) throw new Error('torn apart')
  })
})

t.test('what stays is the end of the conversation, whole and in order', async () => {
  await always(({ messages, source, dropped }) => {
    const places = placesIn(messages)
    const kept = placesIn(source.history.slice(dropped))
    if (places.join() !== kept.join()) throw new Error(`${places} instead of ${kept}`)
  })
})

t.test('the newest message is always there, as it was said', async () => {
  await always(({ messages, source }) => {
    const newest = source.history.at(-1)!
    const last = messages.at(-1)!
    if (newest.role !== 'tool' && last !== newest) throw new Error(`${last.content} instead of ${newest.content}`)
  })
})

t.test('the system prompt stands first, whole and once', async () => {
  await always(({ messages }) => {
    const system = messages.filter(({ role }) => role === 'system')
    if (system.length !== 1 || messages[0]?.content !== 'You write.') throw new Error('it is not')
  })
})

t.test('the window is kept, with what tools and the answer need', async () => {
  await always(({ messages, window }) => {
    const tokens = count(messages) + window.overhead + window.answer
    if (tokens > window.maxTokens) throw new Error(`${tokens} of ${window.maxTokens}`)
  })
})

t.test('what is gone is counted', async () => {
  await always(({ dropped, summary }) => {
    if ((summary?.messages ?? 0) !== dropped) throw new Error(`${summary?.messages} of ${dropped}`)
  })
})

t.test('the same conversation makes the same messages', async () => {
  await fc.assert(
    fc.asyncProperty(anyHistory, anyStrategy, anyWindow, async (history, strategy, fields) => {
      const build = () =>
        nextContext(strategy, sourceOf(history), windowOf(fields.maxTokens, fields), summarize).catch(String)
      const [one, other] = [await build(), await build()]
      if (JSON.stringify(one) !== JSON.stringify(other)) throw new Error('not the same')
    }),
  )
})

t.test('what a strategy has left it leaves again, as long as nothing more is said', async () => {
  await always(async ({ messages, dropped, summary, strategy, source, window }) => {
    const full = strategy.strategy === 'append_until_full' ? strategy.threshold * window.maxTokens : window.maxTokens
    if (count(messages) + window.overhead > full) return // it is not below its threshold yet
    const left = { ...source, history: source.history.slice(dropped), summary }
    const again = await nextContext(strategy, left, window, () => Promise.reject(new Error('it was paid for twice')))
    if (again.dropped > 0) throw new Error(`${again.dropped} more messages went`)
    if (placesIn(again.messages).join() !== placesIn(messages).join()) throw new Error('not the same')
  })
})

t.test('a summary has a bound, whatever the model writes', async () => {
  await fc.assert(
    fc.asyncProperty(anyHistory, fc.string({ maxLength: 20_000, unit: 'binary' }), async (history, text) => {
      const { text: short } = await summaryOf(history, undefined, windowOf(2_000), async () => text)
      const tokens = count([{ role: 'user', content: short }])
      if (tokens > 200) throw new Error(`${tokens} tokens`)
    }),
  )
})
