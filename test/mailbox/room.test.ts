import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import fc from 'fast-check'
import t from 'tap'
import { HOST_ASLEEP, HOST_CALLED, MAX_AGENTS, PERMITS_WANTED, TeamMemory } from '../../src/mailbox/team-memory.ts'
import type { Claimer } from '../fixtures/claimer.ts'

const ANY = 2 ** 31 - 1

function roomFor(messages: number, bytes: number): TeamMemory {
  const team = new TeamMemory(2)
  team.open(0, messages, bytes, ANY)
  return team
}

/** How many messages of that size find room now. */
function claimAll(team: TeamMemory, bytes: number): number {
  let count = 0
  while (team.claim(0, bytes)) count += 1
  return count
}

t.test('there is room for as many messages as were opened for', async (t) => {
  t.equal(claimAll(roomFor(3, 1_000), 1), 3)
})

t.test('there is room for as many bytes as were opened for', async (t) => {
  t.equal(claimAll(roomFor(100, 1_000), 100), 10)
  t.equal(claimAll(roomFor(100, 1_000), 300), 3)
})

t.test('a message may take all bytes, and none takes more', async (t) => {
  const team = roomFor(3, 1_000)
  t.notOk(team.claim(0, 1_001))
  t.ok(team.claim(0, 1_000))
  t.notOk(team.claim(0, 1))
})

t.test('a message larger than its recipient takes has to ask, however much room there is', async (t) => {
  const team = new TeamMemory(1)
  team.open(0, 10, 10_000, 100)
  t.notOk(team.claim(0, 101))
  t.ok(team.claim(0, 100))
  team.open(0, 10, 10_000, 2 ** 40)
  t.ok(team.claim(0, 101), 'a limit that no message can reach')
})

t.test('a claim that finds no room takes none', async (t) => {
  const team = roomFor(2, 1_000)
  for (let i = 0; i < 10; i++) t.notOk(team.claim(0, 2_000))
  t.equal(claimAll(team, 500), 2)
})

t.test('what is released can be claimed again', async (t) => {
  const team = roomFor(1, 100)
  t.ok(team.claim(0, 100))
  t.notOk(team.claim(0, 100))
  team.release(0, 100)
  t.ok(team.claim(0, 100))
})

t.test('room that is taken by force is missing until it is given back', async (t) => {
  const team = roomFor(2, 1_000)
  team.force(0, 5_000)
  t.notOk(team.claim(0, 1))
  team.release(0, 5_000)
  t.equal(claimAll(team, 500), 2)
})

t.test('a closed mailbox has no room, whatever is given back to it', async (t) => {
  const team = roomFor(2, 1_000)
  team.claim(0, 10)
  team.close(0)
  team.release(0, 10)
  t.notOk(team.claim(0, 1))
  t.notOk(team.claim(0, 0))
})

t.test('a mailbox that is opened again has all of its room', async (t) => {
  const team = roomFor(2, 1_000)
  claimAll(team, 500)
  team.close(0)
  team.open(0, 2, 1_000, ANY)
  t.equal(claimAll(team, 500), 2)
})

t.test('a mailbox that was never opened has no room', async (t) => {
  t.notOk(new TeamMemory(1).claim(0, 0))
})

t.test('each mailbox has a room of its own', async (t) => {
  const team = roomFor(1, 100)
  team.open(1, 1, 100, ANY)
  t.ok(team.claim(1, 100))
  t.ok(team.claim(0, 100))
})

t.test('both sides see the same room and the same words', async (t) => {
  const team = roomFor(1, 100)
  const other = new TeamMemory(team.buffer)
  t.equal(other.size, 2)
  t.ok(other.claim(0, 100))
  t.notOk(team.claim(0, 100))
  for (const word of [HOST_ASLEEP, HOST_CALLED, PERMITS_WANTED]) {
    Atomics.store(team.words, word, 1)
    t.equal(Atomics.load(other.words, word), 1)
  }
  other.release(0, 100)
  t.ok(team.claim(0, 100), 'the words are no part of the room')
})

t.test('claims and releases in any order leave the room that a sum would leave', async () => {
  const op = fc.tuple(fc.constantFrom('claim', 'release', 'force'), fc.integer({ min: 1, max: 400 }))
  fc.assert(
    fc.property(fc.array(op), (ops) => {
      const team = roomFor(8, 1_000)
      const held: number[] = []
      const taken = () => held.reduce((sum, bytes) => sum + bytes, 0)
      for (const [kind, bytes] of ops) {
        if (kind === 'force') {
          team.force(0, bytes)
          held.push(bytes)
        } else if (kind === 'release') {
          const last = held.pop()
          if (last !== undefined) team.release(0, last)
        } else {
          const fits = held.length < 8 && taken() + bytes <= 1_000
          if (team.claim(0, bytes) !== fits) return false
          if (fits) held.push(bytes)
        }
      }
      return true
    }),
  )
})

t.test('threads that claim at the same time never hold more than there is, and leave all of it', async (t) => {
  const [capacity, bytes, claimers] = [8, 1_000, 3]
  const team = roomFor(capacity, bytes)
  const held = new SharedArrayBuffer(8)
  const gate = new SharedArrayBuffer(8)
  const all = Array.from({ length: claimers }, (_, i) =>
    claim({ team: team.buffer, held, gate, claimers, rounds: 300_000, capacity, bytes, seed: i + 1 }),
  )
  for (const posted of await Promise.all(all)) t.match(posted, { within: true })
  t.same([...new Int32Array(held)], [0, 0])
  t.equal(claimAll(team, bytes / capacity), capacity)
})

async function claim(workerData: Claimer): Promise<unknown> {
  const worker = new Worker(new URL('../fixtures/claimer.js', import.meta.url), { workerData })
  const [[posted]] = await Promise.all([once(worker, 'message'), once(worker, 'exit')]) // either may come first
  return posted
}

t.test('both sides see who has written', async (t) => {
  for (const names of [1, 31, 32, 33, 64, 65, 5_000, MAX_AGENTS]) {
    const host = new TeamMemory(names)
    const thread = new TeamMemory(host.buffer)
    t.equal(thread.size, names)
    const last = names - 1
    thread.wrote(0)
    thread.wrote(last)
    thread.wrote(last)
    const bits = (word: number) => host.takeWriters(word) >>> 0
    const expected = last < 32 ? (1 | (1 << last)) >>> 0 : 1
    t.equal(bits(0), expected)
    if (last >= 32) t.equal(bits(last >> 5), (1 << (last & 31)) >>> 0)
    t.equal(bits(0) + bits(last >> 5), 0, 'taken once')
    host.open(last, 3, 100, ANY)
    host.allWrote()
    t.same(thread.room(last), { messages: 3, bytes: 100 }, 'the marks are no part of the room')
    t.equal(bits(last >> 5), 2 ** 32 - 1)
  }
})
