/** Teams of models that come to their end. */
import { calls } from '../models/fake-model.ts'
import {
  alone,
  answersIn,
  callsFor,
  DONE,
  inTurn,
  isToldOff,
  type ModelProgram,
  silent,
  told,
  tool,
} from './program.ts'

/** A job that says something new at each nth look, and is done after so many looks. */
const job = (every: number, looks: number, polling = false) =>
  tool('job', (_input, nth) => (nth + 1 >= looks ? 'finished' : `part ${Math.floor(nth / every)}`), polling)

/** Looks until it is finished. */
const looks: ModelProgram['says'] = (_own, last) => (last === 'finished' ? DONE : calls(['job', {}]))

/** A service that is down for so many calls. */
const service = (down: number) =>
  tool('service', (_input, nth) => {
    if (nth < down) throw new Error('503: try again later')
    return 'up'
  })

const retries: ModelProgram['says'] = (_own, last) => (last === 'up' ? DONE : calls(['service', {}]))

const store = () => tool('store', () => 'ok')

/** Rows of a batch: the nth is that of `row`. */
const batch = (rows: number, row: (nth: number) => unknown): ModelProgram =>
  alone(
    [store()],
    callsFor(rows, 'store', (nth) => ({ row: row(nth) })),
    silent,
  )

const pair = (polling: boolean): ModelProgram['roles'] => [
  { name: 'ann', canDelegateTo: ['bob'], maxRounds: 150, ...(polling && { tools: ['agent_status'] }) },
  { name: 'bob' },
]

export const modelPrograms: Readonly<Record<string, ModelProgram>> = {
  'a model that answers at once': alone([], () => DONE, silent),
  'one call of a tool': alone([store()], callsFor(1, 'store'), silent),
  'three tools, one after the other': {
    ...alone(
      ['a', 'b', 'c'].map((name) => tool(name, () => name)),
      () => '',
      silent,
    ),
    says: inTurn(3, ['a', {}], ['b', {}], ['c', {}]),
  },
  'forty searches, each with another query': alone(
    [tool('search', () => 'nothing found')],
    callsFor(40, 'search', (n) => ({ query: `${n}` })),
    silent,
  ),
  'forty items whose results are all the same': batch(40, (n) => n),
  'a batch of a hundred with a few duplicates': batch(100, (n) => (n % 10 === 3 ? 'again' : n)),
  'a batch of a hundred with three equal rows in a row': batch(100, (n) => (n > 50 && n < 54 ? 'again' : n)),
  'a batch of a hundred in which two rows alternate for a while': batch(100, (n) => (n > 40 && n < 50 ? n % 2 : n)),
  'ten equal calls in one answer': alone(
    [store()],
    (own) => (own === 0 ? calls(...Array.from({ length: 10 }, (): [string, object] => ['store', {}])) : DONE),
    silent,
  ),
  'five retries of a service that is down': alone([service(5)], retries, silent),
  'three wrong inputs before a right one': alone(
    [
      tool('parse', ({ n }) => {
        if (n !== 3) throw new Error('no such number')
        return 'up'
      }),
    ],
    (own, last) => (last === 'up' ? DONE : calls(['parse', { n: own }])),
    silent,
  ),
  'seven equal calls': alone([store()], callsFor(7, 'store'), silent),
  'a job that changes at every third look': alone([job(3, 60)], looks, silent),
  'a job that changes at every seventh look': alone([job(7, 60)], looks, silent),
  'a job that never changes, whose tool says that it is polled': alone([job(1_000, 100, true)], looks, silent),
  'a job that never changes, polled between pauses': alone(
    [job(1_000, 50, true), tool('pause', () => 'ok')],
    (own, last) => (last === 'finished' ? DONE : calls(own % 2 ? ['pause', { seconds: 5 }] : ['job', {}])),
    silent,
  ),
  'five looks with a pause after each': alone(
    [job(1_000, 5), tool('pause', () => 'ok')],
    (own, last) => (last === 'finished' ? DONE : calls(own % 2 ? ['pause', { seconds: 5 }] : ['job', {}])),
    silent,
  ),
  'twelve retries with back-off, by a tool that waits': alone(
    [service(12), tool('pause', () => 'ok')],
    (own, last) => (last === 'up' ? DONE : calls(own % 2 ? ['pause', { seconds: 2 ** own }] : ['service', {}])),
    silent,
  ),
  'a request that is polled and marked': {
    expected: silent,
    roles: pair(false),
    says: (own, _last, { agent }) =>
      agent === 'bob'
        ? 'Not yet.'
        : own < 60
          ? calls(['request', { to: 'bob', content: 'Ready?', polling: true }])
          : DONE,
  },
  'the state of the others, polled and marked': {
    expected: silent,
    roles: pair(true),
    says: (own, _last, { agent }) => (agent === 'ann' && own < 60 ? calls(['agent_status', { polling: true }]) : DONE),
  },
  'the blackboard, polled and marked': {
    ...alone([], (own) => (own < 60 ? calls(['read_blackboard', { polling: true }]) : DONE), silent),
    options: { enableBlackboard: true },
  },
  'twenty drafts on the blackboard': {
    ...alone(
      [],
      (own) => (own < 20 ? calls(['publish', { key: 'draft', value: own, entryType: 'draft' }]) : DONE),
      silent,
    ),
    options: { enableBlackboard: true },
  },
  'an editor and a critic who converge': {
    expected: silent,
    roles: pair(false),
    says: (own, last, { agent, messages }) => {
      if (agent === 'bob') return answersIn(messages) < 8 ? 'Shorter.' : 'Good.'
      return last === 'Good.' ? DONE : calls(['request', { to: 'bob', content: `Draft ${own}` }])
    },
  },
  'an editor and a critic who say the same for seven rounds': {
    expected: silent,
    roles: pair(false),
    says: (own, _last, { agent }) =>
      agent === 'bob' ? 'Shorter.' : own < 7 ? calls(['request', { to: 'bob', content: 'And now?' }]) : DONE,
  },
  'ten tasks, each with the same answer': {
    expected: silent,
    roles: pair(false),
    says: (own, _last, { agent }) =>
      agent === 'bob' ? 'Done.' : own < 10 ? calls(['delegate', { to: 'bob', task: `Task ${own}` }]) : DONE,
  },
  'several agents in parallel that each call a tool': {
    expected: silent,
    roles: ['ann', 'bob', 'cleo'].map((name) => ({ name, tools: [store()] })),
    says: (own) => (own < 5 ? calls(['store', { own }]) : DONE),
    options: { orchestration: { strategy: 'parallel' } },
  },

  // ---- those who are told, and go on

  'a job that changes at every thirteenth look': alone([job(13, 60)], looks, told),
  'a job that changes at every twentieth look': alone([job(20, 60)], looks, told),
  'a job that says nothing for sixty looks': alone([job(1_000, 60)], looks, told),
  'ten equal errors of a service that comes back': alone([service(10)], retries, told),
  'twenty looks with a pause after each': alone(
    [job(1_000, 20), tool('pause', () => 'ok')],
    (own, last) => (last === 'finished' ? DONE : calls(own % 2 ? ['pause', { seconds: 5 }] : ['job', {}])),
    told,
  ),
  'forty equal rows in a batch of a hundred': { ...batch(100, (n) => (n < 40 ? 'the same' : n)), expected: told },
  'a batch of thirty whose service is down': alone(
    [
      tool('store', () => {
        throw new Error('503')
      }),
    ],
    callsFor(30, 'store', (row) => ({ row })),
    told,
  ),
  'a model that takes its notice to heart': alone(
    [store()],
    (_own, _last, request) => (isToldOff(request) ? DONE : calls(['store', {}])),
    told,
  ),
  'a model that marks its calls as polls when it is told': alone(
    [job(1_000, 140)],
    (_own, last, request) => (last === 'finished' ? DONE : calls(['job', isToldOff(request) ? { polling: true } : {}])),
    told,
  ),
  'fifteen equal questions, each told off once': {
    expected: told,
    roles: pair(false),
    says: (own, _last, { agent }) =>
      agent === 'bob' ? 'Blue.' : own < 15 ? calls(['request', { to: 'bob', content: 'Which colour?' }]) : DONE,
  },
}
