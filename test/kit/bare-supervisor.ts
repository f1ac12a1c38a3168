/** A supervisor with chosen parts alone: no runs of a script, no team around it. */
import { type AgentHandlers, defineAgent, handlersOf } from '../../src/actors/definition/definition.ts'
import type { AgentRole } from '../../src/actors/definition/role.ts'
import type { Logger } from '../../src/actors/definition/tool.ts'
import { errorOf, isFailure } from '../../src/mailbox/codec.ts'
import { ASKS, type Memory, REQUEST, readBody } from '../../src/mailbox/frame.ts'
import { FIXED_NAMES } from '../../src/mailbox/message.ts'
import { type Agent, hostedSettings } from '../../src/runtime/host/agent.ts'
import { ORCHESTRATOR_INDEX } from '../../src/runtime/host/directory.ts'
import type { RunState } from '../../src/runtime/host/run.ts'
import { Redactor } from '../../src/runtime/logging/redactor.ts'
import { type BlackboardScope, settingsFrom, type TeamOptions } from '../../src/runtime/settings/settings.ts'
import { type Part, Supervisor } from '../../src/runtime/supervision/host.ts'
import { LocalThread } from '../../src/runtime/threads/local-thread.ts'
import type { Spawner, Thread, ThreadExit, ThreadTimes } from '../../src/runtime/threads/thread.ts'
import type { Scheduler } from '../../src/shared/clock.ts'
import { virtualClock } from '../../src/testing.ts'
import { type Receive, silent } from './team.ts'

const noSpawner: Spawner = {
  room: () => undefined,
  expect: () => {},
  spawn: () => {
    throw new Error('threads are local here')
  },
  spares: 0,
  close: async () => {},
}

/** Answers no bell, rings none, or does not end when it is told to. */
export type Ailment = 'deaf' | 'mute' | 'stubborn'

interface Setting extends Partial<TeamOptions> {
  roles?: Record<string, Omit<AgentRole, 'name'>>
  /** In place of its own. */
  watch?: (clock: Scheduler) => Scheduler
  blackboard?: BlackboardScope
  maxConcurrentAgents?: number
}

export class BareSupervisor {
  readonly clock = virtualClock()
  readonly host: Supervisor
  readonly run: RunState
  readonly threads = new Map<string, WatchedThread>()
  readonly #handlers = new Map<string, AgentHandlers>()

  constructor(cast: Record<string, Receive>, parts: readonly Part[], options: Setting = {}, logger: Logger = silent) {
    const names = Object.keys(cast)
    const { roles = {}, watch = (clock) => clock, blackboard = false, maxConcurrentAgents, ...rest } = options
    this.host = new Supervisor({
      clock: watch(this.clock),
      logger,
      redactor: new Redactor(),
      spawner: noSpawner,
      provisioning: {
        codeOf: async ({ name }) => ({ module: '', bundled: false, shown: name }),
        toolsOf: async () => ({ host: [], modules: [], names: [] }),
        roomFor: () => undefined,
        threadFor: (agent) => this.#thread(agent),
        expect: () => {},
        roster: () => [],
      },
      maxConcurrentAgents,
      capacity: 64,
      parts,
      blackboard: { scope: blackboard, waitTimeoutMs: 600_000 },
    })
    for (const [name, receive] of Object.entries(cast)) this.#handlers.set(name, handlersOf(defineAgent({ receive }))!)
    const { agents } = settingsFrom(
      { ...rest, agents: names.map((name) => ({ ...roles[name], name })) },
      { modules: new Set(names) },
    )
    for (const name of FIXED_NAMES)
      this.host.directory.add(name, { ...hostedSettings(agents[0]!, 'agents[0]'), isAgent: false })
    for (const agent of agents) this.host.directory.add(agent.name, hostedSettings(agent, 'agents[0]'))
    this.run = this.host.runs.open('run', 'query')
  }

  #thread({ name }: Agent): Thread {
    const handlers = (of: string) => this.#handlers.get(of)!
    const thread = new WatchedThread(new LocalThread({ scheduler: this.clock, handlers }))
    this.threads.set(name, thread)
    return thread
  }

  async start(): Promise<void> {
    const agents = this.host.directory.byIndex.slice(FIXED_NAMES.length)
    await Promise.all(
      agents.map((agent) => Promise.all([this.host.lifecycle.begin(agent), this.host.lifecycle.ready(agent)])),
    )
  }

  /** Asks an agent as the protocol script would. */
  ask(name: string, content = 'go', priority = 0): Promise<string> {
    const { frames, admission, directory } = this.host
    const caller = directory.byIndex[ORCHESTRATOR_INDEX]!
    caller.correlation += 1
    const { memory, bytes } = frames.make({
      kind: REQUEST,
      sender: caller.index,
      recipient: this.host.directory.agent(name)!.index,
      run: this.run.index,
      correlation: caller.correlation,
      content,
      priority,
      flags: ASKS,
    })
    return new Promise((resolve, reject) => {
      this.host.journal.appendOwned(this.run, memory, bytes)
      const settle = (answer: Memory, at: number) =>
        isFailure(answer, at) ? reject(errorOf(answer, at)) : resolve(readBody(answer, at).content)
      admission.message({ sender: caller, run: this.run, memory, at: 0, settle })
      this.host.loop.wake()
    })
  }
}

/** Says that it is a thread, so that it is watched, and can be ill as only a thread can be. */
class WatchedThread implements Thread {
  isolated = true
  readonly warm = false
  readonly ailments = new Set<Ailment>()
  readonly #local: LocalThread
  readonly #exits: ((exit: ThreadExit) => void)[] = []

  constructor(local: LocalThread) {
    this.#local = local
  }

  onWake(listener: () => void): void {
    this.#local.onWake(() => {
      if (!this.ailments.has('mute')) listener()
    })
  }
  onExit(listener: (exit: ThreadExit) => void): void {
    this.#exits.push(listener)
    this.#local.onExit((exit) => {
      for (const told of this.#exits) told(exit)
    })
  }
  onPrint(): void {}
  onOwnPost(): void {}
  givesBytes(): void {}
  eventLoop(): undefined {}
  times: () => ThreadTimes | undefined = () => undefined
  wake(): void {
    if (!this.ailments.has('deaf')) this.#local.wake()
  }
  load: LocalThread['load'] = (assignment) => this.#local.load(assignment)
  start: LocalThread['start'] = (assignment) => this.#local.start(assignment)
  isIdle: LocalThread['isIdle'] = () => this.#local.isIdle()
  stop: LocalThread['stop'] = () => this.#local.stop()
  terminate(): void {
    if (!this.ailments.has('stubborn')) this.#local.terminate()
  }
  /** As `process.exit(0)` in it would. */
  exit(): void {
    this.#local.kill({ code: 0, error: undefined })
  }
}

/** A clock that runs ahead by what `wall` and `monotonic` say. */
export const ahead = (clock: Scheduler, wall: () => number, monotonic = wall): Scheduler => ({
  now: () => clock.now() + wall(),
  monotonic: () => clock.monotonic() + monotonic(),
  random: () => clock.random(),
  sleep: (ms, signal) => clock.sleep(ms, signal),
  hold: () => clock.hold(),
  timer: (ms, task) => clock.timer(ms, task),
  defer: (task) => clock.defer(task),
})
