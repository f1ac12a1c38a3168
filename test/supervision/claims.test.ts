/** Rule 17: the room that a message under way had claimed is given back exactly, wherever its thread died. */
import t from 'tap'
import { CLAIM } from '../../src/mailbox/channel.ts'
import { roomOf } from './accounts.ts'
import { ask, never, type OpenTeam, openTeam } from './teams.ts'

const CAPACITY = 4
const BYTES = 4_000

/** What a mailbox that nobody uses has too much or too little. */
function difference({ host }: OpenTeam): { messages: number; bytes: number } {
  const worker = host.directory.cell('worker')!
  const all = host.team.claim(worker.index, BYTES)
  const more = host.team.claim(worker.index, 1)
  if (all) host.team.release(worker.index, BYTES)
  if (more) host.team.release(worker.index, 1)
  return { messages: roomOf(host, worker) - CAPACITY, bytes: (all ? 0 : -1) + (more ? 1 : 0) }
}

/** Runs `act` as a thread would that ends before its `last + 1`st change of what the team shares. */
function dyingAfter(last: number, act: () => void): void {
  const { sub, add } = Atomics
  let left = last
  const dying = (change: typeof sub) => (words: Int32Array, at: number, by: number) => {
    if (left === 0) throw new Error('the thread ends here')
    left -= 1
    return change(words, at, by)
  }
  Object.assign(Atomics, { sub: dying(sub), add: dying(add) })
  try {
    act()
  } catch {
    // a thread that is ended has nobody to tell
  } finally {
    Object.assign(Atomics, { sub, add })
  }
}

const communication = { mailboxCapacity: CAPACITY, mailboxBytes: BYTES }

for (const [room, length, changes] of [
  ['there is room', 100, 2],
  ['there are no bytes', 10_000, 4],
] as const) {
  for (let last = 0; last < changes; last++) {
    t.test(`a claim that its thread's end cuts off after ${last} changes, where ${room}`, async (t) => {
      const team = openTeam(
        t,
        {
          sender(_message, context) {
            if (context.attempt > 1) return
            dyingAfter(last, () => void context.send('worker', 'x'.repeat(length)))
            team.crash('sender')
            return never
          },
          worker: () => {},
        },
        { roles: { worker: { communication } } },
      )
      await ask(team, 'sender')
      t.same(difference(team), { messages: 0, bytes: 0 })
    })
  }
}

t.test('a claim where there is no place', async (t) => {
  const team = openTeam(
    t,
    {
      sender(_message, context) {
        const { index } = team.host.directory.cell('worker')!
        if (context.attempt > 1) return
        for (let i = 0; i < CAPACITY; i++) team.host.team.claim(index, 1)
        dyingAfter(1, () => void context.send('worker', 'x'))
        for (let i = 0; i < CAPACITY; i++) team.host.team.release(index, 1)
        team.crash('sender')
        return never
      },
      worker: () => {},
    },
    { roles: { worker: { communication } } },
  )
  await ask(team, 'sender')
  t.same(difference(team), { messages: 0, bytes: 0 })
})

for (const [used, turn, step] of [
  ['not used', 7, 9],
  ['used', 1, 1],
] as const) {
  t.test(`a claim that was made and ${used} when its thread died`, async (t) => {
    const team = openTeam(
      t,
      {
        async sender(_message, context) {
          if (context.attempt > 1) return
          await context.send('worker', 'x') // turn 1, step 1
          const { directory, team: room } = team.host
          const { index } = directory.cell('worker')!
          const { words } = directory.cells.find(({ name }) => name === 'sender')!.life!.window
          if (used === 'not used') room.claim(index, 500)
          words.set([index + 1, 500, turn, step], CLAIM)
          team.crash('sender')
          return never
        },
        worker: () => {},
      },
      { roles: { worker: { communication } } },
    )
    await ask(team, 'sender')
    await team.clock.advance(0)
    t.same(difference(team), { messages: 0, bytes: 0 })
  })
}
