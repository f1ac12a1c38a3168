/** The shop behind the desk: what was ordered, and the ledger of what was paid back. */
import { appendFileSync, readFileSync } from 'node:fs'
import { defineTool } from 'dramatis'
import { z } from 'zod'

/** By tenant and number: what a customer may see depends on who asks, and not on what a model says. */
const orders: Readonly<Record<string, { item: string; cents: number } | undefined>> = {
  'acme A-7': { item: 'kettle', cents: 4_900 },
  'globex G-3': { item: 'espresso machine', cents: 129_900 },
}

export const lookUpOrder = defineTool({
  name: 'look_up_order',
  description: 'Finds an order of the customer by its number.',
  input: z.object({ order: z.string() }),
  readOnly: true,
  run: ({ order }, { tenant }) => orders[`${tenant} ${order}`] ?? `You have no order ${order}.`,
})

export const refundInto = (ledger: string) =>
  defineTool({
    name: 'refund',
    description: 'Pays a customer back, when finance agrees. The amount is at most that of the order.',
    input: z.object({ order: z.string(), cents: z.number().int().positive() }),
    output: z.object({ order: z.string(), refundedCents: z.number() }),
    approval: { groups: ['finance'] },
    answerWithinMs: 7 * 86_400_000,
    outside: true,
    idempotent: true, // a call that is made again, by another process too, has the key that it had
    run({ order, cents }, { tenant, idempotencyKey: key }) {
      if (cents > (orders[`${tenant} ${order}`]?.cents ?? 0)) return `So much was not paid for ${order}.`
      const booked = readFileSync(ledger, { encoding: 'utf8', flag: 'a+' })
      if (!booked.includes(key)) {
        if (booked.includes(`"tenant":"${tenant}","order":"${order}"`)) return `${order} was paid back before.`
        appendFileSync(ledger, `${JSON.stringify({ key, tenant, order, cents })}\n`)
      }
      return { order, refundedCents: cents }
    },
  })
