/** Agents that bid, and auctions of them on the real runtime under the virtual clock. */
import {
  type AgentContext,
  type AgentDefinition,
  type AgentMessage,
  type AgentRole,
  defineAgent,
  type MultiAgentResult,
} from '../../src/index.ts'
import type { AuctionConfig } from '../../src/protocols.ts'
import { type Options, stage, type Test } from '../team/stage.ts'

type Said = string | { content?: string; structuredData?: unknown }
type Work = (message: AgentMessage, context: AgentContext) => Said | Promise<Said>

/** Whether it is asked for a bid, and not for the work. */
export const isBid = ({ metadata }: AgentMessage) => 'bidFor' in metadata

/** Bids that, and works so. */
export const bids = (bid: unknown, work: Work = (_message, { role }) => `${role.name} did it`): AgentDefinition =>
  defineAgent({
    receive: (message, context) => (isBid(message) ? { structuredData: { bid } } : work(message, context)),
  })

/** Answers that when it is asked for a bid. */
export const answers = (said: Said | Work): AgentDefinition =>
  defineAgent({
    receive: (message, context) =>
      isBid(message) ? (typeof said === 'function' ? said(message, context) : said) : `${context.role.name} did it`,
  })

/** Works for so long. */
export const takes =
  (ms: number): Work =>
  async (_message, context) => {
    await context.sleep(ms)
    return `${context.role.name} did it`
  }

type Cast = Record<string, AgentDefinition | (Omit<AgentRole, 'name'> & { code: AgentDefinition })>

export async function sell(
  t: Test,
  cast: Cast,
  config: Omit<AuctionConfig, 'strategy'> = {},
  options: Partial<Options<string>> = {},
): Promise<MultiAgentResult> {
  const team = stage(t, cast, { ...options, orchestration: { strategy: 'auction', ...config } })
  const pending = team.execute('fix the bike')
  await team.clock.advance(200_000)
  return pending
}

/** The same while agent "a" is at the work of another run. */
export async function sellWhileBusy(
  t: Test,
  cast: Cast,
  config: Omit<AuctionConfig, 'strategy'> = {},
): Promise<MultiAgentResult> {
  const team = stage(t, cast, { orchestration: { strategy: 'auction', ...config } })
  const other = team.getAgent('a')?.run('keep busy')
  const pending = team.execute('fix the bike')
  await team.clock.advance(100_000)
  await other
  return pending
}

const decided = ({ orchestrationTrace }: MultiAgentResult, question: string) =>
  orchestrationTrace.decisions.filter(
    (decision) => decision.question.startsWith(question) && !decision.reason.startsWith('load_balance'), // of a tie
  )

/** Why that agent has no bid that counts. */
export const refusalOf = (result: MultiAgentResult, agent: string) =>
  decided(result, `What does "${agent}" bid?`).find(({ choice }) => choice === 'no bid')?.reason

/** Who got the task, one after the other. */
export const winners = (result: MultiAgentResult) => decided(result, 'Who gets the task').map(({ choice }) => choice)
/** Why it was the last of them. */
export const reason = (result: MultiAgentResult) => decided(result, 'Who gets the task').at(-1)?.reason
