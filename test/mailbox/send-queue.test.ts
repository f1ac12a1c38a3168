/** The line of messages that wait for room: in order, and one question for as many as get in. */
import t from 'tap'
import { type Queued, SendQueue } from '../../src/actors/turn/link.ts'

const AGENT = 3
/** Only messages of a thread need it. */
const UNUSED = {} as ConstructorParameters<typeof SendQueue>[0]

/** A line in front of a mailbox with `room`, whose host answers when it is told to. */
function stage(room: number) {
  const sends = new SendQueue(UNUSED)
  const written: string[] = []
  const settle = new Map<string, () => void>()
  const free = { room }
  const add = (name: string, kind: Queued['kind'] = 'send') => {
    const settled = new Promise<void>((resolve) => settle.set(name, resolve))
    sends.append(AGENT, {
      kind,
      settled,
      claim() {
        if (free.room === 0) return false
        free.room -= 1
        written.push(name)
        if (kind === 'send') settle.get(name)?.()
        return true
      },
      ask: () => void written.push(`${name}?`),
    })
  }
  /** What the host says, or who asked withdraws. */
  const settles = async (name: string) => {
    settle.get(name)?.()
    await new Promise(setImmediate)
  }
  return { sends, written, free, add, settles }
}

t.test('the first asks; those behind it wait for its verdict', async (t) => {
  const { sends, written, add, settles } = stage(0)
  for (const name of ['a', 'b', 'c']) add(name)
  t.same(written, ['a?'])
  t.ok(sends.open(AGENT))
  t.notOk(sends.open(AGENT + 1), 'other recipients are not concerned')
  await settles('a')
  t.same(written, ['a?', 'b?'], 'there is still no room: the next asks')
})

t.test('after a verdict those behind take the room that has freed, in order', async (t) => {
  const { sends, written, free, add, settles } = stage(0)
  for (const name of ['a', 'b', 'c', 'd']) add(name)
  free.room = 2
  await settles('a')
  t.same(written, ['a?', 'b', 'c', 'd?'])
  await settles('d')
  t.notOk(sends.open(AGENT), 'the line is gone when nobody stands in it')
})

t.test('nobody takes room by himself while a request is at the host, for it has no verdict', async (t) => {
  const { sends, written, free, add, settles } = stage(0)
  add('request', 'request')
  free.room = 5
  for (const name of ['a', 'b']) add(name)
  t.same(written, ['request?', 'a?', 'b?'], 'they ask, and so stay behind it')
  await settles('a')
  await settles('b')
  t.ok(sends.open(AGENT))
  await settles('request')
  t.notOk(sends.open(AGENT))
})

t.test('sends behind a request ask up to a limit, and go on with each verdict', async (t) => {
  const { written, add, settles } = stage(0)
  add('request', 'request')
  for (let n = 0; n < 70; n++) add(`s${n}`)
  t.equal(written.length, 65)
  await settles('s0')
  t.equal(written.at(-1), 's64?')
})

t.test('a request in line takes room like a send', async (t) => {
  const { written, free, add, settles } = stage(0)
  add('a')
  add('request', 'request')
  t.same(written, ['a?', 'request?'], 'it does not wait for the verdict: the host keeps the order')
  free.room = 1
  await settles('a')
  await settles('request')
  add('b', 'request')
  t.same(written, ['a?', 'request?', 'b'])
})

t.test('what is withdrawn while it stands in line is never written', async (t) => {
  const { sends, written, add, settles } = stage(0)
  for (const name of ['a', 'b', 'c']) add(name)
  await settles('b')
  await settles('a')
  t.same(written, ['a?', 'c?'])
  await settles('c')
  t.notOk(sends.open(AGENT))
})

t.test('an ask of an earlier life holds the line until the host has answered it', async (t) => {
  const { sends, written, free, add } = stage(0)
  let answered = () => {}
  const verdict = new Promise<void>((resolve) => {
    answered = resolve
  })
  sends.asked(AGENT, verdict)
  free.room = 1
  add('a')
  t.same(written, [])
  answered()
  await new Promise(setImmediate)
  t.same(written, ['a'])
  t.notOk(sends.open(AGENT))
})

t.test('before a message to all everybody asks, and until its verdict nobody takes room', async (t) => {
  const { sends, written, free, add, settles } = stage(0)
  for (const name of ['a', 'b', 'c']) add(name)
  sends.askAll()
  t.same(written, ['a?', 'b?', 'c?'])
  let accept = () => {}
  sends.askedAll(new Promise<void>((resolve) => (accept = resolve)))
  t.ok(sends.open(AGENT + 1), 'it is for everybody')
  for (const name of ['a', 'b', 'c']) await settles(name)
  free.room = 1
  add('d')
  add('e', 'request')
  t.same(written, ['a?', 'b?', 'c?'])
  accept()
  await settles('')
  t.same(written, ['a?', 'b?', 'c?', 'd', 'e?'])
  t.notOk(sends.open(AGENT + 1))
})
