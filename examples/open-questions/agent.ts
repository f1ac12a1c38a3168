/** One agent for the teams beside it: what it does is in the data of its role. */
import { fileURLToPath } from 'node:url'
import { type AgentContext, defineAgent, TaskRefusedError } from 'dramatis'

interface Habit {
  does: 'work' | 'hire' | 'pry' | 'lead' | 'decline' | 'tell'
  /** To whom it turns, in this order. */
  whom?: string[]
  /** What it tells, or why it declines. */
  says?: string
}

type Context = AgentContext<object, object, Habit>

const habits: Record<Habit['does'], (content: string, context: Context) => string | Promise<string>> = {
  work: (content, { role }) => `${role.name} did: ${content}`,
  tell: (_content, { data }) => data.says ?? '',

  /** Makes an agent for each job, and asks all of them at once. */
  async hire(content, context) {
    const results = content.split(', ').map(async (job, i) => {
      const module = fileURLToPath(import.meta.url)
      const name = await context.spawn({ name: `worker-${i + 1}`, module, data: { does: 'work' } })
      return (await context.request(name, job)).content
    })
    return (await Promise.all(results)).join('\n')
  },

  /** Turns to somebody, to whom it may or may not. */
  async pry(content, context) {
    try {
      return (await context.request(context.data.whom?.[0] ?? '', content)).content
    } catch (error) {
      return error instanceof Error ? error.message : String(error)
    }
  },

  /** Gives its task to one after the other, until somebody takes it. */
  async lead(content, context) {
    const reasons: string[] = []
    for (const name of context.data.whom ?? []) {
      try {
        const { result } = await context.delegate(name, content)
        return [...reasons, String(result)].join('\n')
      } catch (error) {
        if (!(error instanceof TaskRefusedError)) throw error
        reasons.push(error.message)
      }
    }
    throw context.refuse(`nobody takes it: ${reasons.join(' ')}`)
  },

  decline(_content, context) {
    throw context.refuse(context.data.says ?? 'no reason')
  },
}

export default defineAgent<unknown, unknown, object, object, Habit>({
  receive: ({ content }, context) => habits[context.data.does](content, context),
})
