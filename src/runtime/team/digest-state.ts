/** Digests of a team and of its runs: what happens, in short, for faces that show all of it. */

import { NO_TOKENS } from '../../actors/definition/model.ts'
import { REMOTE } from '../../actors/definition/role.ts'
import { idOf } from '../../mailbox/frame.ts'
import { NOT_YET } from '../../mailbox/mailbox.ts'
import { systemClock } from '../../shared/clock.ts'
import { groupedBy } from '../../shared/values.ts'
import { ORCHESTRATOR_INDEX, statusOf, sumOf } from '../host/directory.ts'
import type { Incarnation } from '../host/incarnation.ts'
import { directoryOf, type RunState } from '../host/run.ts'
import type { HostRecord } from '../log/records.ts'
import type { LimitWait } from '../logging/limit-notices.ts'
import { stuckNow } from '../observers/stalls.ts'
import { type OpenWait, type TurnNode, WaitEdges } from '../observers/wait-for-graph.ts'
import { type EventSource, recordEvent } from '../runs/log-events.ts'
import type { RunBook } from '../runs/runs.ts'
import type { SlowTimes } from '../settings/role-shape.ts'
import type { Supervisor } from '../supervision/host.ts'
import type { OpenQuestionInfo } from '../verbs/questions.ts'
import { DigestFeed, MOST_ROWS } from '../views/digest-feed.ts'
import {
  type Digest,
  type DigestApproval,
  type DigestFact,
  type DigestSnapshot,
  questionInShort,
  type Wait,
} from '../views/digest-line.ts'
import { type Digested, DigestMaker, factOf, mayBeFact } from '../views/digest-maker.ts'
import { doingWords } from '../views/slow.ts'
import type { Tallies } from '../views/tallies.ts'

/** Kinds in which a turn waits for another one, which says more. */
const FOR_OTHERS: ReadonlySet<string> = new Set(['request', 'delegate', 'dependency'])

/** Those that have the places of a limit, out of all that is done now. */
interface Holders {
  /** Key of what has the places: limits with one key have one cause. */
  readonly key: string
  readonly of: 'runs' | 'turns' | 'calls'
  has(doing: Wait): boolean
}

/** Returns the cause in words: `61 of 100 runs: model "gpt-5"`; undefined if nothing is known of it. */
function causeOf({ of, has }: Holders, doings: readonly Wait[]): string | undefined {
  const all = doings.filter(has)
  const own = all.filter(({ kind }) => !FOR_OTHERS.has(kind))
  const idOf = ({ runId, turn, agent }: Wait) => (of === 'runs' ? runId : `${runId} ${agent} ${turn}`)
  const byWords = new Map<string, Set<string>>()
  for (const doing of own.length > 0 ? own : all) {
    const words = doingWords(doing)
    byWords.set(words, (byWords.get(words) ?? new Set()).add(idOf(doing)))
  }
  const [most] = [...byWords].sort(([, one], [, other]) => other.size - one.size)
  return most && `${most[1].size} of ${new Set(all.map(idOf)).size} ${of}: ${most[0]}`
}

function holdersOf({ option, runId, agent, messageId }: LimitWait): Holders {
  const named = /^(?:concurrency|instances) of "(.*)"$/.exec(option)?.[1]
  if (named !== undefined) return { key: option, of: 'turns', has: (doing) => doing.agent === named }
  if (option.endsWith('maxConcurrentRuns')) return { key: option, of: 'runs', has: () => true }
  if (option === 'threads.max') return { key: option, of: 'turns', has: ({ agent: name }) => !isRuntimes(name) }
  if (option === 'threads.tools') return { key: option, of: 'calls', has: ({ kind }) => kind === 'tool' }
  const isOthers = (doing: Wait) =>
    doing.turn !== (messageId ?? null) && !(doing.runId === runId && doing.agent === agent)
  if (option === 'maxParallelToolCalls') {
    const isOwn = (doing: Wait) => !isOthers(doing) && doing.kind === 'tool'
    return { key: `${option} ${runId} ${agent}`, of: 'calls', has: isOwn }
  }
  if (/^(?:models\.|budget\.|rate limit)/.test(option))
    return {
      key: `${option} ${runId} ${agent}`,
      of: 'calls',
      has: (doing) => doing.kind === 'model' && isOthers(doing),
    }
  const isInRun = (doing: Wait) => doing.runId === runId && !isRuntimes(doing.agent) && isOthers(doing)
  return { key: `${option} ${runId} ${agent}`, of: 'turns', has: isInRun }
}

const isRuntimes = (name: string | null) => name?.startsWith('$') ?? true

/*
 * Waits in a team at this moment, as data: what each open turn waits for or does by itself, and turns, runs and calls
 * that wait for a limit.
 */

/** Turns that wait for each other in a circle: nothing but the detector, a deadline or a cancellation ends it. */
export interface WaitCycle {
  /** Each waits for the next one, and the last for the first. */
  agents: string[]
  /** Ids of the messages whose turns these are. */
  turns: string[]
  runIds: string[]
  /** Agents that wait for one of these, directly or through others. */
  tail: string[]
}

/** Time after which a turn is told that does nothing but its own work: most end sooner. */
const OWN_TOLD_MS = 1_000

/** Returns what waits now, the oldest first. Reads the host's own records, and changes nothing. */
export function waitsOf(host: Supervisor): Wait[] {
  const now = host.clock.now()
  return waitsAndWorkOf(host).filter(
    ({ kind, since, slowAfterMs = OWN_TOLD_MS }) =>
      !(kind === 'own' || kind === 'sleep') || now - since >= Math.min(OWN_TOLD_MS, slowAfterMs),
  )
}

/** The same, with what turns have done for so short a time that nobody is told. */
export function waitsAndWorkOf(host: Supervisor): Wait[] {
  const doings = doingsOf(host)
  const causes = new Map<string, string | undefined>()
  const script = host.directory.byIndex[ORCHESTRATOR_INDEX]
  const limits = Array.from(host.limits.waits(), (wait): Wait => {
    const { option, limit, runId = '', agent = null, messageId: turn = null, since, until, trouble } = wait
    if (trouble) return { ...troubleOf(wait), kind: trouble.kind, cause: trouble.words }
    const holders = holdersOf(wait)
    if (!causes.has(holders.key)) causes.set(holders.key, causeOf(holders, doings))
    const cause = causes.get(holders.key)
    const whose = agent === null ? script : host.directory.agent(agent)
    return {
      ...{ runId, agent, turn, for: [option], kind: 'limit', since, limit },
      ...(cause !== undefined && { cause }),
      ...slowIf(true, whose?.settings.supervision.slowMs.queued ?? false),
      ...(until !== undefined && { until }),
    }
  })
  const { ok, lagMs } = host.journal.health
  const log = { ...OF_TEAM, for: [], kind: 'log', since: host.clock.now() - lagMs }
  return [...doings, ...limits, ...(ok ? [] : [log])].sort((a, b) => a.since - b.since)
}

/** A fault of the team as a whole is told at once. */
const OF_TEAM = { runId: '', agent: null, turn: null, slowAfterMs: 0 } as const

const troubleOf = ({ option, agent, since, until }: LimitWait) => ({
  ...OF_TEAM,
  for: agent ? [option, agent] : [option],
  since,
  ...(until !== undefined && { until }),
})

/** Returns the circles that stand now, the shortest first. Reads the host's own records, and changes nothing. */
export function waitCyclesOf(host: Supervisor): WaitCycle[] {
  return stuckNow(host).flatMap(({ cycle, tail, runs }) =>
    cycle.length === 0
      ? []
      : {
          agents: cycle.map(({ agent }) => agent.name),
          turns: cycle.map(({ envelope }) => idOf(envelope.memory, envelope.at)),
          runIds: Array.from(runs, ({ id }) => id),
          tail: tail.map(({ agent }) => agent.name),
        },
  )
}

/** Returns what each open turn does or waits for, and tasks that wait for others. Each turn has an entry. */
export function doingsOf(host: Supervisor): Wait[] {
  const { clock } = host
  const begin = clock.now() - clock.monotonic()
  const edges = new WaitEdges(host)
  const { held, turns } = edges
  const all = [
    ...turns.flatMap((turn) => (turn ? doingsOfTurn(turn, begin, clock.now()) : [])),
    ...Array.from(held.values(), knownWaits).flat(),
  ]
  const awaited = new Set(all.filter(isForAnswer).flatMap(({ runId, for: names }) => names.map(placeIn(runId))))
  const turnsOf = (found: readonly TurnNode[]) => found.map(({ envelope }) => idOf(envelope.memory, envelope.at))
  const stuck = stuckNow(host, edges)
  const inCircle = new Set(stuck.flatMap(({ cycle }) => turnsOf(cycle)))
  const stalled = new Set(stuck.flatMap(({ cycle, turns }) => (cycle.length === 0 ? turnsOf(turns) : [])))
  return all.map((wait): Wait => {
    const { runId, agent, turn, turnSince, loop } = wait
    if (turn === null || turnSince === undefined) return wait
    if (inCircle.has(turn)) return { ...wait, stuck: 'now' }
    const isGrave = loop === 'silent' || stalled.has(turn) || awaited.has(placeIn(runId)(agent ?? ''))
    return isGrave ? { ...wait, stuck: 'once_slow' } : wait
  })
}

/** The script of a protocol waits for all that its run asks. */
const isForAnswer = ({ kind, agent }: Wait) => (kind === 'request' || kind === 'delegate') && !isRuntimes(agent)

const placeIn = (runId: string) => (name: string) => `${runId} ${name}`

/** `begin`: epoch ms at which the monotonic clock stood at 0. */
function doingsOfTurn(turn: TurnNode, begin: number, now: number): Wait[] {
  const { incarnation, settings } = turn.agent
  const { startedAt, turn: number } = turn.envelope
  if (!incarnation?.begun(turn.envelope) || startedAt === NOT_YET) return knownWaits(turn)
  const turnSince = Math.round(begin + startedAt) // both clocks are read at times of their own
  const own = ownWaits(turn, incarnation)
  const known = knownWaits(turn)
  if (known.length + own.length === 0)
    own.push({ ...whose(turn), for: [], kind: 'own', since: Math.max(turnSince, incarnation.doings.stirredAt(number)) })
  const { slowMs } = settings.supervision
  const toldMs = (kind: string) => Math.min(OWN_TOLD_MS, slowTimeOf(kind, slowMs) || OWN_TOLD_MS)
  const isTold = own.some(({ kind, since }) => kind !== 'sleep' && now - since >= toldMs(kind))
  const loop = isTold ? incarnation.loop(now) : undefined
  return [...known, ...own].map((wait) => {
    const slowAfterMs = wait.slowAfterMs ?? slowTimeOf(wait.kind, slowMs)
    const isOwn = loop && own.includes(wait) && wait.kind !== 'sleep'
    return {
      ...wait,
      turnSince,
      ...(slowAfterMs !== false && { slowAfterMs }),
      ...(isOwn && { loop }),
    }
  })
}

function knownWaits(turn: TurnNode): Wait[] {
  return Array.from(groupedBy(turn.waits, kindOf), ([kind, waits]) => ({
    ...whose(turn),
    for: [...new Set(waits.flatMap(subjectOf))],
    kind,
    since: Math.min(...waits.map(({ since }) => since)),
    // An agent that does not come to the message says nothing of itself that could be slow.
    ...slowIf(
      waits.some(({ request }) => request?.envelope.begunAt === NOT_YET),
      turn.agent.settings.supervision.slowMs.queued,
    ),
  }))
}

const slowIf = (isSlow: boolean, ms: number | false) => (isSlow && ms !== false ? { slowAfterMs: ms } : {})

function ownWaits(turn: TurnNode, { doings }: Incarnation): Wait[] {
  return Array.from(
    groupedBy(doings.openIn(turn.envelope.turn), ({ kind }) => kind),
    ([kind, all]) => ({
      ...whose(turn),
      for: [...new Set(all.flatMap(({ name }) => name || []))],
      kind,
      since: Math.min(...all.map(({ since }) => since)),
    }),
  )
}

const whose = ({ agent, envelope }: TurnNode) => ({
  runId: envelope.run.id,
  agent: agent.name,
  turn: idOf(envelope.memory, envelope.at),
})

/** Kinds that are never slow by themselves: other turns, or people, are what takes long. */
const NEVER_SLOW: ReadonlySet<string> = new Set(['ask', 'approve', 'sleep', 'request', 'delegate', 'dependency'])

function slowTimeOf(kind: string, times: SlowTimes): number | false {
  if (NEVER_SLOW.has(kind)) return false
  return kind === 'step' || kind === 'tool' || kind === 'model' ? times[kind] : times.turn
}

/** Calls of verbs are in the graph as waits for somebody outside, unless agents alone can end them. */
const kindOf = ({ call, kind }: OpenWait): string => {
  if (!call || call.waitsFor) return kind
  return call.ofPerson && (call.verb === 'tool' || call.verb === REMOTE) ? 'ask' : call.verb
}

const subjectOf = (wait: OpenWait): string | string[] => {
  if (kindOf(wait) === 'ask') return []
  return wait.call && !wait.call.waitsFor ? (wait.call.subject ?? []) : wait.for || []
}

interface Needs {
  readonly supervisor: Supervisor
  readonly runs: RunBook
  readonly tallies: Tallies
  questions(): readonly OpenQuestionInfo[]
}

/** Time that a digest of a long run takes before others have a turn. */
const SLICE_MS = 5

export function teamDigest(needs: Needs): DigestFeed {
  const { supervisor, runs } = needs
  const { clock, directory, journal } = supervisor
  // Once for all makers: V8 compiles what calls a function for that function alone.
  const digested = digestedFrom(supervisor, runs.host)
  return new DigestFeed({
    records$: journal.records$,
    maker: () => new DigestMaker(digested),
    settle: () => journal.tell(),
    snapshot: () => snapshotOf(needs),
    *agents() {
      for (const agent of directory.agents()) yield figuresOf(agent)
    },
    waits: () => supervisor.redactor.data(waitsOf(supervisor)),
    deadLetters: () => journal.deadLetters.length,
    now: () => clock.now(),
    seq: () => journal.seq,
  })
}

/** Yields the digest of a run until now, from its beginning or from the oldest entry that its log has. */
export async function* runDigest(supervisor: Supervisor, runs: RunBook, run: RunState): AsyncGenerator<Digest> {
  const source = {
    ...directoryOf(run, runs.host),
    epochOf: (index: number) => runs.host.epochOf(index),
    resultOf: () => runs.host.resultOf(run.id),
  }
  const maker = new DigestMaker(digestedFrom(supervisor, source))
  let since = systemClock.monotonic()
  for (const entry of run.log.entries(-1, run.log.length)) {
    maker.see(entry)
    if (maker.rows < MOST_ROWS) continue
    const line = maker.take()
    if (line) yield line
    if (systemClock.monotonic() - since < SLICE_MS) continue
    await new Promise<void>((resolve) => systemClock.defer(resolve))
    since = systemClock.monotonic()
  }
  const line = maker.take()
  if (line) yield line
}

function digestedFrom({ redactor }: Supervisor, source: EventSource): Digested {
  const shown = (text: string) => redactor.text(text)
  const fact = (record: HostRecord): DigestFact | undefined => {
    if (!mayBeFact(record)) return undefined
    if (record.kind === 'agent.ready' && record.woken) return undefined // comes and goes with messages
    if (record.kind === 'agent.exited' && record.how === 'passivated') return undefined
    const event = recordEvent(record, source)
    return event && factOf(event, shown)
  }
  return {
    name: (index) => source.name(index),
    runId: (index) => source.runId(index),
    factOf: fact,
    shown,
  }
}

const figuresOf = (agent: Parameters<typeof statusOf>[0]) => ({
  name: agent.name,
  status: statusOf(agent),
  queued: agent.mailbox.waiting + agent.mailbox.pending.length,
  inFlight: agent.mailbox.underWay,
  restarts: sumOf(agent, ({ restarts }) => restarts),
})

function snapshotOf({ supervisor, runs, tallies, questions }: Needs): DigestSnapshot {
  const { directory, journal, redactor } = supervisor
  const open = runs.list().filter(({ isSettled, listed }) => listed && !isSettled)
  return redactor.data({
    log: journal.name ?? null,
    agents: directory.agents().map((agent) => {
      const { turns, failedTurns, toolCalls } = tallies.of(agent)
      return {
        ...figuresOf(agent),
        usage: { ...NO_TOKENS, ...agent.spent },
        turns: turns.count,
        failedTurns,
        toolCalls,
      }
    }),
    runs: open.map(({ id, query, status, startedAt, state: { threadId = null } }) => ({
      id,
      query: query.slice(0, LONGEST_TEXT),
      status,
      startedAt,
      threadId,
    })),
    questions: questions().map(({ runId, questionId, agent, text, choices, askedAt, answerBy, ...more }) => ({
      runId,
      questionId,
      agent,
      text: questionInShort(text),
      ...(choices && { choices }),
      askedAt,
      ...(answerBy !== null && { answerBy }),
      ...approvalOf(more),
    })),
    waits: waitsOf(supervisor),
    deadLetters: journal.deadLetters.length,
  })
}

type Policy = Pick<OpenQuestionInfo, 'digest' | 'by' | 'groups' | 'quorum' | 'agreed'>

function approvalOf({ digest, by, groups, quorum, agreed = [] }: Policy): { approval?: DigestApproval } {
  if (digest === undefined || by === undefined || !groups || quorum === undefined) return {}
  return { approval: { digest, by, groups: [...groups], quorum, agreed: agreed.map(({ id }) => id) } }
}

const LONGEST_TEXT = 2_000
