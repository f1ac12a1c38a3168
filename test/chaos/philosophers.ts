/** Five philosophers at a round table, between two of whom there is one fork, and what comes of their manners. */
import type { Seat } from '../fixtures/chaos/diner.ts'
import type { Manners } from '../fixtures/chaos/polite.ts'
import type { Habits, Step } from '../fixtures/chaos/walker.ts'
import { troubleAtTable } from './meals.ts'
import { ask, does, insists, type Program, publish, waitFor } from './program.ts'

const dining = 'E. W. Dijkstra, EWD 310, 1971; all at once, as in DPBench'

const around = Array.from({ length: 5 }, (_, i) => i)
const next = (i: number) => (i + 1) % around.length
const philosopher = (i: number) => `philosopher-${i}`
const fork = (i: number) => `fork-${i}`
/** By name, what each of the five is. */
const each = <T>(name: (i: number) => string, what: (i: number) => T): Record<string, T> =>
  Object.fromEntries(around.map((i) => [name(i), what(i)]))

/** A fork is held as long as its turn is open: who has it asks for the other one from there. */
const forkHeldFirst = (i: number): Habits => ({
  take: does(publish(fork(i)), ...around.map((other) => waitFor(fork(other))), ask(fork(next(i)), 'eat')),
  eat: does(),
})

// ---- Chandy and Misra

const hygiene = 'K. M. Chandy, J. Misra, The drinking philosophers problem, ACM TOPLAS 6 (4), 1984'
/** So many that what they write to each other would be a sign of a livelock if they did not eat. */
const MEALS = 20
const neighbours = around.map((i) => [philosopher(i), philosopher(next(i))] as const)

/** Each gets hungry when all are asked to dine, and is waited for until he is full. */
const waiter = (i: number): Habits => ({
  serve: does(
    publish(`waiter-${i}`),
    ...around.map((other) => waitFor(`waiter-${other}`)),
    { send: philosopher(i), say: 'dine', times: 1 },
    waitFor(`${philosopher(i)} is full`),
  ),
})

/** `first`: which of two neighbours has their fork at the beginning. */
const hygienic = (first: (i: number) => number, dirty: boolean): Pick<Program, 'agents' | 'others' | 'asks'> => ({
  agents: each((i) => `waiter-${i}`, waiter),
  others: each(philosopher, (i) => {
    const before = (i + around.length - 1) % around.length
    const data: Seat = {
      forks: {
        [philosopher(before)]: first(before) === i ? 'mine' : 'theirs',
        [philosopher(next(i))]: first(i) === i ? 'mine' : 'theirs',
      },
      dirty,
      meals: MEALS,
    }
    return { code: 'diner', data }
  }),
  asks: around.map((i) => [`waiter-${i}`, 'serve']),
})

// ---- the polite ones

/** More than it takes to find them. */
const ROUNDS = 30
/** All do it before anybody does what comes next. */
const inStep = (say: string): Step => ({ requestAll: around.map(philosopher), say, polling: true })
const ROUND = [inStep('take left'), inStep('take right'), inStep('put down')]
const manners = (i: number): Manners => ({ left: fork(i), right: fork(next(i)) })

export const philosophers: Readonly<Record<string, Program>> = {
  'dining philosophers, all take the left fork first': {
    source: dining,
    verdict: 'deadlock',
    cycle: around.map(fork),
    answered: true,
    agents: { ...each(philosopher, (i) => ({ dine: insists(ask(fork(i), 'take')) })), ...each(fork, forkHeldFirst) },
    asks: around.map((i) => [philosopher(i), 'dine']),
    options: { maxConcurrentAgents: 20 },
  },
  'dining philosophers, the lower fork first': {
    source: `${dining}; resource hierarchy`,
    verdict: 'completes',
    agents: {
      ...each(philosopher, (i) => {
        const [low, high] = [Math.min(i, next(i)), Math.max(i, next(i))]
        return { dine: does(ask(fork(low), `and then ${fork(high)}`)) }
      }),
      ...each(fork, () => ({
        eat: does(),
        ...each(
          (i) => `and then ${fork(i)}`,
          (i) => does(ask(fork(i), 'eat')),
        ),
      })),
    },
    asks: around.map((i) => [philosopher(i), 'dine']),
  },
  'Chandy-Misra philosophers': {
    source: hygiene,
    verdict: 'completes',
    wrong: (entries) => troubleAtTable(entries, neighbours, MEALS),
    // Who has the lower number comes after his neighbour, which is no circle.
    ...hygienic((i) => Math.min(i, next(i)), true),
  },
  'Chandy-Misra philosophers, each of whom comes before the next one': {
    source: `${hygiene}: without an acyclic beginning`,
    verdict: 'stall',
    ...hygienic((i) => i, false),
  },
  'polite philosophers: release and retry in step': {
    source: 'E. A. Ashcroft, Proving assertions about parallel programs, 1975, where livelocks have their name from',
    verdict: 'livelock',
    sign: /^"philosopher-\d" asked "fork-\d" the same 4 times in a row, and each time got the same answer \(/,
    agents: {
      // Left alone one of them would be late some time, and eat.
      music: { play: does(...Array.from({ length: ROUNDS }, () => ROUND).flat()) },
    },
    others: {
      ...each(philosopher, (i) => ({ code: 'polite', data: manners(i) })),
      ...each(fork, () => ({ code: 'fork', data: null })),
    },
    asks: [['music', 'play']],
  },
}
