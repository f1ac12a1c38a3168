/** A message that has to wait for the outbox claims its room in the mailbox when the outbox has room again. */
import t from 'tap'
import { Link, Outbox, SendQueue, Waits } from '../../src/actors/turn/link.ts'
import { OUT_BLOCKED, Window } from '../../src/mailbox/channel.ts'
import { ASKS, correlationOf, END, flagsOf, kindOf, lengthOf, SEND } from '../../src/mailbox/frame.ts'
import { TeamMemory } from '../../src/mailbox/team-memory.ts'
import { virtualClock } from '../../src/testing.ts'

const [ME, OTHER] = [1, 2]
const LARGE = 'x'.repeat(60_000)

/** An agent with a full outbox, and a mailbox with `room` for so many messages that it sends to. */
function stage(room: number) {
  const team = new TeamMemory(4)
  team.open(OTHER, room, 2 ** 20, 2 ** 20)
  const window = new Window()
  const link = new Link(window, team, { ring() {}, onRing() {}, scheduler: virtualClock() }, ME)
  const outbox = new Outbox(link, ME, 2 ** 20, () => 0, Math.random)
  const waits = new Waits(0, 1)
  const sends = new SendQueue({ link, outbox, waits })
  const fill = (kind: number, content = LARGE) => {
    const fields = outbox.begin(kind, 1, 1, 1, content, undefined)
    fields.recipient = OTHER
    return outbox.size()
  }
  let bytes = fill(SEND)
  for (; link.reserve(bytes) >= 0; bytes = fill(SEND)) outbox.write(bytes, 'soon')
  const settled: number[] = []
  const send = () => {
    const size = fill(SEND)
    const correlation = waits.next()
    outbox.fields.correlation = correlation
    const order = { isFree: true, answered() {}, settle: (settle: () => void) => settle(), pause() {} }
    const state = { order, isAnswered: false, pieces: 0, stream: undefined }
    const wait = { kind: 'send' as const, correlation, ...state, resolve() {}, reject() {} }
    const verdict = new Promise<void>((resolve) => {
      waits.add(correlation, { ...wait, resolve: () => resolve() })
    })
    void verdict.then(() => settled.push(correlation))
    sends.add('send', size, verdict, () => waits.get(correlation)?.resolve(undefined))
  }
  /** What the host finds in the outbox; it wakes the thread when half is free. */
  const read = () => {
    const found: { kind: number; asks: boolean; correlation: number }[] = []
    for (let at = window.outbox.peek(); at >= 0; at = window.outbox.peek()) {
      const { memory } = window.outbox
      const asks = (flagsOf(memory, at) & ASKS) !== 0
      found.push({ kind: kindOf(memory, at), asks, correlation: correlationOf(memory, at) })
      window.outbox.pass(lengthOf(memory, at))
    }
    window.outbox.release()
    if (Atomics.exchange(window.words, OUT_BLOCKED, 0) === 1) link.woken()
    return found
  }
  return { team, link, waits, fill, outbox, send, settled, read }
}

t.test('it does not ask the host, and its sender goes on at once', async (t) => {
  const { team, send, settled, read } = stage(10)
  const before = team.taken(OTHER)
  send()
  t.equal(team.taken(OTHER), before, 'no room is taken while the frame could be lost with its thread')
  read()
  t.same(read(), [{ kind: SEND, asks: false, correlation: 0 }])
  t.equal(team.taken(OTHER), before + 1)
  await new Promise(setImmediate)
  t.same(settled, [1])
})

t.test('it asks if the mailbox has no room then', async (t) => {
  const { send, settled, read } = stage(0)
  send()
  read()
  t.same(read(), [{ kind: SEND, asks: true, correlation: 1 }])
  await new Promise(setImmediate)
  t.same(settled, [], 'the host will say when it has room')
})

t.test('it keeps its place before the end of its turn', async (t) => {
  const { send, fill, outbox, read } = stage(10)
  send()
  outbox.write(fill(END, ''), 'later')
  read()
  t.same(
    read().map(({ kind }) => kind),
    [SEND, END],
  )
})

t.test('it takes no room if its sender has given up', async (t) => {
  const { team, send, waits, read } = stage(10)
  const before = team.taken(OTHER)
  send()
  waits.delete(1)
  read()
  t.same(read(), [{ kind: SEND, asks: true, correlation: 1 }], 'its withdrawal is behind it')
  t.equal(team.taken(OTHER), before)
})
