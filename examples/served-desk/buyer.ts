/** Buys the cheapest thing that the blackboard has an offer for, if a person agrees. */
import { defineAgent, ToolFailedError } from 'dramatis'

export default defineAgent({
  async receive(_message, context) {
    const offers = await context.blackboard!.query({ entryType: 'offer' })
    const prices = offers.map(({ key, value }) => ({
      what: key.slice('offer.'.length),
      euros: (value as { euros: number }).euros,
    }))
    const [cheapest] = prices.sort((one, other) => one.euros - other.euros)
    try {
      return String(await context.tool('buy', cheapest!))
    } catch (error) {
      if (error instanceof ToolFailedError) return 'Nothing was bought: the person said no.'
      throw error
    }
  },
})
