/** A buyer that spends no more than the other one leaves. */
import { defineAgent } from 'dramatis'

const BUDGET = 900

/** `cost`: of what its own part should be. */
export const buyerWho = (asks: string, cost: number) =>
  defineAgent({
    async receive(message, context) {
      if (message.content === 'quote') return String(cost)
      await context.sleep(5 + context.random() * 20) // it walks over the market first
      const quote = await context.request(asks, 'quote')
      const left = BUDGET - Number(quote.content)
      return `${Math.min(cost, left)} of ${left}`
    },
  })
