/**
 * Thousands of messages, options and ids that a hostile caller in the host hands in: each is taken, or refused with a
 * reason; what was for somebody is a dead letter; the team goes on.
 * A failure names its seed; `HOSTILE_SEED=7 node dist/test/bad-input/hostile-callers.test.js` plays that one alone.
 */
import '../../src/mailbox/parse-message.ts'
import t from 'tap'
import { DramatisError, defineAgent, RequestTimeoutError } from '../../src/index.ts'
import { Dice } from '../dice.ts'
import { howMany } from '../how-many.ts'
import { imbalances, leftovers } from '../kit/accounts.ts'
import { ask, given, type openTeam, outcomeOf } from '../kit/team.ts'
import { untyped } from './helpers.ts'
import { playSeeds } from './seeds.ts'

const CALLS = 100
const SEEDS = howMany(5, 500)
const LIMIT = 4_096
const only = process.env.HOSTILE_SEED
const seeds = only ? [Number(only)] : Array.from({ length: SEEDS }, (_, n) => n + 1)

const gotcha = () => {
  throw new Error('gotcha')
}
const cycle: Record<string, unknown> = {}
cycle.self = cycle
let deep: unknown = 1
for (let level = 0; level < 100_000; level++) deep = [deep]
const traps = { get: gotcha, has: gotcha, ownKeys: gotcha, getPrototypeOf: gotcha, getOwnPropertyDescriptor: gotcha }

/** Whatever a field can be given. */
const VALUES: readonly (() => unknown)[] = [
  () => undefined,
  () => null,
  () => Number.NaN,
  () => Number.POSITIVE_INFINITY,
  () => -0,
  () => 1.5,
  () => 2 ** 31,
  () => -(2 ** 31),
  () => 1n,
  () => Symbol('s'),
  () => gotcha,
  () => true,
  () => '',
  () => '\u0000',
  () => '\ud800',
  () => 'x'.repeat(LIMIT),
  () => 'x'.repeat(1_000_000),
  () => '$orchestrator',
  () => '$user',
  () => '$runtime',
  () => '__proto__',
  () => 'constructor',
  () => 'ann',
  () => ['ann', 'bob'],
  () => ['ann', 5],
  () => [],
  () => Array.from({ length: 1_000 }, () => 'nobody'),
  () => new Array(4_294_967_295),
  () => Object.assign(new Array(3), { 1: 'ann' }),
  () => ({}),
  () => ({ a: { b: [1, 'x', null] } }),
  () => JSON.parse('{"__proto__":{"polluted":1},"constructor":1}'),
  () => Object.create(null),
  () => cycle,
  () => deep,
  () => new Date(Number.NaN),
  () => new Map([[1, 1]]),
  () => new Uint8Array(8),
  () => new Proxy({}, traps),
  () => new Proxy([], traps),
  () => new Proxy({}, { ownKeys: () => ['a'], getOwnPropertyDescriptor: gotcha }),
  () => ({ get a() { return gotcha() } }), // biome-ignore format: one line each
  () => ({ toJSON: gotcha }),
  () => Object.defineProperty({}, 'toJSON', { value: gotcha }),
  () => Object.defineProperty({ a: 1 }, 'toJSON', { value: () => undefined }),
  () => Object.defineProperty({ a: 1 }, 'toJSON', { value: () => 5 }),
  () => Object.defineProperty([1], 'toJSON', { value: gotcha }),
  () => changing(),
  () => Promise.reject(new Error('nobody awaits this')).catch(() => {}),
]

/** Something else each time that it is looked at. */
function changing(): object {
  let looks = 0
  return { get a() { return [1, 'x', 1n, gotcha][looks++ % 4] } } // biome-ignore format: as above
}

const FIELDS = ['type', 'sender', 'recipient', 'content', 'structuredData', 'priority', 'requiresResponse']
const MORE = [
  'responseTimeoutMs',
  'threadId',
  'metadata',
  'runId',
  'correlationId',
  'id',
  'sentAt',
  'nonsense',
  '__proto__',
]
const OPTIONS = [
  'signal',
  'timeoutMs',
  'priority',
  'runId',
  'threadId',
  'metadata',
  'models',
  'budget',
  'output',
  'nope',
]
const TYPES = ['request', 'response', 'broadcast', 'publish', 'subscribe', 'delegate', 'report']

/** An object with some of these fields, as hostile as it gets. */
function objectOf(dice: Dice, base: object, fields: readonly string[]): unknown {
  if (dice.chance(0.05)) return dice.pick(VALUES)()
  const made: object = { ...base }
  for (let n = dice.upTo(3); n >= 0; n--) {
    const field = dice.pick(fields)
    const value = dice.pick(VALUES)()
    if (dice.chance(0.1)) Object.defineProperty(made, field, { get: gotcha, enumerable: true, configurable: true })
    else Object.defineProperty(made, field, { value, enumerable: true, configurable: true })
  }
  return dice.chance(0.02) ? new Proxy(made, traps) : made
}

function messageOf(dice: Dice): unknown {
  const type = dice.chance(0.4) ? { type: dice.pick(TYPES) } : {}
  const requires = dice.chance(0.3) ? { requiresResponse: true } : {}
  const content = dice.chance(0.3) ? 'x'.repeat(LIMIT - 80 + dice.upTo(24)) : 'hi'
  return objectOf(dice, { recipient: dice.pick(['ann', 'bob']), content, ...type, ...requires }, [...FIELDS, ...MORE])
}

/** Whom it names, as far as that can be read. */
function namesIn(message: unknown): string[] {
  try {
    const { recipient } = message as { recipient: unknown }
    const names = Array.isArray(recipient) ? recipient.slice(0, 64) : [recipient]
    return names.filter((name): name is string => name === 'ann' || name === 'bob')
  } catch {
    return []
  }
}

function teamOf(test: Parameters<typeof openTeam>[0]) {
  const answers = ({ content }: { content: string }) => `heard ${content.length}`
  const agent = defineAgent({ receive: answers, observe() {} })
  return given(test, { communication: { maxMessageBytes: LIMIT }, enableBlackboard: true }).team({
    ann: agent,
    bob: agent,
  })
}

async function wrongs(test: Parameters<typeof openTeam>[0], seed: number): Promise<string[]> {
  const dice = new Dice(seed)
  const team = teamOf(test)
  const hostile = untyped(team)
  const { host, clock } = team
  await team.start()
  const found: string[] = []
  for (let n = 0; n < CALLS; n++) {
    const message = messageOf(dice)
    const value = dice.pick(VALUES)()
    const names = namesIn(message)
    const letters = host.journal.deadLetters.total
    const [what, call] = dice.pick<[string, () => unknown]>([
      ['sendMessage', () => hostile.sendMessage(message)],
      ['sendMessage', () => hostile.sendMessage(message)],
      ['sendMessage', () => hostile.sendMessage(message)],
      ['receiveMessage', () => untyped(team.getAgent('ann')!).receiveMessage(message)],
      ['execute', () => hostile.execute(dice.chance(0.8) ? 'hi' : value, objectOf(dice, {}, OPTIONS))],
      ['run', () => untyped(team.getAgent('bob')!).run('hi', objectOf(dice, {}, OPTIONS))],
      ['broadcast', () => hostile.broadcast(value, dice.chance(0.5) ? 'ann' : dice.pick(VALUES)())],
      ['replay', () => untyped(team.deadLetters).replay(dice.chance(0.5) ? letterOf(dice) : value)],
      ['discard', () => untyped(team.deadLetters).discard(value)],
      ['looks', () => [hostile.getRun(value), hostile.getAgent(value), hostile.getAgentStatus(value)]],
      ['getMessageHistory', () => hostile.getMessageHistory(value)],
      ['getTaskStatus', () => hostile.getTaskStatus(value)],
      ['getBlackboard', () => hostile.getBlackboard(value)],
      ['removeAgent', () => hostile.removeAgent(value === 'ann' ? 'nobody' : value)],
      ['restartAgent', () => hostile.restartAgent(value)],
    ])
    const outcome = outcomeOf((async () => call())())
    for (let turn = 0; turn < 100 && !outcome.settled; turn++) await clock.advance(0)
    if (!outcome.settled) await clock.runToIdle()
    const { error } = outcome
    const says = `call ${n}, ${what}`
    if (!outcome.settled) found.push(`${says}: it never settles`)
    if (error !== undefined && !(error instanceof DramatisError)) found.push(`${says}: ${String(error)}`)
    if (error instanceof DramatisError && (error.message.length < 20 || error.message.length > 20_000))
      found.push(`${says}: says ${error.message.length} letters`)
    const isMessage = what === 'sendMessage' || what === 'receiveMessage'
    const isRefused = error !== undefined && !(error instanceof RequestTimeoutError) // that one was taken, and had no time
    if (
      isRefused &&
      isMessage &&
      (names.length > 0 || what === 'receiveMessage') &&
      host.journal.deadLetters.total === letters
    )
      found.push(`${says}: no dead letter after ${error.message}`)
  }
  for (const letter of team.deadLetters.list()) JSON.stringify(letter)
  JSON.stringify(team.getMessageHistory())
  const answer = outcomeOf(ask(team, 'ann'))
  await clock.runToIdle()
  if (answer.value !== 'heard 2') found.push(`ann says ${answer.value ?? answer.error}`)
  if (Object.hasOwn(Object.prototype, 'polluted')) found.push('Object.prototype is polluted')
  found.push(...imbalances(host), ...leftovers(host))
  await team.close()
  return found

  function letterOf(dice: Dice): unknown {
    const letters = team.deadLetters.list()
    return letters.length > 0 ? dice.pick(letters).id : 'none'
  }
}

t.test(`${seeds.length * CALLS} calls of a hostile caller`, (t) => playSeeds(t, seeds, wrongs))
