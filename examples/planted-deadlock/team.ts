/**
 * A team with a mistake in it, for `dramatis rehearse` to find.
 *
 * Two buyers stock one kitchen from one budget, so each asks what the other's part costs before it orders its own. A buyer
 * handles one message at a time. As long as the fish is ordered when the produce buyer is done, all is well, and so it is in
 * a first try. When the two orders overlap, each waits for a quote that the other gives only when it has its own: a deadlock.
 *
 *   npm run -s dramatis -- rehearse examples/planted-deadlock/team.ts "Dinner for forty" --seeds 50
 *
 * finds the schedules in which they overlap. One way out: take the quotes first, and pass them on with the orders.
 */
import { defineTeam } from 'dramatis'

export default defineTeam({
  agents: [
    { name: 'produce_buyer', module: new URL('./produce-buyer.ts', import.meta.url) },
    { name: 'fish_buyer', module: new URL('./fish-buyer.ts', import.meta.url) },
  ],
  orchestration: {
    strategy: 'custom',
    name: 'two orders from one budget',
    async run(kitchen, occasion) {
      const produce = kitchen.request('produce_buyer', `order: ${occasion}`)
      await kitchen.sleep(10 + kitchen.random() * 30) // the cook thinks about the main course
      const fish = kitchen.request('fish_buyer', `order: ${occasion}`)
      const orders = await Promise.all([produce, fish])
      return orders.map(({ sender, content }) => `${sender} spends ${content}`).join('\n')
    },
  },
})
