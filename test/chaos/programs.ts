/**
 * Programs whose verdict is known, from the literature on concurrent programs. Each is data: who does what when it is asked
 * what, and whom the run asks. Those of the table of philosophers are in philosophers.ts.
 */
import type { Habits } from '../fixtures/chaos/walker.ts'
import { philosophers } from './philosophers.ts'
import { ask, does, type Program, publish, unlessDeadlock, waitFor } from './program.ts'

/** Two who each hold one thing and want the other's. */
const crossed = (mine: string, other: string, wish: string, have = 'have'): Habits => ({
  begin: does(publish(`${mine} is taken`), waitFor(`${other} is taken`), ask(other, wish)),
  [wish]: does(),
  [have]: does(),
})

export const programs: Readonly<Record<string, Program>> = {
  ...philosophers,
  'bank transfers both ways, each awaits the acknowledgement of the other': {
    source: 'J. Gray, A. Reuter, Transaction Processing, 1993, chapter 7',
    verdict: 'deadlock',
    cycle: ['account-a', 'account-b'],
    agents: {
      'account-a': crossed('account-a', 'account-b', 'credit'),
      'account-b': crossed('account-b', 'account-a', 'credit'),
    },
    asks: [
      ['account-a', 'begin'],
      ['account-b', 'begin'],
    ],
  },
  'bank transfers, the accounts in one order': {
    source: 'the same, with ordered locks',
    verdict: 'completes',
    agents: {
      'account-a': { 'to b': does(ask('account-b', 'credit')), 'from b': does(ask('account-b', 'debit')) },
      'account-b': { credit: does(), debit: does() },
    },
    asks: [
      ['account-a', 'to b'],
      ['account-a', 'from b'],
    ],
  },
  'cigarette smokers, who take what is there': {
    source: 'S. Patil, 1971; D. Parnas, On a solution to the cigarette smokers problem, 1975',
    verdict: 'deadlock',
    cycle: ['paper', 'tobacco'],
    agents: {
      'has-paper': { smoke: does(ask('tobacco', 'begin')) },
      'has-tobacco': { smoke: does(ask('paper', 'begin')) },
      tobacco: crossed('tobacco', 'paper', 'take'),
      paper: crossed('paper', 'tobacco', 'take'),
    },
    asks: [
      ['has-paper', 'smoke'],
      ['has-tobacco', 'smoke'],
    ],
  },
  'a sleeping barber whose wake-up was lost': {
    source: 'E. W. Dijkstra, Cooperating sequential processes, 1965',
    verdict: 'stall',
    agents: {
      // He looks before the customer sits down, and goes to sleep after it.
      barber: { open: does(publish('nobody is waiting'), waitFor('a customer sits'), waitFor('a knock')) },
      customer: { come: does(waitFor('nobody is waiting'), publish('a customer sits'), waitFor('next, please')) },
    },
    asks: [
      ['barber', 'open'],
      ['customer', 'come'],
    ],
  },
  'two buyers, each of whom wants the quote of the other first': {
    source:
      'a communication deadlock: C. Torres Lopez and others, A study of concurrency bugs in actor-based programs, 2018',
    verdict: 'deadlock',
    cycle: ['buyer-a', 'buyer-b'],
    agents: {
      'buyer-a': { quote: does(ask('buyer-b', 'quote')) },
      'buyer-b': { quote: does(ask('buyer-a', 'quote')) },
    },
    asks: [['buyer-a', 'quote']],
  },
  'two full mailboxes, each of whose owners sends to the other': {
    source: 'unsafe sends: MPI: A Message-Passing Interface Standard, 3.5, buffers that are full',
    verdict: 'deadlock',
    cycle: ['left', 'right'],
    agents: {
      left: { fill: does(publish('left'), waitFor('right'), { send: 'right', say: 'news', times: 8 }) },
      right: { fill: does(publish('right'), waitFor('left'), { send: 'left', say: 'news', times: 8 }) },
    },
    asks: [
      ['left', 'fill'],
      ['right', 'fill'],
    ],
    options: { communication: { mailboxCapacity: 2 } },
  },
  'any of several, one of whom can answer': {
    source: 'the OR model: E. Knapp, Deadlock detection in distributed databases, 1987',
    verdict: 'completes',
    agents: {
      asker: { ask: does({ requestAny: ['back', 'slow'], say: 'ask' }) },
      back: { ask: does(ask('asker', 'tell')) },
      slow: { ask: does({ sleep: 20 }) },
    },
    asks: [['asker', 'ask']],
  },
  'a member of a sync point asks one that waits there': {
    source: 'a mismatched barrier: MPI: A Message-Passing Interface Standard, 5.14, collective operations',
    verdict: 'deadlock',
    cycle: ['early', 'late'],
    agents: {
      early: { meet: does(publish('early waits'), { sync: 'here' }), tell: does() },
      // Who asks and has to give way comes all the same: else the other one would wait until its time is up.
      late: { meet: does(waitFor('early waits'), unlessDeadlock(ask('early', 'tell')), { sync: 'here' }) },
    },
    asks: [
      ['early', 'meet'],
      ['late', 'meet'],
    ],
    options: { syncPoints: [{ name: 'here', requiredAgents: ['early', 'late'], timeoutMs: 600_000 }] },
  },
  'four cars at a crossing': {
    source: 'E. G. Coffman and others, System deadlocks, Computing Surveys, 1971',
    verdict: 'deadlock',
    cycle: ['north', 'east', 'south', 'west'],
    agents: Object.fromEntries(
      ['north', 'east', 'south', 'west'].map((here, i, all) => [
        here,
        {
          drive: does(publish(here), ...all.map((other) => waitFor(other)), ask(all[(i + 1) % 4]!, 'let me pass')),
          'let me pass': does(),
        },
      ]),
    ),
    asks: ['north', 'east', 'south', 'west'].map((here) => [here, 'drive'] as const),
  },
  'a nested monitor, whose signaller stands before the door': {
    source: 'A. Lister, The problem of nested monitor calls, 1977',
    verdict: 'stall',
    agents: {
      // Who could give the signal has to pass through the outer one, which waits for it inside.
      outer: { enter: does(publish('inside'), ask('inner', 'wait')), signal: does(publish('signal')) },
      inner: { wait: does(waitFor('signal')) },
      signaller: { give: does(waitFor('inside'), ask('outer', 'signal')) },
    },
    asks: [
      ['outer', 'enter'],
      ['signaller', 'give'],
    ],
  },
  'two readers who both want to write': {
    source: 'lock upgrades: J. Gray, Granularity of locks, 1976',
    verdict: 'deadlock',
    cycle: ['reader-a', 'reader-b'],
    agents: {
      'reader-a': crossed('reader-a', 'reader-b', 'stop reading'),
      'reader-b': crossed('reader-b', 'reader-a', 'stop reading'),
    },
    asks: [
      ['reader-a', 'begin'],
      ['reader-b', 'begin'],
    ],
  },
  'a quorum of which too many wait for who asks': {
    source: 'the k-of-n model: G. Bracha, S. Toueg, Distributed deadlock detection, 1987',
    verdict: 'deadlock',
    agents: {
      chair: { vote: does({ requestQuorum: ['yes', 'asks-a', 'asks-b'], of: 2, say: 'vote' }), why: does() },
      yes: { vote: does() },
      'asks-a': { vote: does(ask('chair', 'why')) },
      'asks-b': { vote: does(ask('chair', 'why')) },
    },
    asks: [['chair', 'vote']],
  },
  'a quorum that comes about without those': {
    source: 'the same, with one more who votes',
    verdict: 'completes',
    agents: {
      chair: { vote: does({ requestQuorum: ['yes', 'also', 'asks'], of: 2, say: 'vote' }), why: does() },
      yes: { vote: does() },
      also: { vote: does({ sleep: 20 }) },
      asks: { vote: does(ask('chair', 'why')) },
    },
    asks: [['chair', 'vote']],
  },
  'an AND-join behind an XOR-split': {
    source:
      'W. van der Aalst, The application of Petri nets to workflow management, 1998: a workflow that is not sound',
    verdict: 'stall',
    agents: {
      split: { go: does(publish('branch a')) },
      join: { go: does(waitFor('branch a'), waitFor('branch b')) },
    },
    asks: [
      ['split', 'go'],
      ['join', 'go'],
    ],
  },
  'who asks itself': {
    source: 'self-deadlock of a lock that is not reentrant: POSIX.1, pthread_mutex_lock, EDEADLK',
    verdict: 'deadlock',
    cycle: ['alone'],
    agents: { alone: { ask: does(ask('alone', 'tell')), tell: does() } },
    asks: [['alone', 'ask']],
  },
  'a phantom: the wait that would close the cycle ends before it': {
    source: 'phantom deadlocks: K. M. Chandy, J. Misra, L. Haas, Distributed deadlock detection, 1983',
    verdict: 'completes',
    agents: {
      a: { begin: does(ask('b', 'tell'), publish('a is done'), { sleep: 5 }), tell: does() },
      b: { tell: does({ sleep: 5 }), 'ask a': does(ask('a', 'tell')) },
      c: { begin: does(waitFor('a is done'), ask('b', 'ask a')) },
    },
    asks: [
      ['a', 'begin'],
      ['c', 'begin'],
    ],
  },
  'a task delegated back and forth': {
    source: 'a loop of delegations: M. Cemri and others, Why do multi-agent LLM systems fail?, 2025, step repetition',
    verdict: 'livelock',
    sign: /^a task was delegated back to "ann", who had it: "ann" -> "bob" -> "ann" \(message [\da-f-]{36}\)$/,
    agents: {
      ann: { 'write the report': does({ delegate: 'bob', say: 'write the report' }) },
      bob: { 'write the report': does({ delegate: 'ann', say: 'write the report' }) },
    },
    // Else it is a deadlock: who has given the task away would not take it before it is done.
    reentrancy: 'chain',
    asks: [['ann', 'write the report']],
  },
}
