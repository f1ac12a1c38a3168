/** One place of a ring: passes a token on, with the hops that are left; who gets it at the last one says so on the board. */
import { type AgentMessage, defineAgent } from 'dramatis'

export interface Place {
  next: string
}
export interface Token {
  left: number
  /** The entry that tells of its end. */
  end: string
}

export default defineAgent<Token, undefined, object, object, Place>({
  async receive({ structuredData: { left, end } }: AgentMessage<Token>, context) {
    if (left === 0) await context.blackboard.write(end, true, 'end')
    else await context.send(context.data.next, 'token', { structuredData: { left: left - 1, end } })
  },
})
