/** A team on the real runtime, under a virtual clock, closed when its test is over; and agents that many tests need. */
import { type AgentDefinition, type AgentRole, defineAgent, type MultiAgentPatternOptions } from '../../src/index.ts'
import { type TestTeam, testTeam, type VirtualClock, virtualClock } from '../../src/testing.ts'

export interface Test {
  teardown(end: () => unknown): unknown
}

/** What each agent is: its code, or its code and the rest of its role. */
export type Cast<Name extends string> = Record<
  Name,
  AgentDefinition | (Omit<AgentRole, 'name'> & { code: AgentDefinition })
>

export type Options<Name extends string> = Partial<Omit<MultiAgentPatternOptions<Name>, 'agents' | 'clock'>> & {
  clock?: VirtualClock
  seed?: number
}

/** Without `orchestration` the agents work in their order. */
export function stage<Name extends string>(
  t: Test,
  cast: Cast<Name>,
  options: Options<NoInfer<Name>> = {},
): TestTeam<Name> {
  const { clock, seed = 1, ...rest } = options
  const agents: AgentRole<Name>[] = []
  const modules: Partial<Record<Name, AgentDefinition>> = {}
  for (const name of Object.keys(cast) as Name[]) {
    const part = cast[name]
    const { code, ...role } = 'code' in part ? part : { code: part }
    agents.push({ ...role, name })
    modules[name] = code
  }
  const orchestration = rest.orchestration ?? { strategy: 'sequential' as const }
  const team = testTeam<Name>({ ...rest, agents, orchestration } as MultiAgentPatternOptions<Name>, {
    clock: clock ?? virtualClock({ seed }),
    modules,
  })
  t.teardown(() => team.close())
  return team
}

/** Answers what it was asked, with its name in front. */
export const echo = defineAgent({ receive: ({ content }, { role }) => `${role.name}: ${content}` })

/** Answers that after a while. */
export const after = (ms: number, reply = 'done') =>
  defineAgent({
    async receive(_message, context) {
      await context.sleep(ms)
      return reply
    },
  })

export const says = (reply: string | { content?: string; structuredData?: unknown }) =>
  defineAgent({ receive: () => reply })

export const throws = (text = 'broken') =>
  defineAgent({
    receive() {
      throw new Error(text)
    },
  })

export const refuses = (reason = 'not mine') =>
  defineAgent({
    receive(_message, context) {
      throw context.refuse(reason)
    },
  })

/** Everything that an async iterable gives. */
export async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = []
  for await (const item of items) list.push(item)
  return list
}
