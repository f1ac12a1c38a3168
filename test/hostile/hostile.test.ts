/**
 * Hostile agents, tools, models, pages and servers beside each other, in rounds that follow from a seed: the host lives and its loop
 * is never blocked, neighbours answer right, each hostile run ends with an answer or an error that is known, nothing is left over.
 *
 *   npm run test:hostile   for HOSTILE_MINUTES (10)      npm run test:deep   the same      npm test   two rounds
 *   HOSTILE_SEED=7 HOSTILE_ROUND=3 node dist/test/hostile/hostile.test.js   plays that round of that seed alone
 */
import { setTimeout as pause } from 'node:timers/promises'
import t from 'tap'
import { leftovers, leftoversOnce } from '../fixtures/leftovers.ts'
import { collectGarbage } from '../soak/samples.ts'
import { playRound, ROUNDS_OF_ALL } from './game.ts'
import { now } from './loop-gaps.ts'
import { LoopWatch } from './loop-watch.ts'
import { Stage } from './stage.ts'

/** What a turn of the host's loop may take at most, of processor time. */
const MOST_BLOCKED_MS = 200
const SHORT_ROUNDS = 2
const MIB = 2 ** 20
const MOST_KEPT_MIB = 48
/** Each seed has all parts once. */
const FIRST_SEED = 5

const { HOSTILE_MINUTES, HOSTILE_SEED, HOSTILE_ROUND, DRAMATIS_DEEP } = process.env
const minutes = Number(HOSTILE_MINUTES ?? (DRAMATIS_DEEP ? 10 : 0))

/** Seed and number of each round. */
function* rounds(): Generator<[seed: number, round: number]> {
  const until = performance.now() + minutes * 60_000
  if (HOSTILE_ROUND !== undefined) return yield [Number(HOSTILE_SEED ?? FIRST_SEED), Number(HOSTILE_ROUND)]
  for (let seed = Number(HOSTILE_SEED ?? FIRST_SEED); ; seed += 1)
    for (let round = 0; round < ROUNDS_OF_ALL; round += 1) {
      if (minutes > 0 ? performance.now() > until : round === SHORT_ROUNDS) return
      yield [seed, round]
    }
}

t.test('neighbours answer and the host goes on, whatever hostile parts do', async (t) => {
  const before = leftovers()
  const heldBefore = held()
  const escaped: unknown[] = []
  const note = (error: unknown) => void escaped.push(error)
  process.on('uncaughtException', note).on('unhandledRejection', note)
  t.teardown(() => process.off('uncaughtException', note).off('unhandledRejection', note))
  const stage = await Stage.start(t)
  const watch = await LoopWatch.start(t, MOST_BLOCKED_MS)
  let played = 0
  for (const [seed, round] of rounds()) {
    const { wrong, blockedMs, endings } = await playRound(stage, watch, seed, round)
    played += 1
    if (blockedMs > 0) wrong.push(`the loop of the host was blocked for ${Math.round(blockedMs)} ms, each time`)
    wrong.push(...escaped.splice(0).map((error) => `nobody caught ${error}`))
    t.same(wrong, [], `HOSTILE_SEED=${seed} HOSTILE_ROUND=${round}: ${endings.join('; ')}`)
  }
  const { worked, slept } = watch.longest
  t.comment(
    `${played} rounds; a turn of the loop worked ${worked.toFixed(0)} ms and slept ${slept.toFixed(0)} ms at most`,
  )
  await watch.close()
  await stage.close()
  t.same(await leftoversOnce(before), before, 'no thread, socket or other handle is left')
  let grown = held() - heldBefore
  for (let turns = 0; turns < 50 && grown > MOST_KEPT_MIB * MIB; turns += 1) {
    await pause(100) // buffers are freed some time after their owners
    grown = held() - heldBefore
  }
  t.ok(grown < MOST_KEPT_MIB * MIB, `${(grown / MIB).toFixed(1)} MiB are kept`)
})

/** What is on the heap and beside it when all that can be freed is. */
function held(): number {
  collectGarbage()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

// What the hostile game takes for a block of the loop: work without a turn, and no wait of any kind.

const turn = () => new Promise((resolve) => setTimeout(resolve, 10))

t.test('a loop that works without a turn is found, with how long', async (t) => {
  const watch = await LoopWatch.start(t, 100)
  await turn()
  const began = process.cpuUsage()
  const from = now()
  while (workedSince(began) < 600);
  const to = now()
  await turn()
  const blocks = await watch.blocks()
  t.ok(
    blocks.some((block) => block.from < to && block.to > from && block.ms > 100),
    JSON.stringify(blocks),
  )
  t.same(await watch.blocks(), [], 'each is told once')
})

t.test('a process that sleeps has not worked', async (t) => {
  const watch = await LoopWatch.start(t, 100)
  await turn()
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 400)
  await turn()
  t.same(await watch.blocks(), [])
  t.ok(watch.longest.slept > 0)
})

function workedSince(began: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(began)
  return (user + system) / 1_000
}
