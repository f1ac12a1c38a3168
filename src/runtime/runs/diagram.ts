/** Draws a run's trace as the text of a Mermaid sequence diagram. It shows nothing that is not in the trace. */

import { type MessageType, ORCHESTRATOR, RUNTIME, USER } from '../../mailbox/message.ts'
import { own } from '../../own.ts'
import type { OrchestrationTrace } from './trace-types.ts'

type TraceEvent = OrchestrationTrace['events'][number]
type Flow = OrchestrationTrace['messageFlow'][number]
type Row = { from: string; arrow: string; to: string; text: string } | { over: readonly string[]; text: string }

const MOST_ROWS = 500 // a larger diagram is not readable
const LONGEST_TEXT = 48_000 // Mermaid refuses 50,000 characters
const ROW_FRAME = 24 // most characters of a row beside its text
const LONGEST_LABEL = 120

const ARROWS: Record<MessageType, string> = {
  request: '->>',
  delegate: '->>',
  response: '-->>',
  broadcast: '-)',
  publish: '-)',
  subscribe: '-)',
  report: '-)',
}

/**
 * Returns a Mermaid sequence diagram of a run, as text. Messages are arrows: `->>` asks, `-->>` answers, `-)` waits for
 * no answer. Notes show crashes, restarts, dead letters, decisions, sync points, the steps of handoffs, deadlocks,
 * livelocks, stalls and steps answered from the log. All is in the order of time. Beyond 500 rows, or what Mermaid
 * takes, a note says how many rows are left out.
 *
 * @example
 * await writeFile('run.mmd', sequenceDiagram(result.orchestrationTrace))
 */
export function sequenceDiagram(trace: OrchestrationTrace): string {
  const rows = rowsOf(trace)
  if (rows.length === 0) rows.push({ over: [USER], text: 'nothing happened' })
  const aliases = new Map<string, string>()
  // A name can be a keyword of Mermaid, like "end"; an alias never is.
  const alias = (name: string) => {
    const known = aliases.get(name) ?? `p${aliases.size}`
    aliases.set(name, known)
    return known
  }
  const lines: string[] = []
  let size = 0
  for (const row of rows.slice(0, MOST_ROWS)) {
    const text = label(row.text)
    const names = 'over' in row ? row.over : [row.from, row.to]
    size += ROW_FRAME + text.length
    for (const name of names) if (!aliases.has(name)) size += ROW_FRAME + label(name).length
    if (size > LONGEST_TEXT) break
    const shorts = names.map(alias)
    lines.push(
      'over' in row ? `Note over ${span(shorts, aliases)}: ${text}` : `${shorts[0]}${row.arrow}${shorts[1]}: ${text}`,
    )
  }
  const leftOut = rows.length - lines.length
  if (leftOut > 0) {
    const all = aliases.size > 1 ? `p0,p${aliases.size - 1}` : 'p0'
    lines.push(`Note over ${all}: ${leftOut} more rows are left out`)
  }
  const participants = [...aliases].map(([name, short]) => `participant ${short} as ${label(name)}`)
  return `sequenceDiagram\n${[...participants, ...lines].map((line) => `  ${line}\n`).join('')}`
}

/**
 * Merges the three lists by time. Each list keeps its own order, since many entries share a millisecond. An event about
 * a message comes after that message, and before anything else that was sent at that time.
 */
function rowsOf({ messageFlow, events: all, decisions }: OrchestrationTrace): Row[] {
  const events = all.filter(({ eventType }) => eventType !== 'message') // arrows show them
  const rows: Row[] = []
  const unsent = new Set(messageFlow.map(({ messageId }) => messageId))
  const crashed = new Set<string>()
  for (let m = 0, e = 0, d = 0; ; ) {
    const flow = messageFlow[m]
    const event = events[e]
    const decision = decisions[d]
    const next = Math.min(flow?.at ?? Infinity, event?.timestamp ?? Infinity, decision?.timestamp ?? Infinity)
    const due = event?.timestamp === next
    const early = due && unsent.has(textOf(event.details, 'messageId') ?? '')
    if (due && !early) {
      const text = noteOn(event, crashed)
      if (text !== undefined) rows.push({ over: placeOf(event), text })
      e += 1
    } else if (flow && (flow.at === next || early)) {
      rows.push(arrowOf(flow))
      unsent.delete(flow.messageId)
      m += 1
    } else if (decision) {
      const { question, choice, reason } = decision
      rows.push({
        over: [ORCHESTRATOR],
        text: `decision: ${question}: ${choice}${reason === '' ? '' : ` (${reason})`}`,
      })
      d += 1
    } else return rows
  }
}

function arrowOf({ from, to, type }: Flow): Row {
  return { from, arrow: ARROWS[type], to, text: type }
}

/** Event types that concern several agents, with the field that has their names. */
const PARTIES: Readonly<Record<string, string>> = { sync: 'arrived' }

/** Returns the participants that an event's note stands over: the agents that met, or the agent of the event. */
function placeOf({ eventType, agent, details }: TraceEvent): readonly string[] {
  const met = textsOf(details, own(PARTIES, eventType) ?? 'agents')
  return met.length > 0 ? met : [agent ?? textOf(details, 'to') ?? RUNTIME]
}

/** Returns the range of a note. A note can stand over two participants and all between them. */
function span(shorts: readonly string[], aliases: ReadonlyMap<string, string>): string {
  const inOrder = [...aliases.values()].filter((short) => shorts.includes(short))
  return [...new Set([inOrder[0], inOrder.at(-1)])].join()
}

/** Returns the note for an event; undefined for most events, which add nothing to the arrows. */
function noteOn({ eventType, agent, details }: TraceEvent, crashed: Set<string>): string | undefined {
  switch (eventType) {
    case 'agent.crashed': {
      if (agent !== null) crashed.add(agent)
      const why = textOf(inside(details, 'error'), 'message')
      return why === undefined ? 'crashed' : `crashed: ${why}`
    }
    case 'agent.ready': // the first start needs no note
      return agent !== null && crashed.has(agent) ? 'ready again' : undefined
    case 'agent.reloaded':
      return 'runs newly loaded code'
    case 'message.dead':
      return `dead letter from ${textOf(details, 'from') ?? 'nobody'}: ${textOf(details, 'reason') ?? 'no reason'}`
    case 'step.replayed':
      return `step ${textOf(details, 'step') ?? 'without a name'} answered from the log`
    case 'sync': {
      const missing = textsOf(details, 'missing')
      const without = missing.length === 0 ? '' : ` without ${missing.join(', ')}`
      return `sync point ${textOf(details, 'point') ?? 'without a name'}${without}`
    }
    case 'handoff':
      return `handoff from ${textOf(details, 'from')} to ${textOf(details, 'to')}: ${textOf(details, 'step')}`
    case 'log.forgotten':
      return 'what came before is no longer in the log'
    default: {
      const sentence = textOf(details, 'sentence') // the alarm of a detector
      return sentence === undefined ? undefined : `${eventType}: ${sentence.replaceAll(' -> ', ' → ')}`
    }
  }
}

function inside(value: unknown, key: string): unknown {
  if (typeof value !== 'object' || value === null) return undefined
  const found: unknown = Reflect.get(value, key)
  return found
}

function textOf(value: unknown, key: string): string | undefined {
  const found = inside(value, key)
  return typeof found === 'string' ? found : undefined
}

function textsOf(value: unknown, key: string): string[] {
  const found = inside(value, key)
  return Array.isArray(found) ? found.filter((each) => typeof each === 'string') : []
}

/**
 * Makes a label that Mermaid takes as text: ; and # end it, %% begins a comment or a directive, < and > become HTML.
 */
function label(text: string): string {
  const plain = text
    .replaceAll('<', '‹')
    .replaceAll('>', '›')
    .replaceAll(/%{2,}/g, '%')
    .replaceAll(/[;#\s\p{Cc}]+/gu, ' ')
    .trim()
  if (plain === '') return '(no name)'
  const letters = [...plain]
  return letters.length > LONGEST_LABEL ? `${letters.slice(0, LONGEST_LABEL - 1).join('')}…` : plain
}
