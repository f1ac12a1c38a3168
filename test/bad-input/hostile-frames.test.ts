/**
 * Thousands of frames that a hostile thread writes: random, spoilt, of other agents and of nobody, in an outbox whose
 * counters lie. The host goes on, the others answer, and every message that is one is heard or is a dead letter.
 * A failure names its seed; `HOSTILE_SEED=7 node dist/test/bad-input/hostile-frames.test.js` plays that one alone.
 */
import t from 'tap'
import { type FrameFields, REQUEST, SEND } from '../../src/mailbox/frame.ts'
import type { MessageType } from '../../src/mailbox/message.ts'
import { Dice } from '../dice.ts'
import { howMany } from '../how-many.ts'
import { hostileTeam, type RawTurn } from './raw-thread.ts'
import { playSeeds } from './seeds.ts'

const FRAMES = 150
const STRINGS = 1 | 2 | 4 | 8
const SEEDS = howMany(5, 500)
const only = process.env.HOSTILE_SEED

const KINDS = [
  0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 33,
  34, 37, 38, 38, 255,
]
const TYPES: MessageType[] = ['request', 'response', 'broadcast', 'publish', 'subscribe', 'delegate', 'report']
const NUMBERS = [
  0,
  1,
  2,
  3,
  4,
  5,
  6,
  7,
  8,
  63,
  64,
  65,
  4096,
  65_535,
  65_536,
  2 ** 30,
  2 ** 31 - 1,
  -1,
  -2,
  -8,
  -64,
  -(2 ** 31),
]
const TEXTS = [
  undefined,
  '',
  '{',
  'null',
  '5',
  '[]',
  '{"a":1}',
  '{"limit":1,"agents":["ann","bob","eve"]}',
  '"\ud800"',
  '{"__proto__":{"x":1}}',
  '\u0000',
  '{"code":"__proto__"}',
]
const WORDS = [
  'blackboard.write',
  'blackboard.waitFor',
  'subscribe',
  'watch',
  'spawn',
  'decide',
  '\u0000',
  '',
  'é',
  '漢字',
  '**',
  'maxParallelToolCalls',
]

const wordOf = (dice: Dice) => (dice.chance(0.5) ? dice.pick(NUMBERS) : dice.int32())

type Stage = ReturnType<typeof hostileTeam>

/** A frame that is well-formed, but says what its thread has no business to say; often what it may say. */
function fieldsOf(dice: Dice, n: number, { run, turn, correlation }: RawTurn, stage: Stage): Partial<FrameFields> {
  const text = dice.chance(0.3) ? dice.pick(WORDS) : `m${n}`
  return {
    kind: dice.pick(KINDS),
    flags: dice.chance(0.7) ? dice.pick([0, 32, 16, 64]) : dice.upTo(256),
    type: dice.chance(0.6) ? 'request' : dice.pick(TYPES),
    recipient: dice.chance(0.7) ? stage.index(dice.pick(['ann', 'bob'])) : dice.upTo(70_000) & 0xffff,
    run: dice.chance(0.8) ? run : wordOf(dice),
    turn: dice.chance(0.8) ? turn : wordOf(dice),
    correlation: dice.chance(0.5) ? n + 1 : dice.chance(0.3) ? correlation : wordOf(dice),
    step: wordOf(dice),
    attempt: dice.upTo(300),
    content: dice.chance(0.02) ? `${text} `.repeat(60_000) : text,
    data: dice.pick(TEXTS),
    metadata: dice.pick(TEXTS),
    threadId: dice.pick(TEXTS),
    name: dice.chance(0.1) ? dice.pick(['ann', 'nobody', '$orchestrator', '__proto__', '']) : undefined,
    limit: wordOf(dice),
    priority: wordOf(dice),
    ...(dice.chance(0.1) && { sender: dice.upTo(8) }),
  }
}

/** What is wrong after that many frames of that seed. */
async function wrongs(test: Parameters<typeof hostileTeam>[0], seed: number): Promise<string[]> {
  const dice = new Dice(seed)
  const stage = hostileTeam(test)
  const { team, host } = stage
  await team.start()
  let at: RawTurn = await stage.turn()
  const sent: { content: string; to: number }[] = []
  const found: string[] = []
  for (let n = 0; n < FRAMES; n++) {
    const { thread } = stage
    const fields = fieldsOf(dice, n, at, stage)
    const frame = thread.frame(fields)
    const spoilt = dice.chance(0.25)
    // The length stays in half of them: else the first of them is the last that is read.
    for (let words = spoilt ? 1 + dice.upTo(4) : 0; words > 0; words--) {
      const first = dice.chance(0.9) ? 1 : 0
      frame.memory.i32[first + dice.upTo(Math.min(frame.memory.i32.length, 24) - first)] = wordOf(dice)
    }
    const { kind, recipient = 0, flags = 0, limit = -1 } = fields
    // One whose flags name strings that are not there leaves a letter without its content; a request can be over by its
    // deadline before it is heard, and then its sender knows.
    const isMessage = (flags & STRINGS) === 0 && (kind === SEND || (kind === REQUEST && limit < 0))
    const epoch = stage.mallory.epoch
    const incarnation = stage.incarnation
    const whole = thread.write(frame)
    if (dice.chance(0.03)) {
      thread.outbox.advance(dice.chance(0.5) ? 8 * dice.upTo(100_000) : wordOf(dice))
      thread.publish()
    }
    await team.clock.advance(0)
    if (isMessage && whole && !spoilt && epoch === stage.mallory.epoch && !incarnation?.broken)
      sent.push({ content: fields.content!, to: recipient })
    if (stage.incarnation?.broken || stage.thread !== thread || dice.chance(0.05)) at = (await next(stage)) ?? at
    const options = team.waits().flatMap(({ kind, for: what }) => (kind === 'limit' ? what : []))
    if (options.some((option) => !/^(maxParallelToolCalls$|concurrency of ")/.test(option)))
      found.push(`a limit ${options.join()}`)
    if (n % 30 === 29) found.push(...(await stage.ailments()))
  }
  found.push(...(await stage.ailments()))
  // Each message that is one: heard, or a dead letter of its recipient.
  const letters = team.deadLetters.list()
  const known = new Set([
    ...stage.heard.map(({ content, recipient }) => `${recipient} ${content}`),
    ...letters.map(({ message }) => `${message.recipient} ${message.content}`),
  ])
  for (const { content, to } of sent) {
    const name = host.directory.byIndex[to]?.name
    if (name !== 'ann' && name !== 'bob') continue
    const kept = content.slice(0, 1_024) // all that is kept of what is refused
    if (![`${name} ${content}`, `${name} ${kept}`, `null ${content}`].some((which) => known.has(which)))
      found.push(`"${kept.slice(0, 20)}" to ${name} is lost`)
  }
  found.push(...(await stage.leftovers()))
  await team.close()
  return found
}

/** Another turn of mallory's: of a new life, or beside the one it has. */
async function next(stage: Stage): Promise<RawTurn | undefined> {
  await stage.team.clock.advance(0)
  const again = stage.thread.turns().at(-1)
  if (again) return again
  return stage.turn().catch(() => undefined)
}

const seeds = only ? [Number(only)] : Array.from({ length: SEEDS }, (_, n) => n + 1)
t.test(`${seeds.length * FRAMES} frames of a hostile thread`, (t) => playSeeds(t, seeds, wrongs))
