/** A desk over several processes, whose agents hand a conversation on. `process.pid` is among the words of each. */
import { type ClusterOptions, createTeam, type MultiAgentPatternOptions } from '../../src/index.ts'
import { FakeModel } from '../models/fake-model.ts'
import { logger } from './served.ts'

/** Triage hands to billing, which asks a person if it reads of a refund. */
const model = new FakeModel(({ agent, messages }) => {
  const said = messages.filter(({ role }) => role !== 'system').length
  const call = (name: string, input: object) => [
    { toolCall: { id: `call-${said}`, name, input: JSON.stringify(input) } },
  ]
  if (agent === 'triage') return call('handoff', { to: 'billing', task: 'Look at the invoice.' })
  const last = messages.at(-1)!
  if (last.role === 'tool') return `billing at ${process.pid}: ${last.content}`
  return String(last.content).includes('refund')
    ? call('ask_user', { question: 'Really?' })
    : `billing at ${process.pid} after ${said}`
})

export function handingDesk(cluster: ClusterOptions) {
  const agents: MultiAgentPatternOptions['agents'] = [
    { name: 'triage', systemPrompt: 'You find out.', canHandoffTo: ['billing'] },
    { name: 'billing', systemPrompt: 'You know invoices.', canHandoffTo: ['triage'], tools: ['ask_user'] },
  ]
  return createTeam({
    agents,
    orchestration: { strategy: 'handoff', start: 'triage' },
    models: { default: { client: model } },
    cluster: { shards: 4, times: { beatMs: 200, suspectMs: 1_000, ttlMs: 3_000 }, ...cluster },
    threads: { warmSpares: 0 },
    logger,
  })
}
