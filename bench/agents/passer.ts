/** Passes on each message that it gets, to its peers by turns; asked, tells how many it got. */
import { type AgentContext, type AgentMessage, defineAgent } from 'dramatis'
import { CONTENT, type Payload, payload } from '../workload.ts'

export interface Peers {
  peers: string[]
}
/** What it is asked for, as the content of a request. */
export type Command = 'start' | 'count' | 'stop'

/** How many of its own each has on their way. */
const FIRST = 32

// plain variables: the question is what routing costs, not what immer costs
let got = 0
let passing = true

export default defineAgent<Payload, { got: number }, object, object, Peers>({
  async receive(message: AgentMessage<Payload>, context) {
    if (!message.requiresResponse) {
      got++
      if (passing) await pass(context)
      return
    }
    if (message.content === ('start' satisfies Command)) for (let i = 0; i < FIRST; i++) await pass(context)
    if (message.content === ('stop' satisfies Command)) passing = false
    return { structuredData: { got } }
  },
})

let passed = 0

function pass(context: Pick<AgentContext<object, object, Peers>, 'send' | 'data'>): Promise<void> {
  const { peers } = context.data
  return context.send(peers[passed % peers.length]!, CONTENT, { structuredData: payload(passed++) })
}
