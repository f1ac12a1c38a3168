/**
 * The words that all threads share deny room that the host's records know of, or a wake-up that did not come: forged, or
 * on its way.
 */

import type { Test } from 'tap'
import t from 'tap'
import { CLAIM } from '../../src/mailbox/channel.ts'
import { HOST_ASLEEP } from '../../src/mailbox/team-memory.ts'
import { ask, openTeam } from './teams.ts'

const CAPACITY = 8
const LOOK_MS = 50

/** A worker whose empty mailbox has room for 2 messages by the words, which the host doubts. It works for `workMs`. */
async function doubted(t: Test, workMs = 0) {
  const team = openTeam(
    t,
    {
      sender: async (_message, context) => {
        await context.send('worker', 'work')
        return 'sent'
      },
      worker: (_message, context) => context.sleep(workMs),
    },
    { communication: { mailboxCapacity: CAPACITY } },
  )
  t.equal(await ask(team, 'sender'), 'sent')
  await team.clock.runToIdle()
  const { directory, repairs, sharedWords, team: memory } = team.host
  const worker = directory.cell('worker')!
  const room = () => memory.room(worker.index).messages
  t.equal(room(), CAPACITY)
  for (let n = 0; n < CAPACITY - 2; n++) memory.claim(worker.index, 0)
  sharedWords.doubt(worker)
  /** The sender's thread is at its claim of that mailbox, or not. */
  const note = (claims: boolean) => {
    const { words } = directory.cell('sender')!.life!.window
    Atomics.store(words, CLAIM, claims ? worker.index + 1 : 0)
  }
  return { team, repairs, room, note }
}

t.test('room that stays denied is given back', async (t) => {
  const { team, repairs, room } = await doubted(t)
  await team.clock.advance(4 * LOOK_MS)
  t.same([repairs.count, room()], [0, 2], 'messages may be on their way')
  await team.clock.advance(LOOK_MS)
  t.same([repairs.count, room()], [1, CAPACITY])
})

t.test('as long as senders find room, as in a flood, what is denied counts as messages on their way', async (t) => {
  const { team, repairs, room } = await doubted(t)
  for (let n = 0; n < 20; n++) {
    const sent = ask(team, 'sender')
    await team.clock.advance(LOOK_MS)
    t.equal(await sent, 'sent')
  }
  t.same([repairs.count, room()], [0, 2])
  await team.clock.advance(6 * LOOK_MS)
  t.same([repairs.count, room()], [1, CAPACITY], 'nobody sends any more')
})

t.test('a thread that the system stopped between its claim and its message is waited for', async (t) => {
  const { team, repairs, room, note } = await doubted(t)
  note(true)
  await team.clock.advance(90 * LOOK_MS)
  t.same([repairs.count, room()], [0, 2])
  note(false)
  await team.clock.advance(4 * LOOK_MS)
  t.same([repairs.count, room()], [0, 2], 'its message may be on its way')
  await team.clock.advance(LOOK_MS)
  t.same([repairs.count, room()], [1, CAPACITY])
})

t.test('a claim that never becomes a message does not deny room for ever', async (t) => {
  const { team, repairs, room, note } = await doubted(t)
  note(true)
  await team.clock.advance(104 * LOOK_MS)
  t.same([repairs.count, room()], [0, 2])
  await team.clock.advance(LOOK_MS)
  t.same([repairs.count, room()], [1, CAPACITY])
})

t.test('that the host admits messages whose senders found no room proves no room', async (t) => {
  const { team, repairs, room } = await doubted(t, LOOK_MS)
  const sent = []
  for (let n = 0; n < 12; n++) {
    sent.push(ask(team, 'sender'), ask(team, 'sender'))
    await team.clock.advance(LOOK_MS)
  }
  t.equal(repairs.count, 1)
  await team.clock.runToIdle()
  t.same(await Promise.all(sent), Array(24).fill('sent'))
  t.equal(room(), CAPACITY)
})

t.test('a wake-up that has not come is missed by the second check in a row', async (t) => {
  const { team, repairs } = await doubted(t)
  const { loop, sharedWords, team: memory } = team.host
  const wakeUp = () => Atomics.store(memory.words, HOST_ASLEEP, 0)
  const look = () => {
    sharedWords.look()
    return repairs.count
  }
  for (let n = 0; n < 3; n++) {
    look()
    wakeUp()
    t.equal(look(), 0, 'its message may come after this timer')
    loop.kick() // here it is
  }
  look()
  wakeUp()
  t.equal(look(), 0)
  wakeUp()
  t.equal(look(), 1)
})
