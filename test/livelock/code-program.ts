/** Programs of code whose verdict is known: who is there, and what the run asks of them. */
import type { AgentRole } from '../../src/actors/definition/role.ts'
import {
  type AgentContext,
  type AgentDefinition,
  type AgentMessage,
  defineAgent,
  type OrchestratorContext,
} from '../../src/index.ts'
import type { MultiAgentPatternOptions } from '../../src/team.ts'
import type { Expected } from './program.ts'

export { loopEnded, loopTold, silent, told } from './program.ts'

export interface CodeProgram {
  expected: Expected
  cast: Readonly<Record<string, AgentDefinition>>
  run(script: OrchestratorContext): Promise<unknown>
  roles?: Readonly<Record<string, Omit<AgentRole, 'name'>>>
  /** What agents are that come later, by name. */
  later?: Readonly<Record<string, AgentDefinition>>
  options?: Partial<MultiAgentPatternOptions>
}

export const script = (
  cast: CodeProgram['cast'],
  run: CodeProgram['run'],
  expected: Expected,
  roles?: CodeProgram['roles'],
): CodeProgram => ({ cast, run, expected, ...(roles && { roles }) })

export const receives = (receive: (message: AgentMessage, context: AgentContext) => unknown): AgentDefinition =>
  defineAgent({ receive: (message, context) => receive(message, context) as Promise<string> })

/** Takes what it gets, and answers nobody. */
export const counter = (): AgentDefinition => receives(() => {})

export async function many(times: number, what: (n: number) => Promise<unknown>): Promise<void> {
  for (let n = 0; n < times; n++) await what(n)
}

export const sum = (numbers: readonly number[]): number => numbers.reduce((all, each) => all + each, 0)
