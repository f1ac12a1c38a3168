/** What holds of both strategies for any conversation. */
import fc from 'fast-check'
import t from 'tap'
import { textOf } from '../../src/actors/definition/content.ts'
import type { ModelMessage } from '../../src/actors/definition/model.ts'
import { piecesOf } from '../../src/actors/model/conversation.ts'
import type { TokenWindow } from '../../src/actors/model/shorten.ts'
import { summaryOf } from '../../src/actors/model/summary.ts'
import { type BuiltContext, type ContextSource, nextContext } from '../../src/actors/model/window.ts'
import { ConfigurationError } from '../../src/shared/errors.ts'
import { anyHistory, count, isPaired, sourceOf, windowOf } from './conversations.ts'

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
