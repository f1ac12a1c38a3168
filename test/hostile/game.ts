/** Rounds of hostile parts beside each other. All of a round follows from the seed and its number, so that it can be played alone. */
import { setTimeout as pause } from 'node:timers/promises'
import { Dice } from '../dice.ts'
import type { LoopWatch } from './loop-watch.ts'
import { PARTS, type Part } from './parts.ts'
import type { Stage } from './stage.ts'

const AT_ONCE = 6
const PACE_MS = 20
const REPLAYS = 2
/** Each part comes once in so many rounds. */
export const ROUNDS_OF_ALL = Math.ceil(PARTS.length / AT_ONCE)

/** The parts of a round: all parts in an order of chance are dealt to some rounds, then in another order to the next. */
export function partsOf(seed: number, round: number): readonly Part[] {
  const deal = Math.floor(round / ROUNDS_OF_ALL)
  const dice = new Dice(seed * 10_007 + deal)
  const left = [...PARTS]
  const order = Array.from(PARTS, () => left.splice(dice.upTo(left.length), 1)[0]!)
  const first = (round % ROUNDS_OF_ALL) * AT_ONCE
  return order.slice(first, first + AT_ONCE)
}

/** What came of a round: what was wrong, how long the host's loop was blocked at most (ms), and what each part came to. */
interface Outcome {
  readonly wrong: string[]
  readonly blockedMs: number
  readonly endings: string[]
}

/**
 * A block is the round's own only if it comes again each time that the round is played: a processor that is shared is slower than
 * alone, which no clock tells.
 */
export async function playRound(stage: Stage, watch: LoopWatch, seed: number, round: number): Promise<Outcome> {
  const first = await playOnce(stage, watch, seed, round)
  let { blockedMs } = first
  for (let again = 0; again < REPLAYS && blockedMs > 0; again += 1)
    blockedMs = Math.min(blockedMs, (await playOnce(stage, watch, seed, round)).blockedMs)
  return { ...first, blockedMs }
}

async function playOnce(stage: Stage, watch: LoopWatch, seed: number, round: number): Promise<Outcome> {
  const dice = new Dice(seed * 7 + round * 104_729)
  const wrong: string[] = []
  const endings: string[] = []
  let open = true
  const plays = partsOf(seed, round).map(async (part) => {
    const ending = await part.play(stage, dice).catch((error: unknown) => `unknown: rejected with ${error}`)
    endings.push(`${part.name} -> ${ending}`)
    if (ending.includes('unknown: ')) wrong.push(`${part.name} ended with what nobody knows (${ending})`)
  })
  const played = Promise.all(plays).finally(() => {
    open = false
  })
  do {
    wrong.push(...(await stage.wrongWithNeighbours(dice.upTo(1_000), dice.upTo(1_000))))
    await pause(PACE_MS)
  } while (open)
  await played
  const blockedMs = Math.max(0, ...(await watch.blocks()).map(({ ms }) => ms))
  return { wrong, blockedMs, endings }
}
