/**
 * Real threads die of every kind of death at every point of a message's way, under load; and nothing is lost, done twice
 * or out of order, and nothing is left over. The threads are their own masters, but who dies of what, where and upon which
 * message follows from a seed, which is in the name of the test:
 *
 *   SEED=7 node dist/test/chaos/deaths.test.js      with DRAMATIS_DEEP=1: the long one
 */
import t from 'tap'
import { KINDS, POINTS } from '../fixtures/chaos/deaths.ts'
import { isFor, LISTENERS, ORACLES, SOURCES, type Use } from '../fixtures/chaos/traffic.ts'
import { leftovers, leftoversOnce } from '../fixtures/leftovers.ts'
import { imbalances, leftovers as leftIn } from '../kit/accounts.ts'
import type { Posted } from './ledger.ts'
import { permitsLeft, play } from './play.ts'

const DEEP = process.env.DRAMATIS_DEEP === '1'
const seed = Number(process.env.SEED ?? 1)
const [deaths, messages, ofEach] = DEEP ? [500, 100_000, 10] : [50, 10_000, 1]
const size = DEEP ? { each: 20_000, planned: 370, killed: 110 } : { each: 2_000, planned: 40, killed: 15 }
const again = `${DEEP ? 'DRAMATIS_DEEP=1 ' : ''}SEED=${seed} node dist/test/chaos/deaths.test.js`

/** How a death is told of. */
const MANNERS = [
  /threw outside of a turn: Error: planned/,
  /threw outside of a turn: RangeError/,
  /ended with exit code 1 /,
  /ended with exit code (?!1 )/,
  /is stuck/,
  /ran out of memory/,
  /outside of its heap/,
  /went on for 50 ms after its turn was cancelled/,
  /oracle-b: .*Maximum call stack/,
]

t.test(`${deaths} deaths of every kind under ${messages} messages (again: ${again})`, async (t) => {
  const before = leftovers()
  const { team, clock, ledger, notes, killed, reports, entries, staleFrames } = await play(seed, size)
  const { workers, oracles, till, sink, listeners } = reports
  const { crashes } = ledger
  t.comment(`${crashes.length} deaths, ${killed.times} of them from outside, ${team.fenced} fenced off`)
  t.comment(`${ledger.messages} messages, ${ledger.requests} requests, ${ledger.pieces} pieces of streams`)
  /** Of that kind, those whose sender was told that nobody knows. */
  const unknown = (kind: Use) => ledger.find((posted) => kindOf(posted) === kind && diedOf(posted, 'OUTCOME_UNKNOWN'))

  await t.test('the deaths have happened, of every kind and at every point', async (t) => {
    t.ok(crashes.length >= deaths, `${crashes.length} deaths`)
    t.ok(killed.times >= size.killed / 2, `${killed.times} from outside`)
    t.ok(team.fenced >= ofEach, `${team.fenced} fenced off`)
    for (const kind of KINDS) t.ok(notes.died(kind) >= ofEach, `${kind}: ${notes.died(kind)}`)
    for (const point of POINTS) t.ok(notes.diedAt(point) >= ofEach, `${point}: ${notes.diedAt(point)}`)
    for (const manner of MANNERS) {
      const { length } = crashes.filter((message) => manner.test(message))
      t.ok(length >= ofEach, `${manner}: ${length}`)
    }
    t.ok(ledger.messages >= messages, `${ledger.messages} messages`)
  })

  await t.test('nothing is lost, doubled or out of order', async (t) => {
    const wrong = [...workers, sink, ...listeners].flatMap((agent) => agent.wrong)
    t.same(wrong, [])
    t.equal(sum(workers, 'done'), uses())
    t.equal(sink.done, uses())
    t.equal(ledger.mismatches, 0, 'a second attempt goes the way of the first')
  })

  await t.test('each message is sent once, and committed once or dead with a reason that its sender has', async (t) => {
    const wrong = ledger.find((posted) => posted.sent !== 1 || !mayEndLikeThis(posted))
    t.same(wrong, [])
    const dead = ledger.find(({ letters }) => letters.length > 0).length
    t.equal(team.deadLetters.list().filter(({ reason }) => reason !== 'late').length, dead)
  })

  await t.test('no request is asked twice, and each has one answer', async (t) => {
    const asked = ledger.askedOtherThan(timesAsked)
    t.same(asked, [])
    // What was withdrawn has the end of its turn as well, or nothing.
    const answered = ledger.answeredOtherThan((content, answers) => answers === 1 || /^(any|deaf) /.test(content))
    t.same(answered, [])
    for (const kind of ['ask', 'tell', 'all'] as const) {
      const committed = oracles.reduce((count, { asked }) => count + (asked[kind] ?? 0), 0)
      t.equal(committed, uses(kind) * timesAsked(kind), kind)
    }
    t.equal(sum(workers, 'unanswered'), uses('deaf'))
  })

  await t.test('what may not be done twice is done once, and who cannot know it says so', async (t) => {
    const ticks = uses('tick', (n) => !isFor('charge', n))
    const lost = unknown('charge').length + unknown('tick').length
    t.ok(lost >= ofEach, `${lost} unknown`)
    t.equal(sum(workers, 'unknown'), unknown('charge').length)
    t.equal(sum(workers, 'charged'), uses('charge') - unknown('charge').length)
    t.equal(till.done, uses('charge') + ticks - lost)
    const charged = (n: number) => isFor('charge', n) || isFor('tick', n)
    const wrong = SOURCES.flatMap((name, source) =>
      numbers
        .filter((n) => notes.charges(source, n) !== (charged(n) ? 1 : 0))
        .map((n) => `${name} ${n}: ${notes.charges(source, n)} times`),
    )
    t.same(wrong, [])
  })

  await t.test('each entry of the blackboard is written once, and told once', async (t) => {
    t.equal(entries.length, uses('publish'))
    t.same(
      entries.filter(({ version }) => version !== 1),
      [],
    )
    for (const { published, broadcast } of listeners)
      t.same([published, broadcast], [uses('publish'), uses('broadcast')])
  })

  await t.test('nothing waits, and all room and permits are free', async (t) => {
    const { agents, runs } = team.health()
    for (const [agent, { queued, inFlight }] of Object.entries(agents)) t.same([queued, inFlight], [0, 0], agent)
    t.equal(runs.running, 0)
    t.same([...imbalances(team.host), ...leftIn(team.host), ...permitsLeft(team)], [])
    for (const [agent, left] of Object.entries(team.leftInMailboxes()))
      t.same(left, { unaccounted: 0, waiting: 0, messages: 0, bytes: 0 }, agent)
  })

  await t.test('no thread, timer or handle is left, and what came too late was counted', async (t) => {
    await team.close()
    await team.threadsEnded()
    const stale = Object.values(team.health().agents).reduce((count, agent) => count + agent.staleFrames, 0)
    t.equal(stale, staleFrames())
    t.equal(clock.timers, 0)
    t.same(await leftoversOnce(before), before)
  })
})

// ---- what there has to be

const numbers = Array.from({ length: size.each }, (_, n) => n)

/** How many numbers, of both sources, are for that. */
function uses(use?: Use, and: (n: number) => boolean = () => true): number {
  return SOURCES.length * numbers.filter((n) => (!use || isFor(use, n)) && and(n)).length
}

const timesAsked = (question: string): number => {
  if (/^(all|any)/.test(question)) return ORACLES.length
  if (/^(ask|tell|charge|deaf)/.test(question)) return 1
  return question === 'listen' ? LISTENERS.length : Number.NaN
}

const sum = <Key extends string>(agents: Record<Key, number>[], key: Key) =>
  agents.reduce((count, agent) => count + agent[key], 0)

const kindOf = ({ content }: Posted) => content.split(' ')[0]
const diedOf = ({ letters }: Posted, what: string) => letters.includes(what)

/** Most messages are committed. The others are those that nobody waits for any more, and what nobody knows the end of. */
function mayEndLikeThis(posted: Posted): boolean {
  const { commits, failures, letters } = posted
  const ends = commits + failures + letters.length
  switch (kindOf(posted)) {
    case 'any':
      return ends === 1 && (letters.length === 0 || diedOf(posted, 'cancelled'))
    case 'deaf':
      return ends === 1 && commits === 0 && (letters.length === 0 || diedOf(posted, 'cancelled'))
    case 'charge':
    case 'tick':
      return ends === 1 && failures === 0 && (letters.length === 0 || diedOf(posted, 'OUTCOME_UNKNOWN'))
    default:
      return ends === 1 && commits === 1
  }
}
