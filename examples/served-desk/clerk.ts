/** Collects offers. Its thread ends in the middle of the first attempt: the second one goes on. */
import { defineAgent } from 'dramatis'

const OFFERS = { lamp: 49, desk: 210, chair: 120 }

export default defineAgent({
  async receive(_message, context) {
    for (const [thing, euros] of Object.entries(OFFERS)) {
      await context.blackboard!.write(`offer.${thing}`, { euros }, 'offer')
      if (thing === 'desk' && context.attempt === 1) process.exit(1)
    }
    return JSON.stringify(OFFERS)
  },
})
