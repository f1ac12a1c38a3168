/** Directory of the agents of a team and of its runs, by index and by name. */
import type { Newcomer } from '../../actors/definition/assignment.ts'
import type { AgentStatus } from '../../actors/definition/task.ts'
import { MAX_AGENTS, type TeamMemory } from '../../mailbox/team-memory.ts'
import { ConfigurationError, shown, UnknownAgentError } from '../../shared/errors.ts'
import { nearest } from '../../shared/text.ts'
import type { ThreadFact } from '../log/records.ts'
import { Agent, type HostedSettings } from './agent.ts'
import type { Incarnation } from './incarnation.ts'
import type { RunState } from './run.ts'

export const USER_INDEX = 1
export const ORCHESTRATOR_INDEX = 2

/** An error names that many of the agents that there are. */
const MOST_NAMED = 20

export class AgentDirectory {
  readonly #team: TeamMemory
  readonly #newcomer: (name: string) => Agent | undefined
  /** Agents of the directory by index: the first instance of each. */
  readonly byIndex: Agent[] = []
  readonly actors: Agent[] = []
  /**
   * Instances that have a thread, by index. The list is replaced when one begins or ends, so that a reader keeps its
   * place.
   */
  living: readonly Agent[] = []
  #livingAt = new Map<number, readonly Agent[]>()
  /** Indices that run agents have had and that are free again. */
  readonly #free: number[] = []
  readonly #byName = new Map<string, Agent>()
  /** Places of names that the log of an earlier process has, and the team has not. */
  readonly #vacant = new Map<string, Agent>()
  /** Shortest `queueTimeoutMs` of the agents; undefined if none has one. To be read only. */
  shortestQueueMs: number | undefined
  #names: string | undefined
  /** Number of agents that were added so far. */
  additions = 0

  /** `newcomer` finds an agent that is in the registry but not in the team yet. */
  constructor(team: TeamMemory, newcomer: (name: string) => Agent | undefined = () => undefined) {
    this.#team = team
    this.#newcomer = newcomer
  }

  /**
   * Adds an agent. A team agent's name keeps its index for ever, so that logs and threads that know the index stay
   * right when the name is used again. It also takes the place, and the state, that an earlier process has left for its
   * name. The name of a run agent keeps its index only as long as the run.
   */
  add(name: string, settings: HostedSettings, run?: RunState): Agent {
    const vacant = run ? undefined : this.#vacant.get(name)
    const former = run ? this.#ownOf(run, name) : (this.#byName.get(name) ?? vacant)
    const index = former?.index ?? this.#free.shift() ?? this.byIndex.length
    const agent = new Agent(index, name, settings, run, former)
    if (vacant) agent.state = vacant.state
    return this.#enter(agent)
  }

  /** Puts an agent of a run in the place, with the state, that an earlier process has left for it. */
  rejoin(name: string, settings: HostedSettings, run: RunState, index: number): Agent {
    const former = this.byIndex[index]!
    const agent = new Agent(index, name, settings, run, former)
    agent.state = former.state
    return this.#enter(agent)
  }

  #enter(agent: Agent): Agent {
    const { index, name, run, settings } = agent
    if (agent.index >= this.#team.size)
      throw new ConfigurationError(
        `Agent "${name}" is one too many: a team has up to ${this.#team.size} names in its time, and these are used up. Names that were removed may be used again.`,
        { agent: name, names: this.#team.size },
      )
    this.additions += 1
    this.#place(agent)
    if (run) run.agents.set(name, index)
    else {
      this.#names = undefined
      this.#byName.set(name, agent)
      this.#vacant.delete(name)
    }
    if (settings.queueTimeoutMs !== false)
      this.shortestQueueMs = Math.min(this.shortestQueueMs ?? Number.POSITIVE_INFINITY, settings.queueTimeoutMs)
    const { capacity, bytes, maxMessageBytes } = settings.mailbox
    this.#team.open(agent.index, capacity, bytes, maxMessageBytes)
    return agent
  }

  /** Gives an instance an incarnation, or takes note that it has none any more. */
  setIncarnation(agent: Agent, incarnation: Incarnation | undefined): void {
    if (!agent.incarnation !== !incarnation) {
      const others = this.living.filter((each) => each !== agent)
      this.#setLiving(incarnation ? [...others, agent] : others)
    }
    agent.incarnation = incarnation
    if (incarnation) this.#team.wrote(agent.index) // what it has written before that was not read
  }

  #setLiving(byIndex: Agent[]): void {
    this.living = byIndex.sort((a, b) => a.index - b.index) // whichever thread was ready first
    this.#livingAt = new Map()
    for (const agent of byIndex) this.#livingAt.set(agent.index, [...this.livingAt(agent.index), agent])
  }

  livingAt(index: number): readonly Agent[] {
    return this.#livingAt.get(index) ?? []
  }

  /**
   * Gives the agents of the team the indices that the log of an earlier process has for their names. `ofRuns`: indices
   * of agents that belonged to runs. `free`: those of them that may be given to others.
   */
  reseat(wanted: ReadonlyMap<string, number>, ofRuns: Iterable<number>, free: Iterable<number>): void {
    this.#names = undefined
    const taken = new Set([...wanted.values(), ...ofRuns])
    const nameAt = new Map(Array.from(wanted, ([name, index]) => [index, name]))
    let next = 0
    const byIndex = [...this.byIndex]
    const seats = byIndex.map((agent) => {
      let index = wanted.get(agent.name)
      while (index === undefined) {
        if (!taken.has(next)) index = next
        next += 1
      }
      return { agent, index }
    })
    this.#makeRoom([...taken, ...seats.map(({ index }) => index)].reduce((most, index) => Math.max(most, index + 1), 0))
    for (const { agent, index } of seats) for (const each of agent.instances) each.index = index
    byIndex.sort((a, b) => a.index - b.index)
    this.byIndex.length = 0
    for (const agent of byIndex) {
      while (this.byIndex.length < agent.index) this.#leaveOut(nameAt.get(this.byIndex.length))
      this.byIndex.push(agent)
      const { capacity, bytes, maxMessageBytes } = agent.settings.mailbox
      this.#team.open(agent.index, capacity, bytes, maxMessageBytes)
    }
    for (const index of taken) while (this.byIndex.length <= index) this.#leaveOut(nameAt.get(this.byIndex.length))
    this.#setLiving([...this.living])
    this.#free.push(...free)
    this.actors.splice(
      0,
      this.actors.length,
      ...this.byIndex.flatMap((agent) => (agent.removed ? [] : agent.instances)),
    )
  }

  /** Leaves room for as many further names as there was before the log of an earlier process had some. */
  #makeRoom(names: number): void {
    if (names > MAX_AGENTS)
      throw new ConfigurationError(
        `The durable log has had so many names of agents that ${names} are needed with those of this team, and ${MAX_AGENTS} are possible. Begin another log (stateManagement.path).`,
        { path: 'stateManagement', names, most: MAX_AGENTS },
      )
    const spare = this.#team.size - this.byIndex.length
    for (const { index } of this.byIndex) this.#team.close(index)
    this.#team.grow(Math.min(MAX_AGENTS, names + spare))
  }

  /** Keeps the next index for a name of the log that no agent has any more, or for an agent of a run. */
  #leaveOut(name = ''): void {
    const agent = new Agent(this.byIndex.length, name, this.byIndex[0]!.settings)
    agent.removed = true
    this.byIndex.push(agent)
    if (name !== '') this.#vacant.set(name, agent)
  }

  /** Puts an agent in the place of the one that had its index before. */
  #place(agent: Agent): void {
    const before = this.byIndex[agent.index]
    this.byIndex[agent.index] = agent
    const at = before ? this.actors.indexOf(before) : -1
    if (before && at >= 0) this.actors.splice(at, before.instances.length, ...agent.instances)
    else this.actors.push(...agent.instances) // nobody was there, or only the place of an earlier process
  }

  present(index: number): Agent | undefined {
    const agent = this.byIndex[index]
    return agent?.removed ? undefined : agent
  }

  /** Returns the agent of that name. If no agent has the name now, returns the last one that had it. */
  agent(name: string, run?: RunState): Agent | undefined {
    return (run && this.#ownOf(run, name)) ?? this.#byName.get(name)
  }

  /** Returns the agent of that name. An agent that only the registry knows joins the team. */
  find(name: string, run?: RunState): Agent | undefined {
    return this.agent(name, run) ?? this.#newcomer(name)
  }

  /** Returns the agent of that name, even if it was removed. Throws `UnknownAgentError` if there is none. */
  require(name: string, run?: RunState): Agent {
    const agent = this.find(name, run)
    if (agent?.settings.isAgent) return agent
    throw this.unknown(name, run)
  }

  /** Returns the agent of that name if it was not removed. Throws `UnknownAgentError` if there is none. */
  requirePresent(name: string, run?: RunState): Agent {
    const agent = this.require(name, run)
    if (!agent.removed) return agent
    throw this.unknown(name, run)
  }

  unknown(name: string, run?: RunState): UnknownAgentError {
    const agents = this.agents(run).map((agent) => agent.name)
    const near = typeof name === 'string' ? nearest(name, agents) : undefined // JavaScript callers can pass anything
    const named = agents.slice(0, MOST_NAMED)
    const others = agents.length - named.length
    const all = `${named.join(', ')}${others > 0 ? ` and ${others} others` : ''}`
    return new UnknownAgentError(
      `No agent of this team is named ${shown(name)}${near ? `; did you mean "${near}"?` : `; there are ${all}.`}`,
      { agent: name, agents: named },
    )
  }

  #ownOf(run: RunState, name: string): Agent | undefined {
    const agent = run.agents.size === 0 ? undefined : this.byIndex[run.agents.get(name) ?? -1]
    return agent?.run === run ? agent : undefined // otherwise another agent has the index by now
  }

  /** Returns the present agents of the team, and those that belong to this run alone. */
  agents(run?: RunState): Agent[] {
    return this.byIndex.filter((agent) => agent.settings.isAgent && !agent.removed && (!agent.run || agent.run === run))
  }

  vacate(index: number): void {
    this.#free.push(index)
  }

  name(index: number): string {
    return this.byIndex[index]?.name ?? `#${index}`
  }

  /** Names by index, one a line, for the threads that start now. The same text until an agent joins the team. */
  get names(): string {
    this.#names ??= this.byIndex.map((agent) => (agent.run ? '' : agent.name)).join('\n')
    return this.#names
  }

  /** Returns the agents that have joined the team since it had these names. */
  newcomersTo(names: string): Newcomer[] {
    const now = this.names
    if (now === names) return []
    const before = names.split('\n')
    return now.split('\n').flatMap((name, index) => (name === '' || name === before[index] ? [] : [{ name, index }]))
  }
}

const BY_WORK: readonly AgentStatus[] = [
  'running',
  'waiting',
  'idle',
  'starting',
  'restarting',
  'passivated',
  'failed',
  'stopped',
]

export const busiest = (statuses: readonly AgentStatus[]): AgentStatus =>
  statuses.length === 1 ? statuses[0]! : (BY_WORK.find((status) => statuses.includes(status)) ?? 'idle')

/** Checks whether an instance takes messages: with its thread, or passivated. */
export const isReady = ({ incarnation, passivated }: Agent): boolean =>
  incarnation?.ready === true || passivated !== false

export const sumOf = ({ instances }: Agent, figure: (each: Agent) => number): number =>
  instances.reduce((sum, each) => sum + figure(each), 0)

/** Returns the status of an agent: that of its busiest instance. */
export const statusOf = ({ instances }: Agent): AgentStatus => busiest(instances.map(statusOfOne))

/**
 * Returns the status of one instance. Its thread is the same between turns and within them, so the status follows from
 * its mailbox.
 */
function statusOfOne(agent: Agent): AgentStatus {
  if (agent.status !== 'idle' || agent.mailbox.handed.isEmpty) return agent.status
  return waitsForOthers(agent) ? 'waiting' : 'running'
}

/**
 * Checks whether each turn that an instance has under way waits: for other agents, for a person, for its reader, or,
 * when the person has answered, for the turn that has its place.
 */
export function waitsForOthers(agent: Agent): boolean {
  const calls = [...agent.first.calls.values()].filter(({ isOwnWork }) => !isOwnWork)
  const waiting = new Set([...agent.first.open.values(), ...calls].map(({ turn }) => turn))
  const { incarnation } = agent
  for (const { turn, run } of agent.underWay)
    if (
      !waiting.has(turn) &&
      !incarnation?.parked(run) &&
      !incarnation?.awaitReader.has(turn) &&
      !lacksPlace(agent, turn, run)
    )
      return false
  return true
}

const lacksPlace = (agent: Agent, turn: number, run: RunState): boolean =>
  agent.mailbox.handed.suspended.has(turn) && !agent.mayReturn(run)

/*
 * Owners of threads, and who has spoken last in them: a thread belongs to the caller of the run that began it. One that
 * was begun without a caller, or of which none is known, belongs to nobody.
 */

/** Threads whose owners are kept, beside those in use. */
const MOST = 10_000

export class ThreadOwners {
  /** Facts by thread; the thread that was used last is last. */
  readonly #facts = new Map<string, ThreadFact>()
  readonly #isInUse: (threadId: string) => boolean
  readonly #forgotten: (threadId: string) => void

  /** `isInUse` keeps a thread. `forgotten`: called with each that is not kept, so that nothing of it is left. */
  constructor(isInUse: (threadId: string) => boolean, forgotten: (threadId: string) => void) {
    this.#isInUse = isInUse
    this.#forgotten = forgotten
  }

  get(threadId: string): ThreadFact | undefined {
    return this.#facts.get(threadId)
  }

  /** Returns whom a thread belongs to. One that nobody has begun begins now. */
  begin(threadId: string, caller: string | null): string | null {
    const known = this.#facts.get(threadId) ?? { threadId, owner: caller }
    this.set(known)
    return known.owner
  }

  set({ threadId, owner, speaker }: ThreadFact): void {
    this.#facts.delete(threadId)
    this.#facts.set(threadId, { threadId, owner, ...(speaker !== undefined && { speaker }) })
    if (this.#facts.size > MOST) this.#forgetOldest()
  }

  #forgetOldest(): void {
    for (const oldest of this.#facts.keys()) {
      if (this.#isInUse(oldest)) continue
      this.#facts.delete(oldest)
      return this.#forgotten(oldest)
    }
  }

  all(): Iterable<ThreadFact> {
    return this.#facts.values()
  }
}
