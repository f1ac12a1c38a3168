/** Teams whose agents are reloaded: code that a test changes while the team runs. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Test as TapTest } from 'tap'
import {
  type AgentDefinition,
  type AgentRole,
  defineAgent,
  type MultiAgentPattern,
  type MultiAgentPatternOptions,
  type RuntimeEvent,
} from '../../src/index.ts'
import type { Agent } from '../../src/runtime/host/agent.ts'
import type { Supervisor } from '../../src/runtime/supervision/host.ts'
import { LocalThread } from '../../src/runtime/threads/local-thread.ts'
import { MultiAgentPattern as Team } from '../../src/team.ts'
import { type VirtualClock, virtualClock } from '../../src/testing.ts'
import { ask, gate, never, silent } from '../kit/team.ts'

/** A team in the host's thread, on a virtual clock. Each thread of an agent loads what `code` has for it then. */
export class ChangingTeam extends Team<string> {
  readonly clock: VirtualClock
  /** Code of each agent, as its module would have it now. */
  readonly code: Record<string, AgentDefinition>

  constructor(code: Record<string, AgentDefinition>, options: Partial<MultiAgentPatternOptions>, seed: number) {
    const clock = virtualClock({ seed })
    const agents = Object.keys(code).map((name) => ({ name, module: pathToFileURL(`/code/${name}.js`) }))
    const orchestration = { strategy: 'sequential' as const }
    const load = async ({ agent }: { agent: string }) => ({ default: this.code[agent] })
    super({ orchestration, logger: silent, agents, ...options, clock }, { definitions: new Map(), load })
    this.clock = clock
    this.code = code
  }

  get host(): Supervisor {
    return this.supervisor
  }

  agent(agent: string): Agent {
    return this.supervisor.directory.agent(agent)!
  }

  /** Ends the life of an instance, as from outside. */
  crash(agent: string, instance = 0): void {
    const thread = this.agent(agent).instances[instance]!.incarnation?.thread
    if (thread instanceof LocalThread) thread.kill({ code: 1, error: undefined, outside: true })
  }
}

export function changingTeam(
  t: TapTest,
  code: Record<string, AgentDefinition>,
  options: Partial<MultiAgentPatternOptions> = {},
  seed = 1,
): ChangingTeam {
  const team = new ChangingTeam(code, options, seed)
  t.teardown(async () => {
    const closed = team.close()
    await team.clock.runToIdle()
    await closed
  })
  return team
}

/** The same role for the agent of a `ChangingTeam`, with more fields. */
export const roleOf = (name: string, fields: object = {}) => ({
  name,
  module: pathToFileURL(`/code/${name}.js`),
  ...fields,
})

type Hooks = { start?(context: { state: object }): void | Promise<void>; stop?(): void | Promise<void> }

/** Says which version it is. 'wait' lasts until the gate opens, 'hang' for ever. */
export function version(name: string, opened: Promise<void> = Promise.resolve(), more: Hooks = {}) {
  return defineAgent({
    initialState: { handled: 0 },
    async receive({ content }, context) {
      context.setState((state) => {
        state.handled += 1
      })
      if (content === 'wait') await opened
      if (content === 'hang') await never
      return `${name} ${context.state.handled}`
    },
    ...more,
  })
}

/** The same for an agent with several turns at once, or several threads. */
export function stateless(name: string, opened: Promise<void> = Promise.resolve()) {
  return defineAgent({
    async receive({ content }) {
      if (content === 'wait') await opened
      if (content === 'hang') await never
      return name
    },
  })
}

/** Lets the reload go as far as it can. */
export const settle = (team: ChangingTeam) => team.clock.advance(1)

/** A team whose worker has a turn open: its answer is `slow`, and comes when `open` is called. */
export async function teamAtWork(
  t: TapTest,
  options: Partial<MultiAgentPatternOptions> = {},
  codeOf = (opened: Promise<void>): Record<string, AgentDefinition> => ({ worker: version('one', opened) }),
) {
  const { opened, open } = gate()
  const team = changingTeam(t, codeOf(opened), options)
  await team.start()
  const slow = ask(team, 'worker', 'wait')
  await settle(team)
  return { team, slow, open }
}

/** Types of the events of an agent's life, as they come. */
export function incarnationsOf(team: MultiAgentPattern<string>): string[] {
  const seen: string[] = []
  team.events.subscribe((event: RuntimeEvent) => {
    if (event.type === 'agent.crashed' || event.type === 'agent.reloaded') seen.push(`${event.type} ${event.agent}`)
  })
  return seen
}

/** A team on real threads with its supervisor in sight. */
export class HostedTeam extends Team<string> {
  get host(): Supervisor {
    return this.supervisor
  }
}

/** A folder of modules, and a team on real threads whose agents are these modules. */
export function folderOf(t: TapTest, files: Record<string, string | Record<string, string>>) {
  const folder = t.testdir(files)
  return {
    folder,
    write: (name: string, text: string) => writeFileSync(join(folder, name), text),
    module: (name: string) => pathToFileURL(join(folder, name)),
    /** Agents by name: the file of each, and the rest of its role. */
    team(
      agents: Record<string, { file: string } & Omit<AgentRole, 'name' | 'module'>>,
      options: Partial<MultiAgentPatternOptions> = {},
    ) {
      const roles = Object.entries(agents).map(([name, { file, ...role }]) => ({
        name,
        module: pathToFileURL(join(folder, file)),
        ...role,
      }))
      const team = new HostedTeam({
        logger: silent,
        orchestration: { strategy: 'sequential' },
        ...options,
        agents: roles,
      })
      t.teardown(() => team.close())
      return team
    },
  }
}
