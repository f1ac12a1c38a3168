/** Aborts and their turns pass each other: one for a turn that is to begin counts, one for a turn that is over is forgotten. */
import t from 'tap'
import { EarlyAborts } from '../../src/actors/thread/replies.ts'
import { Window } from '../../src/mailbox/channel.ts'
import { turnOf } from '../../src/mailbox/frame.ts'
import type { Envelope } from '../../src/mailbox/mailbox.ts'
import { HostFrames } from '../../src/runtime/log/host-frames.ts'
import { CancelledError } from '../../src/shared/errors.ts'
import { virtualClock } from '../../src/testing.ts'
import { frameOf } from '../mailbox/frames.ts'
import { leftovers } from './accounts.ts'
import { gate, openTeam } from './teams.ts'

const reason = new CancelledError('not wanted any more', {})

/** The aborts of a life whose window holds the messages of that many turns, from 1 on. */
function lifeWith(lane: 'plain' | 'ranked', turns: number) {
  const window = new Window()
  const aborts = new EarlyAborts(window)
  const frames = new HostFrames(virtualClock())
  const envelopes = new Map<number, Pick<Envelope<unknown>, 'turn' | 'lane' | 'windowAt' | 'windowEnd'>>()
  for (let turn = 1; turn <= turns; turn++) {
    const { memory, bytes } = frameOf({ turn })
    const windowAt = window[lane].reserve(bytes)
    window[lane].copy(memory.u8, 0, bytes)
    envelopes.set(turn, { turn, lane, windowAt, windowEnd: window[lane].written })
  }
  window[lane].publish()
  /** As the thread takes the next message. */
  const take = () => {
    const at = window[lane].peek()
    const turn = turnOf(window[lane].memory, at)
    window[lane].take(at)
    window[lane].release()
    return turn
  }
  const abort = (turn: number) => {
    const { memory } = frames.abort(1, envelopes.get(turn) as Envelope<unknown>, reason)
    aborts.keep(turn, reason, memory, 0)
  }
  return { aborts, take, abort }
}

for (const lane of ['plain', 'ranked'] as const) {
  t.test(`an abort is kept for a turn that has not begun, and for no other (${lane})`, async (t) => {
    const { aborts, take, abort } = lifeWith(lane, 100)
    for (let turn = 1; turn <= 50; turn++) t.equal(take(), turn)
    for (let turn = 1; turn <= 100; turn++) abort(turn)
    t.equal(aborts.size, 50)
    t.equal(aborts.take(50), undefined)
    for (let turn = 51; turn <= 100; turn++) t.equal(aborts.take(turn), reason)
    t.equal(aborts.size, 0)
  })
}

t.test('one of a turn that ran within another one is never kept: it came behind its message', async (t) => {
  const { aborts } = lifeWith('plain', 0)
  const { memory } = new HostFrames(virtualClock()).abort(
    1,
    { turn: 1, lane: 'replies', windowAt: 0, windowEnd: 0x7fff_ffff } as Envelope<unknown>,
    reason,
  )
  aborts.keep(1, reason, memory, 0)
  t.equal(aborts.size, 0)
})

t.test('an abort that comes while its turn begins counts', async (t) => {
  const { aborts, take, abort } = lifeWith('plain', 1)
  aborts.beginning = take()
  abort(1)
  t.equal(aborts.take(1), reason)
})

for (const priority of [0, 1, -1]) {
  for (const length of [1, 20_000, 200_000]) {
    t.test(
      `a message of priority ${priority} with ${length} bytes that is withdrawn in the window never begins`,
      async (t) => {
        const { opened, open } = gate()
        const got: string[] = []
        const team = openTeam(t, {
          async asker(_message, context) {
            await context.send('worker', 'hold')
            await context.sleep(10)
            const withdrawal = new AbortController()
            const options = { priority, signal: withdrawal.signal }
            const asked = context.request('worker', 'x'.repeat(length), options).catch(({ code }) => code)
            await context.send('worker', 'behind', { priority })
            await context.sleep(10)
            withdrawal.abort()
            const code = await asked
            await context.sleep(10)
            open()
            return String(code)
          },
          async worker({ content }) {
            if (content === 'hold') await opened
            got.push(content.slice(0, 6))
          },
        })
        const run = team.execute('go')
        await team.clock.runToIdle()
        t.equal((await run).finalOutput, 'CANCELLED')
        t.same(got, ['hold', 'behind'])
        t.same(leftovers(team.host), [])
      },
    )
  }
}
