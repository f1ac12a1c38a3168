/** One message on its way through a mailbox: where its frame stands in the log, and how far it has come. */
import type { ErrorData } from '../errors.ts'
import type { Memory } from './memory.ts'

export const NOT_YET = -1

/** The rings of a window by which a message can come. */
export const LANES = ['plain', 'ranked', 'replies'] as const

/** One message on its way through a mailbox. `Owner` is what the host knows of its run. */
export interface Envelope<Owner> {
  readonly memory: Memory
  readonly at: number
  readonly bytes: number
  readonly run: Owner
  readonly priority: number
  /** The open turn of its recipient that waits for what its sender does: it runs there, nested, and stands in no line. */
  within: Envelope<Owner> | undefined
  /** Unique within the recipient, over its lives; 0 until it is handed over for the first time. */
  turn: number
  attempt: number
  /** Where it stands in the window of the life that it was handed to, to tell whether it was taken. */
  lane: (typeof LANES)[number]
  windowAt: number
  windowEnd: number
  /** The number of the log's next record when it was handed over. */
  handedSeq: number
  /** When it came, for `queueTimeoutMs`. Monotonic ms, or `NOT_YET`. */
  waitsSince: number
  /** This attempt was seen to start. Monotonic ms, or `NOT_YET`. */
  startedAt: number
  /** Its first attempt was: from then on its sender waits for the response. Monotonic ms, or `NOT_YET`. */
  begunAt: number
  /** That it began is in the log. */
  announced: boolean
  /** Withdrawn by its caller: it is passed over, or its turn is told to stop. */
  cancelled: boolean
  /** Its duty to answer is another agent's by now: what its turn ends with answers nobody. */
  handedOff: boolean
  /** How many of its attempts the host cut off for the sake of others. */
  uncharged: number
  /** What killed its earlier attempts. */
  deaths: { error: ErrorData; epoch: number; alone: boolean; fingerprint: string | null }[] | null
}
