/** Teams of models that go round in circles, whatever they are told. */
import { calls } from '../models/fake-model.ts'
import { alone, callsFor, DONE, inTurn, loopEnded, loopMissed, loopTold, type ModelProgram, tool } from './program.ts'

const LONG = 149

const nothing = (name: string) => tool(name, () => 'nothing found')
const broken = (name: string) =>
  tool(name, () => {
    throw new Error('no connection')
  })
const search = nothing('search')

const asksBob = (verb: 'request' | 'delegate'): ModelProgram => ({
  expected: loopEnded,
  roles: [{ name: 'ann', canDelegateTo: ['bob'], maxRounds: 150 }, { name: 'bob' }],
  says: (own, _last, { agent }) =>
    agent === 'bob'
      ? 'No.'
      : own < LONG
        ? calls([verb, { to: 'bob', [verb === 'request' ? 'content' : 'task']: 'Ready?' }])
        : DONE,
})

/** Two forks: who holds the one finds the other one taken. */
const forks = [
  tool('take', ({ fork }) => (fork === 'left' ? 'it is yours' : 'it is taken')),
  tool('put_back', () => 'it is free'),
]

export const modelLoops: Readonly<Record<string, ModelProgram>> = {
  'the same call with the same result': alone(
    [search],
    callsFor(90, 'search', () => ({ query: 'x' })),
    loopEnded,
  ),
  'the same call with the same error': alone([broken('search')], callsFor(90, 'search'), loopEnded),
  'the same input that misses its schema': alone(
    [search],
    callsFor(90, 'search', () => ({})),
    loopEnded,
  ),
  'the same input that is no JSON': alone([search], (own) => (own < 90 ? calls(['search', 'oops']) : DONE), loopEnded),
  'A-B-A-B of tools': alone([nothing('a'), nothing('b')], inTurn(LONG, ['a', {}], ['b', {}]), loopEnded),
  'A-B-A-B of one tool with two inputs': alone(
    [search],
    inTurn(LONG, ['search', { q: 1 }], ['search', { q: 2 }]),
    loopEnded,
  ),
  'A-B-C-A-B-C of tools': {
    ...alone(['a', 'b', 'c'].map(nothing), inTurn(LONG, ['a', {}], ['b', {}], ['c', {}]), loopEnded),
  },
  'two errors that alternate': alone([broken('a'), broken('b')], inTurn(LONG, ['a', {}], ['b', {}]), loopEnded),
  'polite philosophers, by tools': {
    expected: loopEnded,
    roles: ['ann', 'bob'].map((name) => ({ name, tools: forks, maxRounds: 150 })),
    says: inTurn(LONG, ['take', { fork: 'left' }], ['take', { fork: 'right' }], ['put_back', { fork: 'left' }]),
    options: { orchestration: { strategy: 'parallel' } },
  },
  'the same two calls in each answer': alone(
    [nothing('a'), nothing('b')],
    (own) => (own < 90 ? calls(['a', {}], ['b', {}]) : DONE),
    loopEnded,
  ),
  'the same request to another model': asksBob('request'),
  'the same task for another model': asksBob('delegate'),
  'the same look at the blackboard': {
    ...alone([], callsFor(90, 'read_blackboard'), loopEnded),
    options: { enableBlackboard: true },
  },
  'the same entry of the blackboard, written again': {
    ...alone(
      [],
      callsFor(90, 'publish', () => ({ key: 'a', value: 1, entryType: 'fact' })),
      loopEnded,
    ),
    options: { enableBlackboard: true },
  },
  'the same look at what the others do': {
    expected: loopEnded,
    roles: [{ name: 'ann', tools: ['agent_status'], maxRounds: 150 }],
    says: callsFor(90, 'agent_status'),
  },
  'a loop after ten rounds of work': alone(
    [search],
    callsFor(110, 'search', (n) => ({ query: Math.min(n, 10) })),
    loopEnded,
  ),
  'a loop that does something old after each notice': alone(
    [search, nothing('look')],
    (own) => (own < LONG ? calls(own % 9 === 0 ? ['look', {}] : ['search', {}]) : DONE),
    loopEnded,
  ),
  'a loop that marks a poll too late': alone(
    [search],
    (own) => (own < 100 ? calls(['search', own > 70 ? { polling: true } : {}]) : DONE),
    loopEnded,
  ),
  'one agent of three that loops': {
    expected: loopEnded,
    roles: ['ann', 'bob', 'cleo'].map((name) => ({ name, tools: [search], maxRounds: 150 })),
    says: (own, _last, { agent }) => (agent === 'bob' && own < 90 ? calls(['search', {}]) : DONE),
    options: { orchestration: { strategy: 'parallel', requireAll: true } },
  },

  // ---- those that something else ends

  'a loop of no more than twelve rounds': {
    expected: loopTold,
    roles: [{ name: 'ann', tools: [search] }],
    says: callsFor(90, 'search'),
  },
  'a loop in a team that wants reports alone': {
    ...alone([search], callsFor(90, 'search'), loopTold),
    options: { supervision: { livelock: { onFound: 'report' } } },
  },
  'a loop in a team that watches its code as well, and wants reports alone': {
    ...alone([search], callsFor(90, 'search'), loopTold),
    options: { supervision: { livelock: { onFound: 'report', maxRepeats: 5 } } },
  },

  // ---- those that nobody sees: what is new each time looks like progress

  'the same question with another number each time': alone(
    [search],
    callsFor(90, 'search', (n) => ({ query: `try ${n}` })),
    loopMissed,
  ),
  'the same question, longer each time': alone(
    [search],
    callsFor(90, 'search', (n) => ({ query: 'please '.repeat(n) })),
    loopMissed,
  ),
  'a result with the time in it': alone(
    [tool('clock', (_input, nth) => `nothing at ${nth}`)],
    callsFor(90, 'clock'),
    loopMissed,
  ),
  'a cycle of more rounds than are compared': alone(
    [search],
    callsFor(LONG, 'search', (n) => ({ query: n % 11 })),
    loopMissed,
  ),
  'a loop in a team that is not watched': {
    ...alone([search], callsFor(90, 'search'), loopMissed),
    options: { supervision: { livelock: false } },
  },
}
