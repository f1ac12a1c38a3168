/** Row J4: append until a share of the window is full, then the last messages and one summary of the others. */
import t from 'tap'
import { textOf } from '../../src/actors/definition/content.ts'
import type { ModelMessage } from '../../src/actors/definition/model.ts'
import { summaryRequest } from '../../src/actors/model/summary.ts'
import { nextContext } from '../../src/actors/model/window.ts'
import { ConfigurationError, ModelError, RunAbortedError } from '../../src/shared/errors.ts'
import { pluck } from '../kit/lists.ts'
import { assistant, calls, count, isPaired, sourceOf, talk, user, windowOf } from './conversations.ts'

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
