/** The screen of `dramatis top`: a pure function of what is known of the team. */
import stringWidth from 'string-width'
import type { Wait } from '../../runtime/views/digest-line.ts'
import { isSlow, type Judged, slowSentence, span, stateOf, troublesIn } from '../../runtime/views/slow.ts'
import { grouped } from '../../shared/text.ts'
import { own } from '../../shared/values.ts'
import {
  type DigestFold,
  type FoldedAgent,
  type FoldedRun,
  missingWords,
  rangesOf,
  type Takeover,
  takeoverWords,
} from '../digest/digest-fold.ts'
import { newestTurns, toldWaits } from '../digest/moment.ts'
import { oneLine } from '../shared/failure.ts'
import type { ClusterSight } from './source.ts'

const LONGEST = 2_000

export const columns = (text: string): number => stringWidth(text)

/** Returns the text in exactly that many columns: cut with an ellipsis, or filled with spaces. */
export function fit(text: string, width: number, side: 'left' | 'right' = 'left'): string {
  const shown = cut(text, width)
  const space = ' '.repeat(Math.max(0, width - stringWidth(shown)))
  return side === 'left' ? shown + space : space + shown
}

export function cut(text: string, width: number): string {
  const clean = oneLine(text, LONGEST)
  if (stringWidth(clean) <= width) return clean
  let shown = ''
  let used = 0
  for (const letter of clean) {
    const columns = stringWidth(letter)
    if (used + columns > width - 1) break
    shown += letter
    used += columns
  }
  return width > 0 ? `${shown}…` : ''
}

/** Breaks a text into lines of at most that many columns: at spaces where there are some. */
export function wrapped(text: string, width: number): string[] {
  return text.split('\n').flatMap((paragraph) => {
    const lines: string[] = []
    let line = ''
    for (const word of words(oneLine(paragraph, LONGEST), width)) {
      const longer = line === '' ? word : `${line} ${word}`
      if (stringWidth(longer) <= width) line = longer
      else {
        lines.push(line)
        line = word
      }
    }
    return [...lines, line]
  })
}

/** Yields the words of a line, those that are too long in pieces. */
function* words(line: string, width: number): Iterable<string> {
  for (const word of line.split(' ')) {
    let piece = ''
    for (const letter of word) {
      if (piece !== '' && stringWidth(piece + letter) > width) {
        yield piece
        piece = ''
      }
      piece += letter
    }
    yield piece
  }
}

/** Returns a bar that shows a share from 0 to 1. `mark`: share at which it has a line. */
export function bar(share: number, cells: number, mark?: number): string {
  const full = Math.round(Math.min(1, Math.max(0, share)) * cells)
  const plain = `${'#'.repeat(full)}${'.'.repeat(cells - full)}`
  if (mark === undefined) return `[${plain}]`
  const at = Math.round(mark * cells)
  return `[${plain.slice(0, at)}|${plain.slice(at)}]`
}

export type Sort = 'trouble' | 'name' | 'tokens' | 'mailbox'
export const SORTS: readonly Sort[] = ['trouble', 'name', 'tokens', 'mailbox']

export interface TopState {
  view: 'agents' | 'agent' | 'tasks' | 'waits' | 'letters' | 'processes'
  sort: Sort
  selected: string | undefined
  /** Name of the team where Tab leads to others. */
  team?: string
  /** True where several processes have the team. */
  isOfCluster?: boolean
  /** Text about the last key, in place of the list of keys. */
  note: string
}

export interface Size {
  width: number
  height: number
}

const LANE_MS = 60_000
const RATE_MS = 10_000
const ALARM_MS = 60_000
const MOST_LANES = 5
const ALARMS: ReadonlySet<string> = new Set(['deadlock', 'livelock', 'stall'])

/**
 * Returns the lines of the screen: at most `height`, each at most `width` columns. `now`: epoch ms; `work`: the lines
 * of the tasks, or of the processes.
 */
export function topLines(
  fold: DigestFold,
  state: TopState,
  { width, height }: Size,
  now: number,
  work: readonly string[] = [],
): string[] {
  const head = [headLine(fold, state.team, width, now), ...alarmLines(fold, now)]
  const foot = [keyLine(state)]
  const lanes = state.view === 'agents' ? laneLines(fold, width, now) : []
  const room = Math.max(1, height - head.length - foot.length - lanes.length)
  const body = bodyLines(fold, state, room, now, work).slice(0, room)
  return [...head, ...body, ...lanes, ...foot].slice(0, height).map((line) => cutLine(line, width).trimEnd())
}

/** Cuts a line, and leaves its indent: the rows of a table begin below each other. */
function cutLine(line: string, width: number): string {
  const indent = line.length - line.trimStart().length
  return `${' '.repeat(indent)}${cut(line, width - indent)}`
}

export function orderedAgents(fold: DigestFold, sort: Sort): FoldedAgent[] {
  const rank: Record<Sort, (agent: FoldedAgent) => number> = {
    trouble: (agent) => troubleOf(agent, fold),
    name: () => 0,
    tokens: ({ tokens }) => tokens,
    mailbox: ({ inMailbox }) => inMailbox,
  }
  const by = rank[sort]
  return fold.members.sort((one, other) => by(other) - by(one) || (one.name < other.name ? -1 : 1))
}

const BY_STATUS: Readonly<Record<string, number>> = {
  failed: 1e9,
  stopped: 1e9,
  restarting: 1e8,
  waiting: 1e4,
  running: 1e3,
  starting: 1e2,
}

/** Higher for what a person should look at first: an end, a crash, the longest wait, a full mailbox. */
function troubleOf(agent: FoldedAgent, fold: DigestFold): number {
  const wait = waitOf(fold, agent.name, fold.now)
  const waitedMs = wait ? Math.min(1e7, Math.max(0, fold.now - wait.since)) : 0
  return (own(BY_STATUS, agent.status) ?? 0) + agent.crashes * 1e5 + waitedMs + agent.queued
}

const waitOf = ({ waits }: DigestFold, name: string, now: number) => toldWaits(waits, now).get(name)

function headLine(fold: DigestFold, team: string | undefined, width: number, now: number): string {
  const { messages, calls, runs, questions, processes, deadLetters, gaps } = fold
  const from = now - RATE_MS
  let sent = 0
  for (let row = messages.length - 1; row >= 0 && messages.columns.at.at(row) > from; row--) sent += 1
  let tokens = 0
  for (let row = calls.length - 1; row >= 0 && calls.columns.end.at(row) > from; row--)
    tokens += calls.columns.in.at(row) + calls.columns.out.at(row)
  const open = [...runs.values()].filter(({ endedAt }) => endedAt === null).length
  const seconds = RATE_MS / 1_000
  const figures = [
    team,
    processes.length > 0 && counted(processes.filter(({ name }) => name !== '').length, 'process', 'processes'),
    counted(open, 'run'),
    `${grouped(sent / seconds)} msg/s`,
    `${grouped(tokens / seconds)} tokens/s`,
    questions.size > 0 && counted(questions.size, 'question'),
    deadLetters > 0 && counted(deadLetters, 'dead letter'),
    gaps > 0 && `lines were missed ${gaps === 1 ? 'once' : `${gaps} times`}`,
  ]
  const time = new Date(now).toISOString().slice(11, 19)
  const text = figures.filter(Boolean).join('  ')
  return `${fit(text, Math.max(0, width - time.length - 1))} ${time}`
}

const counted = (count: number, what: string, many = `${what}s`) => `${count} ${count === 1 ? what : many}`

function alarmLines({ facts, waits, processes }: DigestFold, now: number): string[] {
  const missing = missingWords(processes)
  const lines: string[] = missing === '' ? [] : [`! ${oneLine(missing)}`]
  const most = lines.length + 2
  for (const { type, at, sentence } of facts.slice(-200).reverse()) {
    if (at < now - ALARM_MS || lines.length === most) break
    if (ALARMS.has(type)) lines.push(`! ${type} ${span(now - at)} ago: ${String(sentence)}`)
  }
  const [first, ...others] = troublesIn(waits, now).sort((one, other) => rankOf(other) - rankOf(one))
  const more = others.length > 0 ? ` (and ${others.length} more)` : ''
  if (first) lines.push(`! ${first.state}: ${first.sentence}${more}`)
  return lines
}

const rankOf = ({ state }: Judged): number => Number(state === 'stuck')

function bodyLines(
  fold: DigestFold,
  state: TopState,
  room: number,
  now: number,
  work: readonly string[],
): readonly string[] {
  switch (state.view) {
    case 'agents':
      return agentTable(fold, state, room, now)
    case 'agent':
      return agentLines(fold, state.selected, now)
    case 'tasks':
      return work.length > 0 ? work : ['no task was given']
    case 'waits':
      return waitLines(fold, now)
    case 'letters':
      return letterLines(fold, now)
    case 'processes':
      return work
  }
}

const HEAD = ['agent', 'status', 'waits for', 'since', 'turns', 'mailbox', 'restarts', 'tokens', 'last error']
const NUMBERS: ReadonlySet<number> = new Set([4, 5, 6, 7])
const LONGEST_CELL = 40

function agentTable(fold: DigestFold, { sort, selected }: TopState, room: number, now: number): string[] {
  const all = orderedAgents(fold, sort)
  const marked = Math.max(
    0,
    all.findIndex(({ name }) => name === selected),
  )
  const first = Math.max(0, Math.min(marked - (room - 3), all.length - (room - 1)))
  const shown = all.slice(first, first + Math.max(1, room - 1))
  const rows = shown.map((agent) => {
    const wait = waitOf(fold, agent.name, now)
    return [
      agent.name,
      agent.status,
      wait ? `${wait.kind} ${wait.for.join(', ')}`.trim() : '',
      wait ? `${span(now - wait.since)}${isSlow(wait, now) ? ` ${stateOf(wait, now)}` : ''}` : '',
      grouped(agent.turns),
      grouped(agent.inMailbox),
      grouped(agent.restarts),
      grouped(agent.tokens),
      agent.lastError ?? '',
    ].map((cell) => cut(cell, LONGEST_CELL))
  })
  return table(HEAD, rows).map((line, at) => (at > 0 && shown[at - 1]?.name === selected ? `> ${line}` : `  ${line}`))
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const widths = head.map((title, column) => Math.max(title.length, ...rows.map((row) => columns(row[column] ?? ''))))
  return [head, ...rows].map((row) =>
    row.map((cell, column) => fit(cell, widths[column]!, NUMBERS.has(column) ? 'right' : 'left')).join('  '),
  )
}

// ---- runs of the last minute

function laneLines(fold: DigestFold, width: number, now: number): string[] {
  const from = now - LANE_MS
  const recent = [...fold.runs.values()]
    .filter(({ endedAt }) => endedAt === null || endedAt > from)
    .sort((one, other) => other.startedAt - one.startedAt)
    .slice(0, MOST_LANES)
  if (recent.length === 0) return []
  const cells = Math.max(10, Math.min(60, width - 40))
  const lanes = new Map(recent.map((run) => [run.id, laneOf(run, cells, from)]))
  const { columns: turns } = fold.turns
  for (let row = fold.turns.length - 1; row >= 0 && turns.end.at(row) > from; row--) {
    const lane = lanes.get(fold.names[turns.run.at(row)] ?? '')
    if (!lane) continue
    const first = agentAt(turns.start.at(row), from, cells)
    const mark = turns.failed.at(row) > 0 ? 'X' : '='
    for (let cell = first; cell <= agentAt(turns.end.at(row), from, cells); cell++) lane[cell] = mark
  }
  return ['', ...recent.map((run) => `${lanes.get(run.id)!.join('')}  ${fit(run.status, 8)} ${run.query}`)]
}

const agentAt = (time: number, from: number, cells: number): number =>
  Math.min(cells - 1, Math.max(0, Math.floor(((time - from) / LANE_MS) * cells)))

function laneOf({ startedAt, endedAt }: FoldedRun, cells: number, from: number): string[] {
  const first = agentAt(startedAt, from, cells)
  const last = endedAt === null ? cells - 1 : agentAt(endedAt, from, cells)
  return Array.from({ length: cells }, (_, cell) => (cell >= first && cell <= last ? '.' : ' '))
}

// ---- one agent, waits, dead letters

const MOST_TURNS = 12

function agentLines(fold: DigestFold, name: string | undefined, now: number): string[] {
  const agent = name === undefined ? undefined : fold.agents.get(name)
  if (!agent) return ['no agent is marked']
  return [
    `${agent.name}: ${agent.status}, ${agent.queued} queued, ${agent.inFlight} in flight, ${agent.restarts} restarts`,
    `turns ${grouped(agent.turns)}, of these ${grouped(agent.failedTurns)} failed; models ${grouped(agent.modelCalls)} calls, ` +
      `${grouped(agent.inputTokens)} tokens in, ${grouped(agent.outputTokens)} out; tools ${grouped(agent.toolCalls)} calls`,
    ...(agent.lastError ? [`last error: ${agent.lastError}`] : []),
    ...fold.waits.flatMap((wait) => (wait.agent === agent.name ? [waitLine(wait, now)] : [])),
    '',
    ...newestTurns(fold, agent, MOST_TURNS).map(({ turn, start, end, attempt, failed }) => {
      const how = `${attempt > 1 ? `  attempt ${attempt}` : ''}${failed ? '  failed' : ''}`
      return `  ${span(now - end)} ago  turn ${turn}  ${span(end - start)}${how}`
    }),
  ]
}

function waitLines({ waits }: DigestFold, now: number): string[] {
  if (waits.length === 0) return ['nobody waits']
  return [...waits].sort((one, other) => one.since - other.since).map((wait) => waitLine(wait, now))
}

const waitLine = (wait: Wait, now: number): string =>
  `${isSlow(wait, now) ? '! ' : ''}${slowSentence(wait, now)}${
    wait.turnSince === undefined ? '' : `; its turn began ${span(now - wait.turnSince)} ago`
  }`

function letterLines({ facts }: DigestFold, now: number): string[] {
  const letters = facts.filter(({ type }) => type === 'message.dead').reverse()
  if (letters.length === 0) return ['no message has died since this screen was opened']
  return letters.map(({ at, letter }) => {
    const { reason, message, errors } = Object(letter) as { reason?: unknown; message?: unknown; errors?: unknown }
    const { sender, recipient, type } = Object(message) as Record<string, unknown>
    const [error] = Array.isArray(errors) ? errors : []
    const why = (Object(error) as { message?: unknown }).message
    return `${span(now - at)} ago  ${String(type)}  ${String(sender)} -> ${String(recipient)}  ${String(reason)}: ${String(why ?? '')}`
  })
}

// ---- processes of a cluster

/** Returns the lines of the processes. `cluster`: what the engine tells, if it is looked at. */
export function processLines(
  { processes, takeovers }: DigestFold,
  cluster: ClusterSight | undefined,
  now: number,
): string[] {
  if (!cluster) {
    if (processes.length === 0) return ['the team has this process alone']
    const shown = processes.map(({ name, shards }) => [name || 'nobody', rangesOf(shards)])
    return [...table(['process', 'shards'], shown), '', ...moveLines(takeovers, now)]
  }
  const { members, shards, moves, failure } = cluster
  const openOf = (held: readonly number[]) =>
    grouped(shards.filter(({ shard }) => held.includes(shard)).reduce((sum, { open }) => sum + open, 0))
  const free = shards.flatMap(({ shard, owner }) => (owner === null ? [shard] : []))
  const rows = members.map(({ id, host, pid, version = '-', shards: held }) => {
    return [`${host}:${pid}`, id.slice(0, SHORT_ID), version, openOf(held), rangesOf(held)]
  })
  if (free.length > 0) rows.push(['nobody', '', '', openOf(free), rangesOf(free)])
  return [
    ...(failure === undefined ? [] : [`! as it was: ${failure}`]),
    ...table(['process', 'node', 'version', 'open runs', 'shards'], rows),
    '',
    ...moveLines(moves, now),
  ]
}

function moveLines(moves: readonly (Takeover & { readonly taken?: number })[], now: number): string[] {
  if (moves.length === 0) return ['no shard was taken since this screen was opened']
  return moves.map((move) => {
    const times = move.taken === undefined ? '' : ` (taken ${move.taken} times)`
    return `${span(now - move.at)} ago  ${takeoverWords(move)}${times}`
  })
}

const SHORT_ID = 8

function keyLine({ view, sort, note, team, isOfCluster }: TopState): string {
  if (note !== '') return note
  const first = view === 'agents' ? `Enter agent  s sort (${sort})` : 'Esc back'
  const last = isOfCluster ? 'p processes' : 'r restart'
  return `${first}  t tasks  w waits  d letters  ${last}${team === undefined ? '' : '  Tab next team'}  q quit`
}
