/** One agent for the teams beside it: what it does wrong, if anything, is in the data of its role. */
import { type AgentContext, DeadlockError, defineAgent } from 'dramatis'

interface Habit {
  does: 'die once' | 'ask first' | 'nag' | 'keep silent' | 'vote' | 'listen'
  /** Whom it asks. */
  whom?: string
  vote?: string
}

const habits: Record<Habit['does'], (context: Context) => string | Promise<string>> = {
  'die once': ({ attempt }) => (attempt === 1 ? process.exit(1) : `done, in attempt ${attempt}`),

  /** Wants the quote of the other before it gives its own; somebody has to begin. */
  'ask first': async (context) => {
    try {
      return `less than ${(await context.request(whom(context), 'your quote?')).content}`
    } catch (error) {
      if (error instanceof DeadlockError) return '10'
      throw error
    }
  },

  /** Takes no answer for an answer. */
  nag: async (context) => {
    for (let n = 0; n < 1_000; n++) {
      await context.request(whom(context), 'are you done?')
      await context.sleep(10)
    }
    return 'never'
  },

  'keep silent': async (context) => {
    await context.sleep(60_000)
    return 'too late'
  },

  vote: ({ data }) => data.vote ?? '',
  listen: () => 'not yet',
}

type Context = AgentContext<object, object, Habit>

const whom = ({ data }: Context) => data.whom ?? ''

export default defineAgent<unknown, unknown, object, object, Habit>({
  receive: (_message, context) => habits[context.data.does](context),
  observe({ sender, content }, { log }) {
    log.warn({ from: sender }, content)
  },
})
