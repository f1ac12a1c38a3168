/** Rules 4, 12, 13 and 17: a thread that does not end when it is told to is fenced off, and does no harm from then on. */
import t from 'tap'
import { CLAIM } from '../../src/mailbox/channel.ts'
import { restarts } from '../../src/runtime/supervision/restarts.ts'
import { watchdog } from '../../src/runtime/supervision/watchdog.ts'
import { roomOf } from './accounts.ts'
import { BareSupervisor } from './bare-supervisor.ts'
import { outcomeOf } from './teams.ts'

const CAPACITY = 4
const BYTES = 2_000_000
const communication = { mailboxCapacity: CAPACITY, mailboxBytes: BYTES }

/** A worker whose thread is fenced off in its first turn; it goes on after five seconds, and sends what `text` says. */
async function fenced(text: string) {
  const heard: string[] = []
  const bare = new BareSupervisor(
    {
      async worker(_message, context) {
        if (context.attempt > 1) return 'done'
        await context.sleep(5_000)
        await context.send('other', text)
      },
      other: ({ content }) => void heard.push(content),
    },
    [restarts, watchdog],
    { supervision: { watchdogMs: 1_000 }, roles: { other: { communication } } },
  )
  await bare.start()
  const { host, clock } = bare
  const [worker, other] = [host.directory.cell('worker')!, host.directory.cell('other')!]
  const asked = outcomeOf(bare.ask('worker'))
  await clock.advance(1)
  const life = worker.life!
  const thread = bare.threads.get('worker')!
  thread.ailments.add('deaf').add('stubborn')
  const endsAtLast = async () => {
    thread.ailments.clear()
    thread.terminate()
    await clock.advance(0)
  }
  /** Whether all of its bytes are free. */
  const allBytes = () => {
    const all = host.team.claim(other.index, BYTES)
    if (all) host.team.release(other.index, BYTES)
    const more = host.team.claim(other.index, BYTES + 1)
    return all && !more
  }
  const room = () => ({ messages: roomOf(host, other), allBytes: allBytes() })
  return { bare, host, clock, worker, other, asked, life, heard, endsAtLast, room }
}

for (const [size, text] of [
  ['a message', 'stale'],
  ['a message that crosses in parts', 'x'.repeat(300_000)],
] as const)
  t.test(`rules 4 and 17: ${size} of a fenced thread is dropped, and its room given back once`, async (t) => {
    const { clock, worker, asked, heard, endsAtLast, room } = await fenced(text)
    await clock.advance(3_000)
    t.same([worker.epoch, asked.value], [2, 'done'])
    await clock.advance(3_000) // it sends
    await endsAtLast()
    t.ok(worker.staleFrames > 0)
    t.same(heard, [])
    t.same(room(), { messages: CAPACITY, allBytes: true })
  })

for (const when of ['before', 'after'])
  t.test(`rule 17: a claim that it had made ${when} it was fenced off is given back once, at its end`, async (t) => {
    const { host, clock, other, life, endsAtLast, room } = await fenced('stale')
    const claim = () => {
      host.team.claim(other.index, 500)
      life.window.words.set([other.index + 1, 500, 7, 9], CLAIM)
    }
    if (when === 'before') claim()
    await clock.advance(3_000)
    if (when === 'after') claim()
    t.equal(roomOf(host, other), CAPACITY - 1, 'its thread may use it yet')
    await endsAtLast()
    t.same(room(), { messages: CAPACITY, allBytes: true })
  })

t.test('rule 12: closing does not hang on a thread that does not end, nor on one that was fenced off', async (t) => {
  const { bare, host, clock, worker } = await fenced('stale')
  await clock.advance(3_000)
  bare.threads.get('worker')!.ailments.add('stubborn')
  bare.threads.get('other')!.ailments.add('stubborn')
  const ended = outcomeOf(Promise.all(host.directory.cells.map((cell) => host.lifecycle.end(cell))))
  await clock.advance(6_000)
  t.equal(ended.settled, true)
  t.equal(worker.life === undefined, true)
})

t.test('rules 1 and 4: agents that are restarted together wait a second for one that does not end', async (t) => {
  const bare = new BareSupervisor({ a: () => 'a', b: () => 'b' }, [restarts], {
    supervision: { strategy: 'one_for_all' },
  })
  await bare.start()
  bare.threads.get('b')!.ailments.add('stubborn')
  bare.threads.get('a')!.terminate()
  await bare.clock.advance(999)
  t.same([bare.host.directory.cell('a')!.epoch, bare.host.directory.cell('b')!.epoch], [1, 1])
  await bare.clock.advance(1)
  t.same([bare.host.directory.cell('a')!.epoch, bare.host.directory.cell('b')!.epoch], [2, 2])
  t.equal(await bare.ask('b'), 'b')
})
