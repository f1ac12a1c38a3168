/** Agents that say what a test has written down, line by line; and what of a run such tests look at. */
import type { Protocol } from '../../src/actors/definition/protocol.ts'
import { type AgentDefinition, type AgentMessage, defineAgent, type MultiAgentResult } from '../../src/index.ts'
import { AgentFailedError, RunTimeoutError } from '../../src/shared/errors.ts'
import { FakeOrchestrator } from '../fixtures/fake-orchestrator.ts'

export type Speaker = AgentDefinition & { heard: AgentMessage[] }

/** Says the next line for each message, the last one again and again: a text, data, or an error that it throws. */
export function speaks(...lines: unknown[]): Speaker {
  const heard: AgentMessage[] = []
  const definition = defineAgent({
    receive(message) {
      const said = lines[heard.push(message) - 1] ?? lines.at(-1)
      if (said instanceof Error) throw said
      return typeof said === 'string' || isReply(said) ? said : { structuredData: said }
    },
  })
  return Object.assign(definition, { heard })
}

const isReply = (said: unknown): said is { content: string; structuredData: unknown } =>
  typeof said === 'object' && said !== null && 'content' in said && 'structuredData' in said

/** Plays a protocol whose first agent fails because the run ends: what the script makes of that, and the reason of the end. */
export async function endedMeanwhile(protocol: Protocol, agents: readonly string[]) {
  const reason = new RunTimeoutError('too long')
  const says = () => {
    fake.run.abort(reason)
    return new AgentFailedError('torn down')
  }
  const fake: FakeOrchestrator = new FakeOrchestrator(Object.fromEntries(agents.map((name) => [name, says])))
  const error = await fake.play(protocol).catch((thrown: unknown) => thrown)
  return { error, reason, decisions: fake.decisions }
}

export const decisions = ({ orchestrationTrace }: MultiAgentResult) =>
  orchestrationTrace.decisions.map(({ question, choice }) => `${question} ${choice}`)
export const reasons = ({ orchestrationTrace }: MultiAgentResult) =>
  orchestrationTrace.decisions.map(({ reason }) => reason)
