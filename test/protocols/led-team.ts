/** Managers and workers of code for the strategy hierarchical, and runs of them on the real runtime under the virtual clock. */
import {
  type AgentContext,
  type AgentDefinition,
  type AgentMessage,
  defineAgent,
  type MultiAgentResult,
} from '../../src/index.ts'
import type { HierarchicalConfig } from '../../src/protocols.ts'
import { type Cast, type Options, stage, type Test } from '../team/stage.ts'

/** What a manager is asked beside the text, as far as it is about that. */
export interface Told {
  step: string
  query: string
  worker: string
  workers: string[]
  task: string
  proposal: string
  result: unknown
  error: { code: string; message: string }
  results: { agent: string; task: string; ok: boolean; result: unknown; error: { code: string } | null }[]
}

type Says = (told: Told, message: AgentMessage) => unknown

/** A manager that answers each step with what is given for it: a text as it is, else as data. */
export function leads(tasks: unknown[], steps: Record<string, Says> = {}, hears: string[] = []): AgentDefinition {
  const all: Record<string, Says> = {
    plan: () => ({ tasks }),
    approve: () => ({ approved: true }),
    review: () => ({ approved: true }),
    reassign: () => ({ worker: null }),
    alone: ({ query }) => `${query} by itself`,
    summary: ({ results }) => results.map(({ agent, result }) => `${agent}: ${result}`).join('; '),
    ...steps,
  }
  return defineAgent({
    receive(message) {
      const told = toldOf(message)
      const said = all[told.step]?.(told, message)
      return typeof said === 'string' ? said : { structuredData: said }
    },
    observe({ type, sender, content }) {
      hears.push(`${type} of ${sender}: ${content}`)
    },
  })
}

export const toldOf = ({ metadata }: AgentMessage) => metadata.hierarchical as Told

/** A worker that says how it would work, and works. */
export const works = (work: (message: AgentMessage, context: AgentContext) => unknown): AgentDefinition =>
  defineAgent({
    async receive(message, context) {
      if (message.type === 'request') return 'with care'
      const done = await work(message, context)
      return typeof done === 'string' ? done : { structuredData: done }
    },
  })

export const worker = works(({ content }, { role }) => `${role.name} did ${content.split('\n')[0]}`)

export const task = (worker: string, task: string, ...dependsOn: number[]) => ({ worker, task, dependsOn })

/** The agent `boss` leads all others. */
export function led(
  t: Test,
  cast: Cast<string>,
  config: Partial<HierarchicalConfig> = {},
  options: Partial<Options<string>> = {},
) {
  const workers = Object.keys(cast).filter((name) => name !== 'boss')
  const orchestration = { strategy: 'hierarchical' as const, manager: 'boss', workers, ...config }
  return stage(t, cast, { ...options, orchestration })
}

export async function play(...given: Parameters<typeof led>): Promise<MultiAgentResult> {
  const team = led(...given)
  const pending = team.execute('the job')
  await team.clock.advance(100_000)
  return pending
}

/** Messages in the order in which they were sent: who asked whom for what. */
export const asked = ({ messageHistory }: MultiAgentResult): string[] =>
  messageHistory
    .filter(({ type, recipient }) => (type === 'request' || type === 'delegate') && recipient !== '$orchestrator')
    .map((message) => `${message.type} ${message.recipient} ${toldOf(message)?.step ?? message.content}`)

export const decisions = ({ orchestrationTrace }: MultiAgentResult): string[] =>
  orchestrationTrace.decisions.map(({ question, choice }) => `${question} ${choice}`)
