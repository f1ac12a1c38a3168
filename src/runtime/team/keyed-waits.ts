/**
 * Circular waits of requests with a key, which no team sees alone. A request stands on others if its run can go on only
 * when those are answered. Each process says of its own requests on which others they stand, and follows what it hears:
 * a request that stands on itself, and on nothing that could still move, is a deadlock. An edge counts when all turns
 * behind it have confirmed that they only wait, and a circle when each of its edges was found again after the circle.
 */
import { randomUUID } from 'node:crypto'
import { correlationOf, kindOf, lengthOf, limitOf, QUIET } from '../../mailbox/frame.ts'
import type { Scheduler } from '../../shared/clock.ts'
import { DeadlockError, describe } from '../../shared/errors.ts'
import type { Reader } from '../host/journal.ts'
import { isProbe } from '../host/replies.ts'
import type { Alarm, Batch } from '../log/records.ts'
import { BoundedMap } from '../log/run-log.ts'
import { standingNow } from '../observers/stalls.ts'
import type { TurnNode } from '../observers/wait-for-graph.ts'
import type { KeyedRequests, KeyedWait } from './keyed-requests.ts'

/** Time in ms between two looks while a request with a key is under way. */
const LOOK_MS = 200
/** Time in ms after which what another process has said counts no more, if it does not say it again. */
const STALE_MS = 1_500
/** Time in ms that a turn has to say whether it only waits. */
const ANSWER_MS = 100

/** Characters of what is told at once: engines take no long notices. */
const LONGEST_TOLD = 3_600
const MOST_REMEMBERED = 1_024

/** Wait as others are told of it. */
interface Told {
  /** Agent that waits, and agent that it waits for. */
  readonly by: string
  readonly for: string
  readonly shard: number | null
  readonly runId: string
  /** Epoch ms. */
  readonly since: number
}

/** Request, and those that it stands on. */
type Edge = readonly [id: string, on: readonly string[]]

/** Text that a process tells to the others. */
interface Notice {
  readonly from: string
  readonly edges: readonly Edge[]
  readonly waits: Readonly<Record<string, Told>>
}

interface Heard {
  readonly on: readonly string[]
  readonly at: number
  readonly isOwn: boolean
}

interface Found {
  readonly on: readonly string[]
  readonly turns: readonly TurnNode[]
}

/** Team whose requests are looked at, with the answers of its turns. */
export class KeyedTeam implements Reader {
  readonly kinds = ['frames'] as const
  readonly frames = 1 << (QUIET & 31)
  readonly requests: KeyedRequests
  readonly mode: 'break' | 'report' | false
  readonly #watch: KeyedWaits
  readonly #asked = new Map<number, (isQuiet: boolean) => void>()

  constructor(requests: KeyedRequests, mode: 'break' | 'report' | false, watch: KeyedWaits) {
    this.requests = requests
    this.mode = mode
    this.#watch = watch
    watch.teams.add(this)
    requests.supervisor.attach(() => this)
  }

  get isIdle(): boolean {
    return this.#asked.size === 0
  }

  next(batch: Batch): void {
    for (const entry of batch) {
      if (entry.kind !== 'frames') continue
      const { memory, to } = entry
      for (let at = entry.from; at < to; at += lengthOf(memory, at))
        if (kindOf(memory, at) === QUIET) this.#asked.get(correlationOf(memory, at))?.(limitOf(memory, at) === 1)
    }
  }

  close(): void {
    this.#watch.teams.delete(this)
  }

  /** Returns the requests of this team that stand on others, and whose turns have all confirmed that they only wait. */
  async edges(): Promise<Edge[]> {
    const before = this.#found()
    const turns = [...new Map([...before.values()].flatMap(({ turns }) => turns.map((turn) => [keyOf(turn), turn])))]
    const told = new Map(turns.map(([, { agent }]) => [agent.incarnation, agent.incarnation?.told]))
    const quiet = new Set<string>()
    await Promise.all(turns.map(async ([key, turn]) => (await this.#isQuiet(turn)) && quiet.add(key)))
    const stays = (turn: TurnNode) => {
      const { incarnation } = turn.agent
      return (
        quiet.has(keyOf(turn)) &&
        incarnation &&
        told.get(incarnation) === incarnation.told &&
        incarnation.backlog.every(isProbe)
      )
    }
    return [...this.#found()].flatMap(([id, { on, turns: behind }]): Edge[] =>
      before.get(id)?.on.join() === on.join() && behind.every(stays) ? [[id, on]] : [],
    )
  }

  #found(): Map<string, Found> {
    const { served, supervisor, waits } = this.requests
    const found = new Map<string, Found>()
    const runs = [...served.values()].flatMap(({ run }) => run?.state ?? [])
    const standing = waits.size > 0 && runs.length > 0 ? standingNow(supervisor, runs) : undefined
    const ids = new Map([...waits.values()].map(({ id, by, correlation }) => [by.calls.get(correlation), id]))
    for (const { id, run, before } of served.values()) {
      if (before) found.set(id, { on: [before.id], turns: [] })
      const its = run && standing?.get(run.state)
      const on = its?.calls.flatMap((call) => ids.get(call) ?? [])
      if (its && on?.length === its.calls.length) found.set(id, { on: on.sort(), turns: its.turns })
    }
    return found
  }

  /** Asks a turn whether it only waits. */
  #isQuiet({ agent, envelope }: TurnNode): Promise<boolean> {
    const { clock, loop, replies } = this.requests.supervisor
    if (!agent.incarnation?.begun(envelope)) return Promise.resolve(false)
    return new Promise((resolve) => {
      const number = replies.probe(agent, envelope.turn)
      const settle = (isQuiet: boolean) => {
        this.#asked.delete(number)
        late.cancel()
        resolve(isQuiet)
      }
      const late = clock.timer(ANSWER_MS, () => settle(false), 'background')
      this.#asked.set(number, settle)
      loop.wake()
    })
  }
}

const keyOf = ({ agent, envelope }: TurnNode): string => `${agent.index} ${envelope.turn} ${envelope.attempt}`

export class KeyedWaits {
  readonly teams = new Set<KeyedTeam>()
  /** Tells the other processes, if there are any. */
  tell: ((text: string) => void) | undefined
  readonly #clock: Scheduler
  /** Name of this process among the others, if it has told them anything. */
  #name: string | undefined
  readonly #edges = new Map<string, Heard>()
  readonly #waits = new Map<string, Told>()
  /** Circles that were found, by their requests, and when. */
  readonly #circles = new Map<string, number>()
  readonly #reported = new BoundedMap<string, true>(MOST_REMEMBERED)
  #isLooking = false

  constructor(clock: Scheduler) {
    this.#clock = clock
  }

  /** Looks soon, and again as long as a turn of this process waits for a request with a key. */
  look(): void {
    if (this.#isLooking) return
    this.#isLooking = true
    const look = async () => {
      try {
        await this.#look()
      } catch (error) {
        const [team] = this.teams
        const text = 'the waits for requests with a key could not be looked at; they are again soon'
        team?.requests.supervisor.logger.warn({ error: describe(error) }, text)
      }
      this.#isLooking = false
      if ([...this.teams].some(({ requests }) => requests.waits.size > 0)) this.look()
    }
    this.#clock.timer(LOOK_MS, () => void look(), 'background')
  }

  /** Takes what another process has told. */
  hear(text: string): void {
    const notice = noticeIn(text)
    if (!notice || notice.from === this.#name) return
    const { edges, waits } = notice
    const at = this.#clock.monotonic()
    for (const [id, on] of edges) if (!this.#edges.get(id)?.isOwn) this.#edges.set(id, { on, at, isOwn: false })
    for (const [id, told] of Object.entries(waits)) this.#waits.set(id, told)
  }

  async #look(): Promise<void> {
    const own = (await Promise.all([...this.teams].map((team) => team.edges()))).flat()
    const at = this.#clock.monotonic()
    for (const [id, heard] of this.#edges) if (heard.isOwn || at - heard.at > STALE_MS) this.#edges.delete(id)
    for (const [id, on] of own) this.#edges.set(id, { on, at, isOwn: true })
    const named = new Set([...this.#edges].flatMap(([id, { on }]) => [id, ...on]))
    for (const id of this.#waits.keys()) if (!named.has(id)) this.#waits.delete(id)
    const waits = this.#ownWaits.filter(({ id }) => named.has(id)).map(({ id, told }) => [id, told] as const)
    for (const [id, told] of waits) this.#waits.set(id, told)
    if (this.tell) for (const text of this.#textsOf(own, waits)) this.tell(text)
    this.#judge(at)
  }

  /** Yields what is told, in texts that engines take. An edge that is too long is left out: its circle is not found. */
  *#textsOf(edges: readonly Edge[], waits: readonly (readonly [string, Told])[]): Generator<string> {
    this.#name ??= randomUUID()
    const parts = [
      ...edges.map((edge) => ({ edges: [edge], waits: {} })),
      ...waits.map(([id, told]) => ({ edges: [], waits: { [id]: told } })),
    ]
    let notice: Notice = { from: this.#name, edges: [], waits: {} }
    let length = 0
    for (const part of parts) {
      const more = JSON.stringify(part).length
      if (more > LONGEST_TOLD) continue
      if (length + more > LONGEST_TOLD) {
        yield JSON.stringify(notice)
        notice = { from: this.#name, edges: [], waits: {} }
        length = 0
      }
      notice = { ...notice, edges: [...notice.edges, ...part.edges], waits: { ...notice.waits, ...part.waits } }
      length += more
    }
    if (length > 0) yield JSON.stringify(notice)
  }

  get #ownWaits(): { id: string; wait: KeyedWait; team: KeyedTeam; told: Told }[] {
    return [...this.teams].flatMap((team) =>
      [...team.requests.waits.values()].map((wait) => {
        const { id, by, agent, run, since } = wait
        return { id, wait, team, told: { by: by.name, for: agent, shard: team.requests.shard, runId: run.id, since } }
      }),
    )
  }

  #judge(now: number): void {
    const still = new Set<string>()
    for (const { id } of this.#ownWaits) {
      const circle = this.#circleOf(id)
      const key = circle && [...circle].sort().join()
      if (!circle || key === undefined || still.has(key)) continue
      still.add(key)
      const since = this.#circles.get(key)
      if (since === undefined) this.#circles.set(key, now)
      else if ([...this.#behind(id)].every((each) => (this.#edges.get(each)?.at ?? since) > since))
        this.#found(circle, key)
    }
    for (const key of this.#circles.keys()) if (!still.has(key)) this.#circles.delete(key)
  }

  /** Returns what a request stands on, at any depth, with itself. */
  #behind(id: string): Set<string> {
    const behind = new Set([id])
    for (const each of behind) for (const on of this.#edges.get(each)?.on ?? []) behind.add(on)
    return behind
  }

  /** Returns a shortest circle from a request back to itself, if nothing that it stands on can go on. */
  #circleOf(start: string): string[] | undefined {
    for (const id of this.#behind(start)) if (!this.#edges.has(id)) return undefined
    const cameFrom = new Map<string, string>()
    const line = [start]
    for (const id of line)
      for (const on of this.#edges.get(id)!.on) {
        if (on === start) {
          const circle = [id]
          while (circle[0] !== start) circle.unshift(cameFrom.get(circle[0]!)!)
          return circle
        }
        if (cameFrom.has(on)) continue
        cameFrom.set(on, id)
        line.push(on)
      }
    return undefined
  }

  /** Names a circle in the runs of this process, and ends its youngest wait if that is here. */
  #found(circle: readonly string[], key: string): void {
    const all = circle.map((id) => this.#waits.get(id))
    if (all.includes(undefined)) return // its process has not told yet
    const waits = all as Told[]
    const youngest = Math.max(...waits.map(({ since }) => since))
    const victimId = circle.filter((_, at) => waits[at]!.since === youngest).sort()[0]
    const own = this.#ownWaits.filter(({ id, team }) => circle.includes(id) && team.mode !== false)
    const victim = own.find(({ id, team }) => id === victimId && team.mode === 'break')
    if (!this.#reported.has(key)) {
      this.#reported.set(key, true)
      const agent = waits[circle.indexOf(victimId!)]!.by
      for (const { team, wait } of own)
        team.requests.supervisor.journal.record(wait.run, {
          kind: 'alarm',
          ...alarmOf(waits, team.mode === 'break' ? agent : null),
        })
    }
    victim?.wait.reject(errorOf(waits, victim.told))
  }
}

/** Undefined: a process of another version tells it in other words. */
function noticeIn(text: string): Notice | undefined {
  try {
    const notice = JSON.parse(text) as Notice
    return Array.isArray(notice.edges) && typeof notice.waits === 'object' ? notice : undefined
  } catch {
    return undefined
  }
}

const shardOf = ({ shard }: Told): string => (shard === null ? '' : ` in shard ${shard}`)

function alarmOf(waits: readonly Told[], victim: string | null): Alarm {
  const cycle = waits.map(({ by }) => by)
  const round = waits.map((told) => `${told.by}${shardOf(told)}`).join(' -> ')
  return {
    name: 'deadlock',
    agents: cycle,
    title: victim === null ? 'agents wait for each other' : `"${victim}" gives way, so that the others go on`,
    sentence: victim === null ? round : `${round}; ${victim} gives way`,
    fields: {
      cycle,
      tail: [],
      waits: waits.map((told) => ({ agent: told.by, for: [told.for], kind: 'request' })),
      victim,
    },
    details: { shards: waits.flatMap(({ shard }) => shard ?? []).join(', ') },
  }
}

function errorOf(waits: readonly Told[], { by: agent }: Told): DeadlockError {
  const sentences = waits.map((told) => `"${told.by}"${shardOf(told)} waits for the answer of "${told.for}" to a key`)
  const text = `A deadlock: ${sentences.join('; ')}. The wait of "${agent}" was ended so that the others go on. Ask in one order everywhere, or let one of them send what it has before it asks.`
  const shards = waits.map(({ shard }) => shard)
  return new DeadlockError(text, {
    agent,
    cycle: waits.map(({ by }) => by),
    tail: [],
    runIds: waits.map(({ runId }) => runId),
    ...(shards.every((shard) => shard !== null) && { shards }),
  })
}
