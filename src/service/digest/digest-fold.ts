/**
 * The state that lines of a digest add up to. It is the same for all faces: terminal, page and file. It uses nothing of
 * Node or of a browser, so that it runs in both.
 */

import { MESSAGE_TYPES } from '../../mailbox/message-type.ts'
import {
  AGAIN,
  COPY,
  type Digest,
  type DigestFact,
  type DigestProcess,
  type DigestQuestion,
  type DigestRun,
  NONE,
  STATUSES,
  TO_SEVERAL,
  type Wait,
} from '../../runtime/views/digest-line.ts'
import { Column, listsOf, NameTable, Table } from './columns.ts'

/** An agent as it is now, and what of it can be counted. */
export class FoldedAgent {
  readonly name: string
  status = 'idle'
  queued = 0
  inFlight = 0
  restarts = 0
  /** Turns that have ended, and of these the failed ones; of a team's digest since the team was started. */
  turns = 0
  failedTurns = 0
  crashes = 0
  inputTokens = 0
  outputTokens = 0
  modelCalls = 0
  toolCalls = 0
  /** Calls of models since its last turn ended. */
  rounds = 0
  /** Tokens of the last call: those of its conversation, as its model counts them. */
  lastTokens = 0
  lastError: string | null = null
  /** Times at which messages came for it, and at which turns of it ended. */
  readonly arrivals = new Column()
  readonly ends = new Column()
  readonly turnRows: number[] = []
  readonly requestRows: number[] = []

  constructor(name: string) {
    this.name = name
  }

  get tokens(): number {
    return this.inputTokens + this.outputTokens
  }

  get inMailbox(): number {
    return this.queued + this.inFlight
  }
}

export interface FoldedRun extends DigestRun {
  endedAt: number | null
  error: string | null
  messages: number
  tokens: number
  /** Number of facts about words that people have said to it. */
  steers: number
}

/** A task as the last fact about it says. */
export interface FoldedTask {
  readonly id: string
  readonly runId: string
  readonly agent: string | null
  readonly description: string
  /** Id of the task that it was given for, if it was. */
  readonly parent: string | null
  readonly status: string
  /** Why it was skipped, if it was. */
  readonly reason?: string
  /** Epoch ms of its last change. */
  readonly at: number
}

const newRun = (id: string): FoldedRun => ({
  id,
  query: '',
  status: 'running',
  startedAt: 0,
  threadId: null,
  endedAt: null,
  error: null,
  messages: 0,
  tokens: 0,
  steers: 0,
})

const REQUESTS: ReadonlySet<number> = new Set([MESSAGE_TYPES.indexOf('request'), MESSAGE_TYPES.indexOf('delegate')])
const TYPE_BITS = 7
const MODEL = 0
const MOST_TAKEOVERS = 100

export class DigestFold {
  /** `start`, `end`: of the turn that had the message; NaN as long as there is none. `n`: number of the message. */
  readonly messages = new Table(['n', 'run', 'from', 'to', 'type', 'at', 'bytes', 'turn', 'start', 'end'])
  /** `message`: number of the message that the turn had; below 0 if it is not known. */
  readonly turns = new Table(['message', 'run', 'agent', 'turn', 'start', 'end', 'attempt', 'failed'])
  readonly calls = new Table(['message', 'run', 'agent', 'kind', 'name', 'start', 'end', 'in', 'out', 'failed'])
  readonly agents = new Map<string, FoldedAgent>()
  readonly runs = new Map<string, FoldedRun>()
  readonly questions = new Map<string, DigestQuestion>()
  readonly tasks = new Map<string, FoldedTask>()
  readonly facts: DigestFact[] = []
  waits: readonly Wait[] = []
  /** Members of the cluster of a team over several processes. */
  processes: readonly DigestProcess[] = []
  /** Shards that went from one of them to another since the first line, the last one first. */
  readonly takeovers: Takeover[] = []
  readonly #owners = new Map<number, string>()
  deadLetters = 0
  /** Name of the team's log; null as long as no line has said it. */
  log: string | null = null
  /** Epoch ms of the newest thing that is known; 0 before the first line. */
  now = 0
  /** Epoch ms of the oldest. */
  began = Number.POSITIVE_INFINITY
  lines = 0
  /** Number of times that lines were missed: the state was begun anew, the tables have a gap. */
  gaps = 0
  readonly #mostRows: number
  readonly #names: NameTable

  /** `mostRows`: rows and facts that are kept. The oldest go, with names that only they have. Default: all. */
  constructor({ mostRows = Number.POSITIVE_INFINITY }: { mostRows?: number } = {}) {
    this.#mostRows = mostRows
    this.#names = new NameTable(mostRows)
  }

  /** Names of agents, runs, models and tools, by their place in the table. */
  get names(): readonly string[] {
    return this.#names.names
  }

  /** The team's own agents, without those of the runtime. */
  get members(): FoldedAgent[] {
    return [...this.agents.values()].filter(({ name }) => !name.startsWith('$'))
  }

  /** Adds a line. Lines come in their order; each is read once. */
  read(line: Digest): void {
    if (line.snapshot) this.#names.beginAnew()
    for (const name of line.names ?? []) this.#names.read(name)
    if (line.snapshot) this.#begin(line.snapshot)
    this.#see(line.at)
    // messages of a run count for it, and stand before the fact of its begin
    for (const { type, runId } of line.facts ?? []) if (type === 'run.started') this.#run(runId)
    if (line.message) this.#sent(line, line.message)
    if (line.turn) this.#ended(line, line.turn)
    if (line.call) this.#called(line, line.call)
    if (line.agent) this.#figures(line.agent)
    if (line.waits) this.waits = line.waits
    if (line.processes) this.#noteOwners(line.processes, line.at)
    for (const fact of line.facts ?? []) this.#fact(fact)
    if (line.deadLetters !== undefined) this.deadLetters = line.deadLetters
    this.#bound()
    this.lines += 1
  }

  agent(name: string): FoldedAgent {
    let agent = this.agents.get(name)
    if (!agent) {
      agent = new FoldedAgent(name)
      this.agents.set(name, agent)
    }
    return agent
  }

  /** Returns the row of a message by its number; -1 if there is none. */
  rowOf(n: number): number {
    const { n: numbers } = this.messages.columns
    const row = numbers.countUpTo(n) - 1
    return row >= 0 && numbers.at(row) === n ? row : -1
  }

  #agentAt(place: number): FoldedAgent | undefined {
    const name = this.#names.nameOf(place)
    return name === undefined ? undefined : this.agent(name)
  }

  #runAt(place: number): FoldedRun | undefined {
    return this.runs.get(this.#names.nameOf(place) ?? '')
  }

  #see(at: number): void {
    if (at > this.now) this.now = at
    if (at < this.began) this.began = at
  }

  /** Replaces what is known of the present. What was before stays in the tables. */
  #begin({ log, agents, runs, questions, waits, deadLetters }: NonNullable<Digest['snapshot']>): void {
    if (this.lines > 0) this.gaps += 1
    this.log = log
    this.waits = waits
    this.deadLetters = deadLetters
    const there = new Set(agents.map(({ name }) => name))
    for (const name of this.agents.keys()) if (!there.has(name) && !name.startsWith('$')) this.agents.delete(name)
    for (const { name, usage, ...figures } of agents) {
      const { inputTokens, outputTokens, calls: modelCalls } = usage
      Object.assign(this.agent(name), figures, { inputTokens, outputTokens, modelCalls })
    }
    const open = new Set(runs.map(({ id }) => id))
    for (const [id, run] of this.runs) if (run.endedAt === null && !open.has(id)) this.runs.delete(id)
    // one that a hand-over or a restart has cut off goes on
    for (const run of runs)
      this.runs.set(run.id, { ...newRun(run.id), ...this.runs.get(run.id), ...run, endedAt: null, error: null })
    this.questions.clear()
    for (const question of questions) this.questions.set(question.questionId, question)
  }

  #sent(line: Digest, table: NonNullable<Digest['message']>): void {
    const { columns } = this.messages
    const { n, run, from, to, type, at, bytes, turn } = listsOf(table)
    for (let row = 0; row < table.rows; row++) {
      const time = line.at + at[row]!
      this.#see(time)
      columns.n.push(line.n + n[row]!)
      columns.run.push(this.#names.placeOf(run[row]!))
      columns.from.push(this.#names.placeOf(from[row]!))
      columns.to.push(this.#names.placeOf(to[row]!))
      columns.type.push(type[row]!)
      columns.at.push(time)
      columns.bytes.push(bytes[row]!)
      columns.turn.push(turn[row]!)
      columns.start.push(Number.NaN)
      columns.end.push(Number.NaN)
      const folded = this.#runAt(run[row]!)
      if (folded && !(type[row]! & COPY)) folded.messages += 1 // the original of a copy was counted
      if (isDelivered(type[row]!)) this.#agentAt(to[row]!)?.arrivals.insert(time)
      if (REQUESTS.has(type[row]! & TYPE_BITS))
        this.#agentAt(from[row]!)?.requestRows.push(this.messages.dropped + this.messages.length - 1)
    }
  }

  #ended(line: Digest, table: NonNullable<Digest['turn']>): void {
    const { columns } = this.turns
    const { message, run, agent, turn, start, end, attempt, failed } = listsOf(table)
    for (let row = 0; row < table.rows; row++) {
      const number = line.n + message[row]!
      const [began, ended] = [line.at + start[row]!, line.at + end[row]!]
      this.#see(ended)
      columns.message.push(number)
      columns.run.push(this.#names.placeOf(run[row]!))
      columns.agent.push(this.#names.placeOf(agent[row]!))
      columns.turn.push(turn[row]!)
      columns.start.push(began)
      columns.end.push(ended)
      columns.attempt.push(attempt[row]!)
      columns.failed.push(failed[row]!)
      const isAgain = failed[row] === AGAIN
      const of = isAgain ? -1 : this.rowOf(number)
      if (of >= 0) {
        this.messages.columns.start.put(of, began)
        this.messages.columns.end.put(of, ended)
      }
      const folded = this.#agentAt(agent[row]!)
      if (!folded) continue
      folded.turns += 1
      folded.failedTurns += failed[row] === 0 ? 0 : 1
      folded.rounds = 0
      if (!isAgain) folded.ends.insert(ended)
      this.#placeTurn(folded.turnRows, ended)
    }
  }

  /** Adds the newest row to rows of turns, which are in the order of their ends: instances tell theirs side by side. */
  #placeTurn(rows: number[], ended: number): void {
    const { dropped } = this.turns
    let at = rows.push(dropped + this.turns.length - 1) - 1
    for (; at > 0 && this.turns.columns.end.at(rows[at - 1]! - dropped) > ended; at--)
      [rows[at - 1], rows[at]] = [rows[at]!, rows[at - 1]!]
  }

  #called(line: Digest, table: NonNullable<Digest['call']>): void {
    const { columns } = this.calls
    const call = listsOf(table)
    for (let row = 0; row < table.rows; row++) {
      const ended = line.at + call.end[row]!
      this.#see(ended)
      columns.message.push(line.n + call.message[row]!)
      columns.run.push(this.#names.placeOf(call.run[row]!))
      columns.agent.push(this.#names.placeOf(call.agent[row]!))
      columns.kind.push(call.kind[row]!)
      columns.name.push(this.#names.placeOf(call.name[row]!))
      columns.start.push(line.at + call.start[row]!)
      columns.end.push(ended)
      for (const name of ['in', 'out', 'failed'] as const) columns[name].push(call[name][row]!)
      const agent = this.#agentAt(call.agent[row]!)
      const run = this.#runAt(call.run[row]!)
      const tokens = call.in[row]! + call.out[row]!
      if (run) run.tokens += tokens
      if (!agent) continue
      if (call.kind[row] === MODEL) {
        agent.modelCalls += 1
        agent.rounds += 1
        agent.lastTokens = tokens
        agent.inputTokens += call.in[row]!
        agent.outputTokens += call.out[row]!
      } else agent.toolCalls += 1
    }
  }

  #figures({ agent, status, queued, inFlight, restarts }: NonNullable<Digest['agent']>): void {
    for (let row = 0; row < agent.length; row++) {
      const folded = this.#agentAt(agent[row]!)
      if (!folded) continue
      if (status[row] === NONE) this.agents.delete(folded.name)
      folded.status = STATUSES[status[row]!] ?? folded.status
      folded.queued = queued[row]!
      folded.inFlight = inFlight[row]!
      folded.restarts = restarts[row]!
    }
  }

  #fact(fact: DigestFact): void {
    this.#see(fact.at)
    this.facts.push(fact)
    const { agent: name, error } = fact
    switch (fact.type) {
      case 'run.started':
        this.#run(fact.runId).query = textOf(fact.query)
        Object.assign(this.#run(fact.runId), { status: 'running', startedAt: fact.at })
        return
      case 'run.aborted':
        this.#run(fact.runId).status = 'aborted'
        return
      case 'run.finished':
        return this.#runEnded(fact)
      case 'question':
        this.questions.set(textOf(fact.questionId), questionOf(fact))
        return
      case 'question.voted':
        return this.#voted(fact)
      case 'question.closed':
        this.questions.delete(textOf(fact.questionId))
        return
      case 'steer':
      case 'steer.read':
      case 'steer.unread':
        this.#run(fact.runId).steers += 1
        return
      case 'message.dead':
        this.deadLetters += 1
        return
      case 'task':
        return this.#task(fact)
      case 'agent.crashed':
        if (typeof name !== 'string') return
        this.agent(name).crashes += 1
        this.agent(name).lastError = messageOf(error)
    }
  }

  /** Notes that somebody has agreed. To another input nobody else has, and it is what is asked from now on. */
  #voted({ questionId, by, digest, text }: DigestFact): void {
    const question = this.questions.get(textOf(questionId))
    if (!question?.approval) return
    const { agreed, ...policy } = question.approval
    const before = text === undefined ? agreed : []
    this.questions.set(question.questionId, {
      ...question,
      text: text === undefined ? question.text : textOf(text),
      approval: { ...policy, digest: textOf(digest), agreed: [...before, textOf(by)] },
    })
  }

  #run(id: string): FoldedRun {
    let run = this.runs.get(id)
    if (!run) {
      run = newRun(id)
      this.runs.set(id, run)
    }
    return run
  }

  #runEnded({ runId, at, result }: DigestFact): void {
    const run = this.#run(runId)
    const { success, error } = Object(result) as { success?: unknown; error?: unknown }
    run.endedAt = at
    if (run.status !== 'aborted') run.status = success === true ? 'finished' : 'failed'
    run.error = success === true ? null : messageOf(error)
    for (const [id, question] of this.questions) if (question.runId === runId) this.questions.delete(id)
  }

  #task({ runId, at, task }: DigestFact): void {
    const { id, assignedTo, description, status, parentTask, reason, ...more } = Object(task) as Record<string, unknown>
    if (more.coordination === true) return // no sub-task
    const agent = typeof assignedTo === 'string' ? assignedTo : null
    this.tasks.delete(textOf(id)) // the last one that changed is the last one
    this.tasks.set(textOf(id), {
      id: textOf(id),
      runId,
      at,
      agent,
      description: textOf(description),
      parent: typeof parentTask === 'string' ? parentTask : null,
      status: textOf(status),
      ...(typeof reason === 'string' && { reason }),
    })
  }

  #noteOwners(processes: readonly DigestProcess[], at: number): void {
    this.processes = processes
    for (const { name, shards } of processes) {
      if (name === '') continue
      for (const shard of shards) {
        const from = this.#owners.get(shard)
        if (from !== undefined && from !== name) this.takeovers.unshift({ at, shard, from, to: name })
        this.#owners.set(shard, name)
      }
    }
    this.takeovers.splice(MOST_TAKEOVERS)
  }

  /** Drops the oldest of what is kept in numbers. */
  #bound(): void {
    const most = this.#mostRows
    if (most === Number.POSITIVE_INFINITY) return
    const { messages, turns, calls } = this
    const shorter = [messages, turns, calls].filter((table) => table.bound(most))
    if (shorter.length > 0) this.#forgetRows()
    if (this.#names.isFull)
      this.#names.keepThoseOf([
        ...[messages.columns.run, messages.columns.from, messages.columns.to],
        ...[turns.columns.run, turns.columns.agent],
        ...[calls.columns.run, calls.columns.agent, calls.columns.name],
      ])
    if (this.facts.length > most) this.facts.splice(0, this.facts.length - (most >> 1))
    const { runs, tasks } = this
    if (tasks.size > most) for (const id of [...tasks.keys()].slice(0, tasks.size - (most >> 1))) tasks.delete(id)
    if (runs.size <= most) return
    const ended = [...runs.values()].filter(({ endedAt }) => endedAt !== null)
    for (const { id } of ended.slice(0, runs.size - (most >> 1))) runs.delete(id)
  }

  #forgetRows(): void {
    const since = Math.max(this.messages.columns.at.at(0) || 0, this.turns.columns.end.at(0) || 0)
    for (const { arrivals, ends, requestRows, turnRows } of this.agents.values()) {
      for (const column of [arrivals, ends]) column.drop(column.countUpTo(since))
      forget(requestRows, this.messages.dropped)
      forget(turnRows, this.turns.dropped)
    }
  }
}

/** A shard that has gone from one member of its cluster to another. */
export interface Takeover {
  /** Epoch ms at which it was seen. */
  readonly at: number
  readonly shard: number
  /** Host and pid; '' for nobody. */
  readonly from: string
  readonly to: string
}

export const takeoverWords = ({ shard, from, to }: Takeover): string =>
  `shard ${shard} went from ${from || 'nobody'} to ${to || 'nobody'}`

/** Returns numbers in order as text: `0-3, 8`. */
export function rangesOf(numbers: readonly number[]): string {
  const ranges: [first: number, last: number][] = []
  for (const number of numbers) {
    const range = ranges.at(-1)
    if (range?.[1] === number - 1) range[1] = number
    else ranges.push([number, number])
  }
  return ranges.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join(', ') || '-'
}

/** Says what of a team over several processes cannot be seen now; '' if nothing is missing. */
export function missingWords(processes: readonly DigestProcess[]): string {
  const gone = processes.filter(({ missing }) => missing.length > 0)
  if (gone.length === 0) return ''
  const each = gone.map(({ name, missing, why = 'it has not said anything yet' }) => {
    const shards = `${missing.length === 1 ? 'shard' : 'shards'} ${missing.join(', ')}`
    return name === '' ? `${shards} (${why})` : `${shards} of ${name} (${why})`
  })
  return `not in view: ${each.join('; ')}`
}

/** Checks for a message that comes into a mailbox: not an answer, and not the original of one to several. */
function isDelivered(type: number): boolean {
  return (type & TO_SEVERAL) === 0 && MESSAGE_TYPES[type & TYPE_BITS] !== 'response'
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '')

const messageOf = (error: unknown): string => textOf((Object(error) as { message?: unknown }).message)

function questionOf({ runId, at, questionId, agent, text, choices, answerBy, ...more }: DigestFact): DigestQuestion {
  const texts = Array.isArray(choices) ? choices.map(textOf) : undefined
  return {
    runId,
    questionId: textOf(questionId),
    agent: textOf(agent),
    text: textOf(text),
    ...(texts && { choices: texts }),
    askedAt: at,
    ...(typeof answerBy === 'number' && { answerBy }),
    ...approvalOf(more),
  }
}

function approvalOf({
  digest,
  by,
  groups,
  quorum,
}: Readonly<Record<string, unknown>>): Pick<DigestQuestion, 'approval'> {
  if (typeof digest !== 'string' || typeof quorum !== 'number') return {}
  const named = Array.isArray(groups) ? groups.map(textOf) : []
  return { approval: { digest, by: textOf(by), groups: named, quorum, agreed: [] } }
}

function forget(rows: number[], dropped: number): void {
  if (rows.length === 0 || rows[0]! >= dropped) return
  const first = rows.findIndex((row) => row >= dropped)
  rows.splice(0, first < 0 ? rows.length : first)
}
