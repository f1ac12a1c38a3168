/** The envelope of a message in a mailbox: the position of its frame in the log, and its progress. */
import type { DramatisError, ErrorData } from '../errors.ts'
import { PRIORITY } from './frame.ts'
import type { Memory } from './memory.ts'

/** Times before the start of the process are below 0. */
export const NOT_YET = Number.NEGATIVE_INFINITY

/**
 * Fate of a turn whose code has changed since an earlier process began it: its run is interrupted, or it goes
 * on, with what is the same still answered from the log.
 */
export type OnMismatch = 'refuse' | 'continue'

/** Modes by the number that a REPLAY frame has for them. The first one: nothing is held back. */
export const MISMATCH_MODES: readonly (OnMismatch | undefined)[] = [undefined, 'refuse', 'continue']

/** The rings of a window by which a message can arrive. */
export const LANES = ['plain', 'ranked', 'replies'] as const

/** Tries of a turn that threw or was late (`communication.turnRetries`). */
export interface TurnRetries {
  /** Number of tries after the first that have begun. */
  count: number
  /** Why the present try is told to stop: it is late, and the next one begins when it has ended. */
  late: DramatisError | undefined
  /** Instance that had the last try which ended. */
  instance: number | undefined
}

/** A message in a mailbox. `Owner` is the host's data about its run. */
export interface Envelope<Owner> {
  readonly memory: Memory
  readonly at: number
  readonly bytes: number
  readonly run: Owner
  readonly priority: number
  /**
   * The recipient's open turn that waits for the sender's work. The message runs nested in that turn and is in no line.
   */
  within: Envelope<Owner> | undefined
  /**
   * Turn number, unique within the recipient across its threads; 0 until the message is handed over for the first time.
   */
  turn: number
  attempt: number
  /** Position in the window of the thread that has it, to check whether it was taken. */
  lane: (typeof LANES)[number]
  windowAt: number
  windowEnd: number
  /** Number that the log's next record had when it was handed over first; 0 until then. */
  handedSeq: number
  /** Time of arrival, for `queueTimeoutMs`. Monotonic ms, or `NOT_YET`. */
  waitsSince: number
  /** Time at which the start of this attempt was noticed. Monotonic ms, or `NOT_YET`. */
  startedAt: number
  /** Time at which the first attempt began; from then on the response timeout runs. Monotonic ms, or `NOT_YET`. */
  begunAt: number
  /** True if its turn was shelved in this attempt: it has begun, wherever the window stands by now. */
  wasShelved: boolean
  /** True if its start is in the log. */
  announced: boolean
  /** True if its caller has withdrawn it. It is skipped, or its turn is aborted. */
  cancelled: boolean
  /** True if another agent has taken over the duty to answer. The result of this turn then answers no request. */
  handedOff: boolean
  /** Set if an earlier process began its turn: what the log does not have is held back in the next attempt. */
  onMismatch?: OnMismatch
  /** Number of its attempts that the host ended for the benefit of other messages. */
  uncharged: number
  /** Causes of the thread exits that ended its earlier attempts. */
  deaths: { error: ErrorData; epoch: number; alone: boolean; fingerprint: string | null }[] | null
  /** Null until its turn is tried again. */
  retries: TurnRetries | null
}

/** Returns the envelope of a message that has just come: it is not handed over yet. */
export function envelopeOf<Owner>(run: Owner, memory: Memory, at: number): Envelope<Owner> {
  return {
    memory,
    at,
    bytes: memory.i32[at >> 2]!,
    run,
    priority: memory.i32[(at >> 2) + PRIORITY]!,
    within: undefined,
    turn: 0,
    attempt: 1,
    lane: 'plain',
    windowAt: 0,
    windowEnd: 0,
    handedSeq: 0,
    waitsSince: NOT_YET,
    startedAt: NOT_YET,
    begunAt: NOT_YET,
    wasShelved: false,
    announced: false,
    cancelled: false,
    handedOff: false,
    uncharged: 0,
    deaths: null,
    retries: null,
  }
}
