/** Tells what came of a crash: the restart, and the message that lay on the agent. */
import { own } from '../../../own.ts'
import type { DigestFact } from '../../../runtime/digest/digest-line.ts'
import type { DigestFold } from '../../digest/digest-fold.ts'

export interface CrashStory {
  /** Run whose message it handled; '' if it is not known. */
  readonly runId: string
  /** Time until the agent was ready again; undefined: it has not been. */
  readonly backAfterMs: number | undefined
  /** Words for what has become of the message that was handled; undefined if that is not known. */
  readonly message: string | undefined
}

/** Dead letter, as far as it is told: of its message that id, and who was to have it. */
export interface DeadMessage {
  readonly at: number
  readonly id: string
  readonly recipient: string
  readonly reason: string
}

/** Time within which the records of one crash are written. */
const CRASH_MS = 1_000
/** Reasons for which a crash itself makes a message a dead letter. */
const BY_CRASH: ReadonlySet<string> = new Set(['poison', 'stopped'])

/**
 * Returns what was done about a crash, as several digests tell it: the message may be of another run than the digest
 * that has told of the crash. `letters`: dead letters that are known from elsewhere.
 */
export function storyOfCrash(
  crash: DigestFact,
  folds: readonly DigestFold[],
  letters: readonly DeadMessage[],
  span: (ms: number) => string,
): CrashStory {
  const { agent, at, seq } = crash
  const facts = folds.flatMap((fold) => fold.facts)
  const isOf = (type: string) => (fact: DigestFact) => fact.type === type && fact.agent === agent
  const backAts = facts.filter(isOf('agent.ready')).flatMap((fact) => (fact.seq > seq ? [fact.at] : []))
  const exit = facts.filter(isOf('agent.exited')).findLast((fact) => fact.seq <= seq && at - fact.at < CRASH_MS)
  const messageId = typeof exit?.messageId === 'string' ? exit.messageId : undefined
  const dead = [...facts.flatMap(deadIn), ...letters].find(
    (letter) =>
      (messageId !== undefined && letter.id === messageId && letter.recipient === agent) ||
      (letter.recipient === agent && BY_CRASH.has(letter.reason) && Math.abs(letter.at - at) < CRASH_MS),
  )
  const again = folds.map((fold) => againIn(fold, String(agent), at)).find((found) => found !== undefined)
  return {
    runId: again?.runId ?? '',
    backAfterMs: backAts.length === 0 ? undefined : Math.min(...backAts) - at,
    message: again
      ? `Its message came again: attempt ${again.attempt} ${again.failed ? 'failed' : 'ended well'} after ${span(again.tookMs)}.`
      : dead
        ? `Its message is a dead letter: ${dead.reason}.`
        : messageId !== undefined
          ? 'Its message comes again.'
          : exit && 'No message was lost: it had none.',
  }
}

function deadIn({ type, at, letter }: DigestFact): DeadMessage[] {
  if (type !== 'message.dead') return []
  const { reason, message } = Object(letter) as Record<string, unknown>
  const [id, recipient] = ['id', 'recipient'].map((name) => own(Object(message), name))
  return typeof recipient === 'string' ? [{ at, id: String(id), recipient, reason: String(reason) }] : []
}

/** Finds the turn in which the message was tried again. */
function againIn({ agents, turns, names }: DigestFold, agent: string, at: number) {
  const { columns, dropped } = turns
  const row = agents
    .get(agent)
    ?.turnRows.map((absolute) => absolute - dropped)
    .find((each) => columns.start.at(each) >= at - 1 && columns.attempt.at(each) > 1)
  return row === undefined
    ? undefined
    : {
        runId: names[columns.run.at(row)] ?? '',
        attempt: columns.attempt.at(row),
        tookMs: columns.end.at(row) - columns.start.at(row),
        failed: columns.failed.at(row) > 0,
      }
}
