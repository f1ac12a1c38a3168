/** The shop behind the desk: orders, and the ledger of what was paid back. Put your database here. */
import { appendFileSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { defineTool } from 'dramatis'
import { z } from 'zod'

const orders = new Map([
  ['A-7', { customer: 'ann', item: 'kettle', euros: 49 }],
  ['B-3', { customer: 'bob', item: 'lamp', euros: 120 }],
])

export const refundInto = (folder = 'data') =>
  defineTool({
    name: 'refund',
    description: 'Pays an order back, when somebody of the staff agrees.',
    input: z.object({ order: z.string() }),
    approval: true, // by somebody else than the customer
    idempotent: true, // a call that is made again after a crash has the key that it had
    run({ order }, { caller, idempotencyKey: key }) {
      const found = orders.get(order)
      // by who asks, not by what a model says
      if (found === undefined || found.customer !== caller) return `You have no order ${order}.`
      mkdirSync(folder, { recursive: true })
      const ledger = join(folder, 'refunds.jsonl')
      const booked = readFileSync(ledger, { encoding: 'utf8', flag: 'a+' })
      if (!booked.includes(key)) {
        if (booked.includes(`"order":"${order}"`)) return `Order ${order} was paid back before.`
        appendFileSync(ledger, `${JSON.stringify({ key, order, euros: found.euros })}\n`)
      }
      return `${found.euros} EUR for order ${order} are on their way.`
    },
  })
