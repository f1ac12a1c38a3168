/** Rows of a run in words. */

import { MESSAGE_TYPES } from '../../mailbox/message-type.ts'
import { type DigestFact, TO_SEVERAL } from '../../runtime/views/digest-line.ts'
import { span } from '../../runtime/views/slow.ts'
import { grouped, quoted } from '../../shared/text.ts'
import { own } from '../../shared/values.ts'
import { texts } from './deadlocks.ts'
import { CALL, type RunStory } from './run-story.ts'

export interface Rehearsed {
  readonly id: string
  readonly query: string
  /** File of the team, and folder of its durable log, where they are known. */
  readonly file: string | null
  readonly log: string | null
}

/**
 * A task of a durable log is played with the answers that it got. Of any other its query is played through schedules,
 * with made-up answers.
 */
export function rehearsalCommand({ id, query, file, log }: Rehearsed): string {
  const begin = `npx dramatis rehearse ${file === null ? '<team file>' : quoted(file)}`
  return log === null ? `${begin} ${quoted(query, true)}` : `${begin} --from ${quoted(id)} --log ${quoted(log)}`
}

/** Rule of an approval, and the ids of those who have agreed. */
interface Policy {
  readonly by: string
  readonly groups: readonly string[]
  readonly quorum: number
  readonly agreed: readonly string[]
}

const WHOM: ReadonlyMap<string, string> = new Map([
  ['caller', 'who began the task confirms it'],
  ['others', 'not who began the task'],
])

/** Says in words what an approval takes: `2 of finance have to agree, not who began the task; bob has; 23 h left`. */
export function approvalWords({ by, groups, quorum, agreed }: Policy, leftMs: number | undefined): string {
  const whom = WHOM.get(by)
  const who = `${quorum === 1 ? 'one' : quorum}${groups.length > 0 ? ` of ${groups.join(', ')}` : ''}`
  const parts = [
    `${who} ${quorum === 1 ? 'has' : 'have'} to agree${whom === undefined ? '' : `, ${whom}`}`,
    ...(agreed.length > 0 ? [`${agreed.join(', ')} ${agreed.length === 1 ? 'has' : 'have'}`] : []),
    ...(leftMs === undefined ? [] : [`refused in ${span(leftMs)}`]),
  ]
  return parts.join('; ')
}

export interface RowWords {
  readonly at: number
  /** Word for its kind: the type of a message or of an event. */
  readonly kind: string
  readonly who: string
  readonly what: string
  readonly isTrouble: boolean
}

const TYPE_BITS = 7
/** Kind of a call of a tool, in the digest. */
const TOOL = 1

export const nameOf = (name: string | undefined): string => {
  if (name === '$user') return 'you'
  if (name === '$orchestrator') return 'strategy'
  return name === '$runtime' ? 'runtime' : (name ?? '')
}

export function wordsOfRow({ fold, rows }: RunStory, at: number): RowWords {
  const row = rows[at]!
  if (row < 0) return wordsOfFact(fold.facts[-1 - row]!)
  if (row >= CALL) return wordsOfCall(fold, row - CALL)
  const { from, to, type, bytes, at: time } = fold.messages.columns
  const recipient = to.at(row) < 0 ? 'all' : nameOf(fold.names[to.at(row)])
  const isToSeveral = (type.at(row) & TO_SEVERAL) !== 0
  return {
    at: time.at(row),
    kind: MESSAGE_TYPES[type.at(row) & TYPE_BITS] ?? '',
    who: `${nameOf(fold.names[from.at(row)])} → ${isToSeveral ? 'several' : recipient}`,
    what: sizeOf(bytes.at(row)),
    isTrouble: false,
  }
}

function wordsOfCall({ calls: { columns }, names }: RunStory['fold'], row: number): RowWords {
  const isTool = columns.kind.at(row) === TOOL
  const [start, end, failed] = [columns.start.at(row), columns.end.at(row), columns.failed.at(row) > 0]
  const tokens = isTool ? [] : [`${grouped(columns.in.at(row) + columns.out.at(row))} tokens`]
  const what = [names[columns.name.at(row)] ?? '', span(end - start), ...tokens, ...(failed ? ['failed'] : [])]
  return {
    at: end,
    kind: isTool ? 'tool' : 'model',
    who: names[columns.agent.at(row)] ?? '',
    what: what.join(', '),
    isTrouble: failed,
  }
}

export function timesOf(story: RunStory, text: string): number[] {
  if (text === '') return []
  const wanted = text.toLowerCase()
  return Array.from(story.times).filter((_time, at) => {
    const { kind, who, what } = wordsOfRow(story, at)
    return `${kind} ${who} ${what}`.toLowerCase().includes(wanted)
  })
}

export const sizeOf = (bytes: number): string =>
  bytes < 1_000 ? `${bytes} B` : bytes < 1e6 ? `${(bytes / 1e3).toFixed(1)} KB` : `${(bytes / 1e6).toFixed(1)} MB`

function budgetWords({ used, limit, unit, tenant }: DigestFact): string {
  const shown = (amount: unknown) => (unit === undefined ? grouped(Number(amount)) : Number(amount).toFixed(2))
  const whose = tenant === undefined ? '' : ` of tenant ${text(tenant)}`
  const isFull = Number(used) >= Number(limit)
  const of = unit === undefined ? 'tokens' : text(unit)
  return `${shown(used)} of ${shown(limit)} ${of}${whose} are used${isFull ? ': no call of a model fits any more' : ''}`
}

const text = (value: unknown): string => (typeof value === 'string' ? value : '')

const field = (value: unknown, name: string): string => text(own(Object(value), name))

export function wordsOfFact(fact: DigestFact): RowWords {
  const { at, type, agent } = fact
  const told = (who: string, what: string, isTrouble = false): RowWords => ({ at, kind: type, who, what, isTrouble })
  switch (type) {
    case 'agent.crashed': {
      const ms = fact.restartInMs
      const next = typeof ms === 'number' ? `it is restarted after ${Math.round(ms)} ms` : 'it is not restarted'
      return told(text(agent), `${field(fact.error, 'message').replace(/\.$/, '')}; ${next}`, true)
    }
    case 'agent.exited':
      return told(text(agent), `its thread has ended: ${text(fact.how)}`)
    case 'agent.ready':
      return told(text(agent), `ready after ${Math.round(Number(fact.tookMs))} ms`)
    case 'message.dead': {
      const letter = Object(fact.letter) as Record<string, unknown>
      const [error] = Array.isArray(letter.errors) ? letter.errors : []
      const who = `${nameOf(field(letter.message, 'sender'))} → ${nameOf(field(letter.message, 'recipient'))}`
      return told(who, `dead letter, ${text(letter.reason)}: ${field(error, 'message')}`, true)
    }
    case 'deadlock':
      return told(texts(fact.cycle).join(' → '), text(fact.sentence), true)
    case 'livelock':
    case 'stall':
      return told('', text(fact.sentence), true)
    case 'slow':
      return told('', text(fact.sentence))
    case 'decision':
      return told('', `${text(fact.question)} ${text(fact.choice)} (${text(fact.reason)})`)
    case 'question':
      return told(text(agent), text(fact.text))
    case 'question.voted':
      return told(text(agent), `${text(fact.by)} agrees`)
    case 'steer':
    case 'steer.unread':
      return told(text(fact.to), `${text(fact.by)} ${text(fact.text)}`.trim())
    case 'steer.read':
      return told(text(agent), 'reads what was said')
    case 'question.closed':
      return told(text(agent), `${text(fact.how)} ${text(fact.answer)} ${text(fact.reason)}`.trim())
    case 'blackboard':
      return told(field(fact.entry, 'author'), `writes ${field(fact.entry, 'key')}`)
    case 'handoff':
    case 'reassignment':
      return told(text(agent), `${text(fact.step)}: ${text(fact.from)} → ${text(fact.to)}`)
    case 'sync':
      return told('', `sync point ${text(fact.point)}`)
    case 'run.aborted':
      return told('', text(fact.reason))
    case 'run.finished': {
      const result = Object(fact.result) as Record<string, unknown>
      return told('', result.success === true ? text(result.finalOutput) : field(result.error, 'message'))
    }
    case 'budget':
      return told(text(agent), budgetWords(fact))
    case 'model.switched':
      return told(text(agent), `${text(fact.entry)}: ${text(fact.from)} (${text(fact.reason)}) → ${text(fact.to)}`)
    case 'limit.reached':
      return told(text(agent), `waits for the limit ${text(fact.option)}`)
    case 'guardrail':
      return told(text(agent), `${text(fact.guardrail)} ${text(fact.outcome)} ${text(fact.reason)}`)
    default:
      return told(text(agent), '')
  }
}
