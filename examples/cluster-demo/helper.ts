/** Says what it has heard. */
import { defineAgent } from 'dramatis'

export default defineAgent({
  initialState: { asked: 0 },
  receive({ content }, context) {
    context.setState((state: { asked: number }) => {
      state.asked += 1
    })
    return `h${content}`
  },
})
