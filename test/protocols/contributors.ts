/** Agents that contribute to a blackboard, and runs of them on the real runtime under the virtual clock. */
import {
  type AgentContext,
  type AgentDefinition,
  type AgentMessage,
  type BlackboardEntry,
  defineAgent,
  type MultiAgentResult,
} from '../../src/index.ts'
import type { BlackboardConfig } from '../../src/protocols.ts'
import { type Options, stage, type Test } from '../team/stage.ts'

type Told = { query: string; entries: BlackboardEntry[] }

/** An agent that is given the keys it was told of. */
export const contributes = (work: (keys: string[], context: AgentContext) => Promise<unknown>): AgentDefinition =>
  defineAgent({
    async receive({ structuredData }, context) {
      const { entries } = structuredData as Told
      await work(
        entries.map(({ key }) => key),
        context,
      )
      return 'done'
    },
  })

/** Writes one entry each time that it is asked. */
export const writes = (key: string, entryType = 'fact', value: unknown = `${key}!`) =>
  contributes((_keys, context) => context.publish(key, value, entryType))

export const silent = contributes(async () => {})

type Config = Omit<BlackboardConfig, 'strategy'>

export async function play(
  t: Test,
  cast: Record<string, AgentDefinition>,
  config: Config = {},
  options: Partial<Options<string>> = {},
): Promise<MultiAgentResult> {
  const team = stage(t, cast, { ...options, orchestration: { strategy: 'blackboard', ...config } })
  const pending = team.execute('q')
  await team.clock.advance(100_000)
  return pending
}

export const requests = ({ messageHistory }: MultiAgentResult, agent?: string): AgentMessage[] =>
  messageHistory.filter(
    ({ type, sender, recipient }) =>
      type === 'request' && sender === '$orchestrator' && (agent === undefined || recipient === agent),
  )
export const asked = (result: MultiAgentResult) => requests(result).map(({ recipient }) => recipient)
export const told = (result: MultiAgentResult, agent: string) =>
  requests(result, agent).map(({ structuredData }) => (structuredData as Told).entries.map(({ key }) => key).join())
export const verdict = ({ orchestrationTrace }: MultiAgentResult) => orchestrationTrace.decisions.at(-1)

/** In the team's order the last comes first: only the entries say who can work when. */
export const survey: Record<string, AgentDefinition> = {
  writer: contributes(async (_keys, { blackboard }) => {
    const findings = await blackboard.query({ entryType: 'finding' })
    if (findings.length < 2) return
    await blackboard.write('report', findings.map(({ value }) => value).join(' and '), 'solution')
  }),
  analyst: contributes(async (keys, { blackboard }) => {
    for (const key of keys) {
      const rows = await blackboard.read<number[]>(key)
      await blackboard.write(key.replace('data', 'finding'), `${key} has ${rows?.value.length}`, 'finding')
    }
  }),
  collector: contributes(async (_keys, context) => {
    await context.publish('data.rain', [1, 2], 'data')
    await context.sleep(50)
    await context.publish('data.wind', [1, 2, 3], 'data')
  }),
}
export const interests = { collector: ['query'], analyst: ['data.*'], writer: ['finding.*'] }
