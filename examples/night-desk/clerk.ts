/** Settles one return: what is due, whether a person has to agree, the refund, and the entry in the ledger. */
import { type AgentMessage, defineAgent } from 'dramatis'
import type { Reason, Return } from './returns.ts'

export interface ReadReturn extends Return {
  reason: Reason
}

/** Of what a customer did not want, a tenth pays for the way back. */
const SHARE = { broken: 1, late: 1, unwanted: 0.9 } as const
/** Beyond this a person decides, in cents. */
const MOST_ALONE = 100_000

export const euros = (cents: number) => `${(cents / 100).toFixed(2)} EUR`

export default defineAgent<ReadReturn>({
  async receive({ structuredData: { order, cents, reason } }: AgentMessage<ReadReturn>, context) {
    const due = Math.round(cents * SHARE[reason])
    if (due > MOST_ALONE) {
      const question = `Order ${order} came back ${reason}. Refund ${euros(due)}?`
      if ((await context.ask(question, { choices: ['yes', 'no'] })) === 'no') {
        await context.publish(`return.${order}`, { order, reason, refunded: 0 }, 'refusal')
        return `Order ${order}: ${reason}, not refunded.`
      }
    }
    await context.tool('refund', { order, cents: due })
    await context.publish(`return.${order}`, { order, reason, refunded: due }, 'refund')
    return `Order ${order}: ${reason}, ${euros(due)} refunded.`
  },
})
