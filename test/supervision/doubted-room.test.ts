/** The words that all threads share deny room that the host's records know of: forged, or messages on their way. */
import t, { type Test } from 'tap'
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
  return { team, repairs, room }
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
