/** What a simulated team has to keep, checked by what it says: restarts within their intensity, the blackboard, requests. */
import { isDeepStrictEqual } from 'node:util'
import type { AgentMessage, Blackboard, BlackboardEntry } from '../../src/index.ts'
import { bodyBytesOf, HEADER, idOf, lengthOf } from '../../src/mailbox/frame.ts'
import type { OpenWork } from '../../src/runtime/durability/open-work.ts'
import { type LogEntry, SEQ_STEP } from '../../src/runtime/log/records.ts'
import type { Supervisor } from '../../src/runtime/supervision/host.ts'
import { DramatisError, errorData } from '../../src/shared/errors.ts'
import { decoded, encoded } from '../durability/log-entries.ts'

/** Rule 2: an agent restarts so many times within so many ms, then it is stopped; after that it begins anew. */
export class Restarts {
  readonly #max: number
  readonly #withinMs: number
  readonly #now: () => number
  readonly #times = new Map<string, number[]>()
  readonly #poisoned = new Set<string>()
  readonly broken: string[] = []

  constructor(max: number, withinMs: number, now: () => number) {
    this.#max = max
    this.#withinMs = withinMs
    this.#now = now
  }

  next(entry: LogEntry): void {
    // Restarts that a message has caused which is judged poison later do not count.
    if (entry.kind === 'message.dead' && entry.letter.reason === 'poison')
      for (const agent of [entry.letter.message.recipient ?? []].flat()) this.#poisoned.add(agent)
    if (entry.kind !== 'agent.crashed') return
    if ('culprit' in entry.error.details) return // it shared a thread with who was to blame
    const key = `${entry.agent} ${entry.instance ?? ''}`
    if (entry.restartInMs === null) return void this.#times.delete(key)
    const since = this.#now() - this.#withinMs
    const times = [...(this.#times.get(key) ?? []).filter((time) => time > since), this.#now()]
    this.#times.set(key, times)
    if (times.length > this.#max && !this.#poisoned.has(entry.agent))
      this.broken.push(`${entry.agent} has restarted ${times.length} times in ${this.#withinMs} ms`)
  }
}

/** What was said of the blackboards of all runs, by the run's index. */
export class BoardFold {
  readonly #entries = new Map<number, BlackboardEntry[]>()

  next(entry: LogEntry): void {
    if (entry.kind !== 'blackboard') return
    const entries = this.#entries.get(entry.run) ?? []
    this.#entries.set(entry.run, [...entries, entry.entry])
  }

  get size(): number {
    return [...this.#entries.values()].flat().length
  }

  /** All that was written. */
  values(): unknown[] {
    return [...this.#entries.values()].flat().map(({ value }) => value)
  }

  /** Where the blackboard of that run is not what was said of it. */
  async differences(run: number, board: Blackboard | undefined): Promise<string[]> {
    const byKey = grouped(this.#entries.get(run) ?? [], ({ key }) => key)
    const found: string[] = []
    if (byKey.size > 0 && !board) return ['there is no blackboard, and was written to']
    for (const [key, entries] of byKey) {
      if (JSON.stringify(await board!.getHistory(key)) !== JSON.stringify(entries)) found.push(`the history of ${key}`)
      if (JSON.stringify(await board!.read(key)) !== JSON.stringify(entries.at(-1))) found.push(`the value of ${key}`)
      if (entries.some(({ version }, i) => version !== i + 1)) found.push(`the versions of ${key}`)
    }
    return found
  }
}

/** Requests of a history that were answered more than once. */
export function answeredTwice(history: readonly AgentMessage[]): string[] {
  const answered = history.filter(({ type, correlationId }) => type === 'response' && correlationId !== null)
  return [...grouped(answered, ({ correlationId }) => correlationId)]
    .filter(([, answers]) => answers.length > 1)
    .map(([id, answers]) => `request ${id} was answered ${answers.length} times`)
}

function grouped<Key, Value>(values: readonly Value[], keyOf: (value: Value) => Key): Map<Key, Value[]> {
  const groups = new Map<Key, Value[]>()
  for (const value of values) {
    const group = groups.get(keyOf(value))
    if (group) group.push(value)
    else groups.set(keyOf(value), [value])
  }
  return groups
}

/** What the fold of the log and the supervisor itself do not agree about. */
export function unfolded(host: Supervisor, work: OpenWork): string[] {
  const [messages, waits, calls] = [new Set<string>(), new Set<string>(), new Set<string>()]
  for (const agent of host.directory.byIndex) {
    const { index, mailbox, instances } = agent
    const handed = instances.flatMap((each) => [...each.mailbox.handed.all()])
    for (const { memory, at } of [...mailbox.queued(), ...mailbox.pending, ...handed])
      messages.add(`${index} ${idOf(memory, at)}`)
    for (const { correlation, envelope, caller } of agent.open.values())
      waits.add(`${caller.index} ${correlation} ${idOf(envelope.memory, envelope.at)}`)
    for (const correlation of agent.calls.keys()) calls.add(`${index} ${correlation}`)
  }
  for (const { callee, envelope } of host.blocked.all)
    messages.add(`${callee.index} ${idOf(envelope.memory, envelope.at)}`)
  return [
    ...differences(
      'message',
      messages,
      Array.from(work.messages(), ({ recipient, id }) => `${recipient} ${id}`),
    ),
    ...differences(
      'wait',
      waits,
      Array.from(work.waits, ({ caller, correlation, message }) => `${caller} ${correlation} ${message.id}`),
    ),
    ...differences(
      'call',
      calls,
      Array.from(work.calls, ({ caller, correlation }) => `${caller} ${correlation}`),
    ),
  ]
}

function differences(what: string, live: ReadonlySet<string>, folded: readonly string[]): string[] {
  const read = new Set(folded)
  return [
    ...[...live].filter((each) => !read.has(each)).map((each) => `the fold lacks the ${what} ${each}`),
    ...[...read].filter((each) => !live.has(each)).map((each) => `the fold has the ${what} ${each}, which is over`),
  ]
}

/** Entries that are not the same when they have been written as bytes and read again. */
export function lostInBytes(entries: readonly LogEntry[]): string[] {
  const [written, read] = [entries, decoded(encoded(entries))].map((all) => all.flatMap((entry) => momentsOf(entry)))
  if (read!.length !== written!.length) return [`${written!.length} entries were written and ${read!.length} read`]
  return written!.flatMap((entry, i) =>
    isDeepStrictEqual(contentOf(entry), contentOf(read![i]!))
      ? []
      : [`${entry.kind} ${entry.seq} is not what was read`],
  )
}

/** Each frame by itself, without what fills it up: how many stand in one entry may change. */
function momentsOf(entry: LogEntry): LogEntry[] {
  if (entry.kind !== 'frames') return [entry]
  const frames: LogEntry[] = []
  for (let { from, seq } = entry; from < entry.to; from += lengthOf(entry.memory, from), seq += SEQ_STEP)
    frames.push({ ...entry, seq, from, to: from + HEADER + bodyBytesOf(entry.memory, from), count: 1 })
  return frames
}

/** All that an entry says, as data that can be compared. */
export function contentOf(entry: LogEntry): object {
  if (entry.kind === 'frames') {
    const { memory, from, to, ...numbers } = entry
    return { ...numbers, bytes: Buffer.from(memory.u8.subarray(from, to)).toString('hex') }
  }
  const errors = 'error' in entry ? [entry.error] : 'letter' in entry ? entry.letter.errors : []
  const told = errors.map((error) => error instanceof DramatisError && [error.name, errorData(error)])
  return { ...JSON.parse(JSON.stringify(entry)), told: JSON.stringify(told) }
}
