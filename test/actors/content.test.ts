/** Contents of several parts, as summaries, windows and clients see them. */
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
import { spoken } from '../../src/actors/model/summary.ts'
import { countMessage } from '../../src/actors/model/tokens.ts'

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
