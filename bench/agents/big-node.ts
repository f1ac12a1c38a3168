/** Asks others one after the other, or answers what it is asked. After `big` of the Savina benchmarks. */
import { type AgentMessage, defineAgent } from 'dramatis'
import { CONTENT } from '../workload.ts'

/** Whom it is to ask, in that order; without it the message is a question of another one. */
export interface Round {
  ask: string[]
}

export default defineAgent<Round | undefined>({
  async receive({ structuredData }: AgentMessage<Round | undefined>, context) {
    if (!structuredData) return CONTENT
    for (const other of structuredData.ask) await context.request(other, CONTENT)
    return 'done'
  },
})
