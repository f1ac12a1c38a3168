/** What an agent keeps of a conversation, and what its contents are. */
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
import { countMessage } from '../../src/actors/model/tokens.ts'
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
