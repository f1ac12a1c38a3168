import t from 'tap'
import { SseFrames } from '../src/shared/answers.ts'
import { Dice } from './dice.ts'

/** The events of a stream that comes in these chunks. */
function framesOf(chunks: readonly Uint8Array[]): string[] {
  const frames = new SseFrames()
  const events = chunks.flatMap((chunk) => [...frames.take(chunk)])
  return [...events, ...frames.end()].map((event) => Buffer.from(event).toString())
}

const whole = (text: string) => framesOf([Buffer.from(text)])

t.test('a stream is cut into its events, with one line feed a line', async (t) => {
  t.strictSame(whole('data: 1\n\ndata: 2\r\n\r\ndata: 3\r\revent: e\ndata: 4\n\n'), [
    'data: 1\n\n',
    'data: 2\n\n',
    'data: 3\n\n',
    'event: e\ndata: 4\n\n',
  ])
})

t.test('blank lines, comments and events without data are left out, and counted', async (t) => {
  const frames = new SseFrames()
  const sent = ['\n\n', ': a comment\n\n', 'id: 1\n\n', 'data: 1\n: within\n\n']
  const events = sent.flatMap((text) => [...frames.take(Buffer.from(text))])
  t.strictSame(events.map(String), [Buffer.from('data: 1\n\n')].map(String))
  t.equal(frames.empty, '\n\n: a comment\n\nid: 1\n\n: within\n'.length)
  t.equal(frames.pending, 0)
})

t.test('a last event without its blank line comes at the end, also one without a line feed', async (t) => {
  t.strictSame(whole('data: 1\n'), ['data: 1\n\n'])
  t.strictSame(whole('data: 1'), ['data: 1\n\n'])
  t.strictSame(whole(''), [])
})

t.test('where the chunks are cut makes no difference', async (t) => {
  const dice = new Dice(7)
  const text = 'data: {"a":"\u00e4\u{1f600}"}\r\n\r\n: ping\n\nevent: x\rdata: 2\r\rdata\n\ndatum: 3\n\ndata:4\n\n'
  const expected = whole(text)
  t.strictSame(expected.slice(1), ['event: x\ndata: 2\n\n', 'data\n\n', 'data:4\n\n'])
  const bytes = Buffer.from(text)
  for (let round = 0; round < 500; round += 1) {
    const chunks: Uint8Array[] = []
    for (let at = 0; at < bytes.length; ) {
      const length = 1 + dice.upTo(9)
      chunks.push(bytes.subarray(at, at + length))
      at += length
    }
    t.strictSame(framesOf(chunks), expected)
  }
})
