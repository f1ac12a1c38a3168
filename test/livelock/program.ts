/** Programs whose verdict is known: what is played, what the detector says of it, and how it ends. */
import { z } from 'zod'
import { textOf } from '../../src/actors/definition/content.ts'
import type { ModelMessage, ModelRequest } from '../../src/actors/definition/model.ts'
import type { AgentRole } from '../../src/actors/definition/role.ts'
import { defineTool, type MultiAgentResult, type RuntimeEvent, type Tool } from '../../src/index.ts'
import type { MultiAgentPatternOptions } from '../../src/team.ts'
import { type Answer, calls } from '../models/fake-model.ts'

/**
 * Of what comes to its end by itself: `silent`, nobody is told; `told`, somebody is, and it goes on. Of what does not: `told`, and
 * something else ends it; `ended`, the detector does; `missed`, nobody sees it.
 */
export type Expected =
  | { healthy: true; verdict: 'silent' | 'told' }
  | { healthy: false; verdict: 'told' | 'ended' | 'missed' }

export const silent: Expected = { healthy: true, verdict: 'silent' }
export const told: Expected = { healthy: true, verdict: 'told' }
export const loopTold: Expected = { healthy: false, verdict: 'told' }
export const loopEnded: Expected = { healthy: false, verdict: 'ended' }
export const loopMissed: Expected = { healthy: false, verdict: 'missed' }

/** A team of models. `says`: what one answers, after so many answers of its own, to what it was told last. */
export interface ModelProgram {
  expected: Expected
  says(own: number, last: string, request: ModelRequest): Answer
  roles?: AgentRole[]
  tools?: Tool[]
  options?: Partial<MultiAgentPatternOptions>
}

export const DONE = 'The answer is done.'

/** Of one role that has these tools, and so many rounds that nothing but the detector ends it soon. */
export const alone = (tools: Tool[], says: ModelProgram['says'], expected: Expected): ModelProgram => ({
  expected,
  says,
  tools,
})

export const MANY_ROUNDS = 150

/** The roles of a program: one alone, where it says nothing of them. */
export const rolesOf = ({ roles, tools }: ModelProgram): AgentRole[] => {
  const names = (tools ?? []).map((tool) => tool)
  return roles ?? [{ name: 'ann', systemPrompt: 'Work.', maxRounds: MANY_ROUNDS, tools: names }]
}

/** How often the model has answered in that conversation. */
export const answersIn = (messages: readonly ModelMessage[]): number =>
  messages.filter(({ role }) => role === 'assistant').length

/** What the last tool said. */
export const lastResult = (messages: readonly ModelMessage[]): string =>
  textOf(messages.findLast(({ role }) => role === 'tool')?.content ?? '')

export const isToldOff = ({ messages }: ModelRequest): boolean =>
  messages.some(({ role, content }) => role === 'user' && textOf(content).startsWith('No progress: '))

/** A tool that answers as its function says, by its input and how often it was called before. */
export function tool(
  name: string,
  run: (input: Record<string, unknown>, nth: number) => unknown,
  polling = false,
): Tool {
  let nth = 0
  return defineTool({
    name,
    description: 'Works.',
    input: z.looseObject({}),
    polling,
    run: (input) => run(input, nth++),
  })
}

/** Calls the same tool for so many answers, then is done. */
export const callsFor =
  (times: number, name: string, input: (nth: number) => object = () => ({})): ModelProgram['says'] =>
  (own) =>
    own < times ? calls([name, input(own)]) : DONE

/** Calls these in this order for so many answers, then is done. */
export const inTurn =
  (times: number, ...named: [name: string, input: object][]): ModelProgram['says'] =>
  (own) =>
    own < times ? calls(named[own % named.length]!) : DONE

type Livelock = Extract<RuntimeEvent, { type: 'livelock' | 'stall' }>

/** What is wrong with what came of it; nothing, where all is as it should be. */
export function problemsOf(
  { healthy, verdict }: Expected,
  found: readonly Livelock[],
  { error }: Pick<MultiAgentResult<unknown>, 'error'>,
): string[] {
  const isTold = found.length > 0
  const isEnded = JSON.stringify(error ?? null).includes('LIVELOCK')
  const evidence = found.map((event) => event.evidence.at(-1)).join('; ')
  return [
    ...(isEnded && verdict !== 'ended' ? [`the detector has ended it: ${evidence}`] : []),
    ...(!isEnded && verdict === 'ended' ? ['the detector has not ended it'] : []),
    ...(isTold && (verdict === 'silent' || verdict === 'missed') ? [`somebody was told: ${evidence}`] : []),
    ...(!isTold && (verdict === 'told' || verdict === 'ended') ? ['nobody was told'] : []),
    ...(healthy && error ? [`it has failed: ${error.message}`] : []),
  ]
}
