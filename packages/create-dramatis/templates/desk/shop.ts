/** The shop behind the desk: orders, and the ledger of what was paid back. Put your database here. */
import { appendFileSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { defineTool } from 'dramatis'
import { z } from 'zod'

const orders = new Map([
  ['A-7', { order: 'A-7', customer: 'ann', item: 'kettle', euros: 49 }],
  ['B-3', { order: 'B-3', customer: 'bob', item: 'lamp', euros: 120 }],
])

/** Nobody hears of an order of somebody else. Who asks is said by the login, not by a model. */
export const findOrder = defineTool({
  name: 'find_order',
  description: 'Finds an order of the customer. A refund needs all of what it says.',
  input: z.object({ order: z.string() }),
  readOnly: true,
  run({ order }, { caller }) {
    const found = orders.get(order)
    return found?.customer === caller ? found : `You have no order ${order}.`
  },
})

export const refundInto = (folder = 'data') =>
  defineTool({
    name: 'refund',
    description: 'Pays an order back, when somebody of the staff agrees.',
    // the staff is shown all of it
    input: z.object({ order: z.string(), customer: z.string(), item: z.string(), euros: z.number() }),
    // By somebody else than the customer. What is no order is not asked about: the call is refused.
    approval: (input) => isDeepStrictEqual(input, orders.get(input.order)),
    idempotent: true, // a call that is made again after a crash has the key that it had
    run(input, { caller, idempotencyKey: key }) {
      const { order, euros } = input
      if (input.customer !== caller || !isDeepStrictEqual(input, orders.get(order)))
        return `You have no order ${order}.`
      mkdirSync(folder, { recursive: true })
      const ledger = join(folder, 'refunds.jsonl')
      const booked = readFileSync(ledger, { encoding: 'utf8', flag: 'a+' })
      if (!booked.includes(key)) {
        if (booked.includes(`"order":"${order}"`)) return `Order ${order} was paid back before.`
        appendFileSync(ledger, `${JSON.stringify({ key, order, euros })}\n`)
      }
      return `${euros} EUR for order ${order} are on their way.`
    },
  })
