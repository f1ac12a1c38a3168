/** Members of the team: the agents that it was made with, and those that join and leave while it runs. */
import { isDeepStrictEqual } from 'node:util'
import type { AgentType, SpawnRole } from '../../actors/definition/context.ts'
import type { AgentRole } from '../../actors/definition/role.ts'
import { FIXED_NAMES, ORCHESTRATOR, USER } from '../../mailbox/message.ts'
import { AgentTerminatedError, ConfigurationError, describe, TeamOverloadedError } from '../../shared/errors.ts'
import type { MadeAgents } from '../durability/team-facts.ts'
import { type Agent, fixedCell, hostedSettings } from '../host/agent.ts'
import { grant, refuseBeyond } from '../host/delegation.ts'
import { statusOf } from '../host/directory.ts'
import type { RunState } from '../host/run.ts'
import type { JoinedAgent, Unrecorded } from '../log/records.ts'
import type { AgentRegistry } from '../settings/options.ts'
import { spawnShape, typeShape } from '../settings/role-shape.ts'
import type { AgentSettings, TeamSettings } from '../settings/settings.ts'
import type { Supervisor } from '../supervision/host.ts'
import { type ReloadOptions, Reloads, reloadOptions } from '../supervision/reloads.ts'
import type { HostCaller } from '../verbs/calls.ts'
import { type AgentInstance, type AgentInstanceTeam, agentInstance } from './agent-instance.ts'
import { assertReloadable, type TeamKit } from './provision.ts'

/*
 * Adds agents of the registry that the team does not have. They join when a message or task names them, or on `reload`.
 */

/** Result of reading the registry again, by the agents' names. */
export interface Reloaded {
  /** Agents that have joined the team. */
  added: string[]
  /** Agents whose delegation targets were updated from the registry. */
  regranted: string[]
  /**
   * Agents whose other settings have changed or that left the registry. This takes effect when the team is made anew.
   */
  outdated: string[]
}

export class Newcomers {
  readonly #supervisor: Supervisor
  readonly #registry: AgentRegistry
  readonly #roster: Roster
  readonly #begin: (agent: Agent) => Promise<void>
  #roles: readonly AgentRole[]
  #told: unknown

  /** `begin`: starts the agent's thread, if the team has started. An agent that cannot start leaves again. */
  constructor(supervisor: Supervisor, registry: AgentRegistry, roster: Roster, begin: (agent: Agent) => Promise<void>) {
    this.#supervisor = supervisor
    this.#registry = registry
    this.#roster = roster
    this.#begin = begin
    this.#roles = registry.loaded
  }

  /**
   * Returns the agent of that name, which a caller has asked for, if the registry has it by now. If the registry cannot
   * be read, it adds no agent and the error is logged once.
   */
  find(name: string): Agent | undefined {
    try {
      const roles = this.#registry.read()
      if (roles === this.#roles || !roles.some((role) => role.name === name)) return undefined
      const { begun, failures } = this.#takeIn(roles)
      for (const start of begun) start.catch((error: unknown) => this.#tell(error))
      for (const error of failures) this.#tell(error)
    } catch (error) {
      if (error !== this.#told) this.#tell(error)
      this.#told = error
    }
    return this.#supervisor.directory.agent(name)
  }

  #tell(error: unknown): void {
    this.#supervisor.logger.error({ error: describe(error) }, 'an agent of the registry could not join the team')
  }

  /**
   * Adds agents that the team does not have, and updates the delegation graph. Rejects with the first error that kept
   * an agent from joining.
   */
  async reload(): Promise<Reloaded> {
    const roles = this.#registry.read()
    await Promise.all(roles.map(({ name }) => this.#roster.left(name)))
    const { reloaded, begun, failures } = this.#takeIn(roles, 'again')
    const starts = await Promise.allSettled(begun)
    for (const start of starts) if (start.status === 'rejected') failures.push(start.reason)
    if (failures.length > 0) throw failures[0]
    return reloaded
  }

  /** Adds new agents and compares the others. `again`: agents that were removed from the team join again. */
  #takeIn(roles: readonly AgentRole[], again?: 'again') {
    const before = new Map(this.#roles.map((role) => [role.name, role]))
    this.#roles = roles
    const reloaded: Reloaded = { added: [], regranted: [], outdated: [] }
    const begun: Promise<void>[] = []
    const failures: unknown[] = []
    const names = roles.map(({ name }) => name)
    for (const role of roles) {
      const agent = this.#supervisor.directory.agent(role.name)
      if (agent && !agent.removed) this.#compare(agent, before.get(role.name), role, reloaded)
      else if (!agent || again)
        try {
          begun.push(this.#begin(this.#roster.add(role, names)))
          reloaded.added.push(role.name)
        } catch (error) {
          failures.push(error)
        }
    }
    reloaded.outdated.push(...[...before.keys()].filter((name) => !names.includes(name)))
    return { reloaded, begun, failures }
  }

  #compare(agent: Agent, before: AgentRole | undefined, now: AgentRole, { regranted, outdated }: Reloaded): void {
    const { canDelegateTo: taken, ...old } = before ?? { name: now.name, canDelegateTo: now.canDelegateTo }
    const { canDelegateTo, ...rest } = now
    if (!isDeepStrictEqual(taken, canDelegateTo)) {
      grant(agent, canDelegateTo)
      regranted.push(now.name)
    }
    if (!isDeepStrictEqual(old, rest)) outdated.push(now.name)
  }

  /** Saves the type that an agent defines once an agent of it has started. `joins`: called when it has joined. */
  async define({ agent: by, run }: HostCaller, given: object, joins: (agent: Agent) => void): Promise<string> {
    typeShape(given, 'type')
    const type = given as AgentType
    const { canDelegateTo = [] } = type
    refuseBeyond(
      by,
      canDelegateTo.map((name) => this.#known(name, run)),
    )
    const maker = by.settings.isAgent && !by.run ? by.name : null
    const role = this.#registry.check(type, maker)
    const agent = this.#roster.add(role)
    joins(agent)
    await this.#begin(agent)
    try {
      await this.#supervisor.journal.written()
      this.#registry.save(type, maker)
    } catch (error) {
      await this.#roster.dismiss(agent)
      throw error
    }
    this.#takeIn(this.#registry.read())
    const own = by.settings.info.canDelegateTo
    if (own && !own.includes(agent.name)) grant(by, [...own, agent.name]) // the registry does not know who made it
    return agent.name
  }

  #known(name: string, run: RunState): Agent {
    const agent = this.#supervisor.directory.agent(name, run)
    if (agent?.settings.isAgent && !agent.removed) return agent
    throw this.#supervisor.directory.unknown(name, run)
  }
}

export class Roster implements MadeAgents {
  readonly #supervisor: Supervisor
  readonly #settings: TeamSettings
  readonly #team: AgentInstanceTeam
  readonly #reloads: Reloads
  readonly #instances = new Map<string, AgentInstance>()
  /** Agents whose removal is under way. Until it is done no other agent can take the name. */
  readonly #leaving = new Map<string, Promise<void>>()

  /** Agents that agents have made for the team, by index. One that the team cannot have now may come back later. */
  readonly #made = new Map<number, JoinedAgent>()
  /** Names of agents by the calls that have made them, in an earlier process. */
  readonly #byCall = new Map<string, string>()

  constructor(supervisor: Supervisor, settings: TeamSettings, team: AgentInstanceTeam) {
    this.#supervisor = supervisor
    this.#settings = settings
    this.#team = team
    this.#reloads = new Reloads(supervisor)
    supervisor.attach(this.#reloads.part)
    for (const name of FIXED_NAMES) supervisor.directory.add(name, fixedCell(name, settings))
    for (const [at, agent] of settings.agents.entries()) this.#enter(agent, `agents[${at}]`)
  }

  get(name: string): AgentInstance | undefined {
    if (!this.#supervisor.directory.agent(name)) this.#supervisor.directory.find(name)
    return this.#instances.get(name)
  }

  list(): AgentInstance[] {
    return [...this.#instances.values()]
  }

  #enter(settings: AgentSettings, option: string): Agent {
    const agent = this.#supervisor.directory.add(settings.name, hostedSettings(settings, option))
    this.#supervisor.journal.keep(undefined, { kind: 'name', index: agent.index, name: agent.name })
    this.#instances.set(settings.name, agentInstance(agent, settings.role, this.#supervisor, this.#team))
    return agent
  }

  async left(name: unknown, run?: RunState): Promise<void> {
    if (typeof name !== 'string') return // such a role is refused
    await this.#leaving.get(keyOf(name, run))
  }

  /** Adds an agent, which takes messages from now on; its role may name agents in `expected`. `begin` starts it. */
  add(role: AgentRole, expected: readonly string[] = []): Agent {
    const everybody = this.#supervisor.directory.byIndex.filter(({ settings, removed }) => settings.isAgent && !removed)
    const agent = this.#enter(this.#settings.newcomer(role, 'role', namesOf(everybody), expected), 'role')
    this.#introduce(agent)
    return agent
  }

  /** Starts the thread of an agent that was added, unless the start of the team has. One that cannot leaves again. */
  async begin(agent: Agent): Promise<void> {
    for (const each of agent.instances) if (each.beginnings === 0) void this.#supervisor.lifecycle.begin(each)
    await this.#started(agent)
  }

  async #started(agent: Agent): Promise<void> {
    const { lifecycle } = this.#supervisor
    try {
      await Promise.all(agent.instances.map((each) => lifecycle.ready(each)))
    } catch (error) {
      if (!agent.removed) await this.dismiss(agent)
      throw error
    }
  }

  async spawn({ run, callId }: HostCaller, given: object): Promise<string> {
    spawnShape(given, 'role')
    const { lifetime = 'run', ...role } = given as SpawnRole
    const own = lifetime === 'run' ? run : undefined
    await this.left(role.name, own)
    return this.#counted(run, callId, own, async () => {
      const agent = own ? this.#addTo(own, role) : this.add(role)
      const joined = { index: agent.index, name: agent.name, role, by: callId }
      if (!agent.run) this.#made.set(agent.index, joined)
      this.#supervisor.journal.keep(agent.run, { kind: 'agent.joined', ...joined })
      await this.begin(agent)
      return agent.name
    })
  }

  /** Returns the agent that a call has made in an earlier process, which died before it had answered. */
  #madeBy(callId: string, run: RunState | undefined): Agent | undefined {
    const name = this.#byCall.get(callId)
    const agent = name === undefined ? undefined : this.#supervisor.directory.find(name, run)
    return agent?.removed ? undefined : agent
  }

  async define(caller: HostCaller, type: object, newcomers: Newcomers | undefined): Promise<string> {
    if (!newcomers) throw noRegistry('context.defineAgent')
    const { run, callId } = caller
    await this.left('name' in type ? type.name : undefined)
    return this.#counted(run, callId, undefined, () =>
      newcomers.define(caller, type, ({ index, name }) =>
        this.#supervisor.journal.keep(run, { kind: 'agent.joined', index, name, role: null, by: callId }),
      ),
    )
  }

  // ---- agents of an earlier process

  rejoin(run: RunState | undefined, agent: JoinedAgent): Agent | undefined {
    const { index, name, role, by } = agent
    this.#byCall.set(by, name)
    if (!role) return undefined // the registry has it
    if (!run) this.#made.set(index, agent)
    const settings = this.#settingsOf(run, role)
    if (!run) return this.#enter(settings, 'role')
    const joined = this.#supervisor.directory.rejoin(name, hostedSettings(settings, 'role'), run, index)
    this.#introduce(joined)
    return joined
  }

  assertFits(run: RunState | undefined, { role }: JoinedAgent): void {
    if (role) this.#settingsOf(run, role)
  }

  /** Returns the settings of an agent that was made earlier. Agents that its role names may have left since. */
  #settingsOf(run: RunState | undefined, role: AgentRole): AgentSettings {
    const { canDelegateTo = [], canHandoffTo = [], sharedWith = [], escalateTo } = role
    const expected = [
      ...canDelegateTo,
      ...canHandoffTo,
      ...sharedWith,
      ...(escalateTo === undefined ? [] : [escalateTo]),
    ]
    return this.#settings.newcomer(role, 'role', namesOf(this.#supervisor.directory.agents(run)), expected)
  }

  *facts(): Iterable<Extract<Unrecorded, { kind: 'agent.joined' }>> {
    for (const agent of this.#made.values()) yield { kind: 'agent.joined', ...agent }
  }

  /**
   * Makes an agent, unless the call has made it in an earlier process, and counts it against the run's limit, unless
   * that fails.
   */
  async #counted(
    run: RunState,
    callId: string,
    of: RunState | undefined,
    make: () => Promise<string>,
  ): Promise<string> {
    run.ended.throwIfAborted() // the run is over
    const limit = this.#settings.maxSpawnedAgents
    if (run.spawned >= limit)
      throw new TeamOverloadedError(
        `Run "${run.id}" has made ${run.spawned} agents, and maxSpawnedAgents (${limit}) allows no more. Give their work to those that there are, or raise maxSpawnedAgents.`,
        { runId: run.id, spawned: run.spawned, option: 'maxSpawnedAgents', limit },
      )
    run.spawned += 1
    try {
      const before = this.#madeBy(callId, of)
      if (before) await this.#started(before)
      return before?.name ?? (await make())
    } catch (error) {
      run.spawned -= 1
      throw error
    }
  }

  #addTo(run: RunState, role: AgentRole): Agent {
    const settings = this.#settings.newcomer(role, 'role', namesOf(this.#supervisor.directory.agents(run)))
    const agent = this.#supervisor.directory.add(settings.name, hostedSettings(settings, 'role'), run)
    this.#supervisor.journal.keep(run, { kind: 'name', index: agent.index, name: agent.name })
    this.#introduce(agent)
    return agent
  }

  /** Rules 8 and 12: an orderly stop; what waits becomes dead letters, and who asked is told. */
  remove(name: string): Promise<void> {
    return this.dismiss(this.present(name))
  }

  async dismiss(agent: Agent): Promise<void> {
    if (!agent.run) this.#instances.delete(agent.name)
    const leaving = this.#leave(agent)
    this.#leaving.set(keyOf(agent.name, agent.run), leaving)
    this.#tellScripts()
    await leaving
  }

  async #leave(agent: Agent): Promise<void> {
    const { name, run } = agent
    this.#forget(agent)
    await this.#supervisor.lifecycle.remove(
      agent,
      new AgentTerminatedError(`Agent "${name}" was removed from the team.`, { agent: name }),
    )
    this.#forget(agent) // again, since its last turn may have stored state
    this.#supervisor.journal.keep(run, { kind: 'agent.left', index: agent.index })
    this.#leaving.delete(keyOf(name, run))
  }

  #forget({ index, instances }: Agent): void {
    this.#made.delete(index)
    for (const each of instances) each.state = undefined
    this.#supervisor.sharedStates.forget(index)
    for (const run of this.#supervisor.runs.values()) run.forgetAgent(index)
    this.#supervisor.agentStates.conversations.forget(index)
  }

  /**
   * Announces a new agent to all running threads, or, for an agent of a run, to those that know the run. Threads that
   * start later have the name from the start.
   */
  #introduce({ name, index, run }: Agent): void {
    const { directory, frames, replies } = this.#supervisor
    const about = run?.index ?? 0
    for (const agent of directory.actors)
      if (agent.incarnation && (about === 0 || agent.incarnation.announced.has(about)))
        replies.reply(agent, frames.teamNotice(about, { newcomer: { name, index } }))
    this.#tellScripts()
  }

  #tellScripts(): void {
    const { directory, frames, provisioning, replies, runs } = this.#supervisor
    for (const agent of directory.byIndex) {
      if (agent.settings.isAgent || !agent.incarnation?.thread.isolated) continue
      for (const index of agent.incarnation.announced)
        if (runs.has(index))
          replies.reply(agent, frames.teamNotice(index, { roster: provisioning.roster(runs.get(index)) }))
    }
  }

  async restart(name: string): Promise<void> {
    const { lifecycle } = this.#supervisor
    const agent = this.present(name)
    const stopped = agent.instances.filter((each) => each.stopped)
    if (stopped.length === 0) {
      const status = statusOf(agent)
      const text = `Agent "${name}" is not stopped (it is ${status}); restartAgent begins again with one that was stopped for good.`
      throw new ConfigurationError(text, { path: 'name', agent: name, got: status, accepted: 'failed' })
    }
    await Promise.all(stopped.flatMap((each) => [lifecycle.revive(each), lifecycle.ready(each)]))
  }

  /** Throws `UnknownAgentError`, and `ConfigurationError` for wrong options and for an agent without code to load. */
  reloader(name: string, options: ReloadOptions, kit: TeamKit | undefined): () => Promise<void> {
    reloadOptions(options, '')
    const agent = this.present(name)
    assertReloadable(agent, kit)
    return () => this.#reloads.reload(agent, options)
  }

  delegator(name: string): Agent {
    return name === USER || name === ORCHESTRATOR ? this.#supervisor.directory.agent(name)! : this.present(name)
  }

  present(name: string): Agent {
    return this.#supervisor.directory.requirePresent(name)
  }
}

/** Returns the error for a team without a registry. `asked`: the operation that needs one. */
export const noRegistry = (asked: string) =>
  new ConfigurationError(
    `${asked}: this team has no registry. Make it with loadTeam from an agents.yaml, or give the option registry.`,
    { path: 'registry' },
  )

const namesOf = (agents: readonly Agent[]) => agents.map(({ name }) => name)

/** Names are unique in the team, and in each run. */
const keyOf = (name: string, run: RunState | undefined) => `${run?.index ?? 0} ${name}`
