/** Never gives its thread back: the mistake that freezes everything when all agents share one thread. */
import { defineAgent } from 'dramatis'

export default defineAgent({
  receive() {
    for (;;);
  },
})
