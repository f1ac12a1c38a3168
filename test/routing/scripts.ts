/** A team whose script asks where tasks go, and what it was told. */
import type { AgentDefinition, AgentRole, MultiAgentResult, OrchestratorContext } from '../../src/index.ts'
import type { TestTeam } from '../../src/testing.ts'
import { echo, type Options, stage, type Test } from '../team/stage.ts'

type Part = Omit<AgentRole, 'name'> & { code?: AgentDefinition }

export type Script = (orchestrator: OrchestratorContext) => Promise<unknown>

/** The team, with an agent that echoes for each role without code. */
export function routing(
  t: Test,
  roles: Record<string, Part>,
  ask: Script,
  options: Options<string> = {},
): TestTeam<string> {
  const cast = Object.fromEntries(Object.entries(roles).map(([name, role]) => [name, { code: echo, ...role }]))
  return stage(t, cast, {
    ...options,
    orchestration: {
      strategy: 'custom',
      run: async (orchestrator) => JSON.stringify((await ask(orchestrator)) ?? null),
    },
  })
}

/** What the script's answer was, as data; and the result of its run. */
export async function told(
  t: Test,
  roles: Record<string, Part>,
  ask: Script,
  options: Options<string> = {},
): Promise<{ answer: unknown; result: MultiAgentResult }> {
  const team = routing(t, roles, ask, options)
  const pending = team.execute('q')
  await team.clock.advance(1_000)
  const result = await pending
  if (!result.success) throw result.error
  return { answer: JSON.parse(result.finalOutput), result }
}

/** The last choice in the trace. */
export const lastChoice = ({ orchestrationTrace }: MultiAgentResult) => orchestrationTrace.decisions.at(-1)
