/** What a caller may not have, such as a signal, is given as it is: undefined is as good as left out. */
import { defineAgent, type Team } from 'dramatis'
import { z } from 'zod'

export async function serve(team: Team, signal: AbortSignal | undefined, id: string | undefined, ms?: number) {
  const options = {
    signal,
    runId: id,
    threadId: id,
    timeoutMs: ms,
    priority: ms,
    metadata: undefined,
    stream: undefined,
  }
  const typed = await team.execute('q', { ...options, output: z.object({ n: z.number() }) })
  const n: number | null = typed.success ? typed.data.n : null
  const run = team.launch('q', { ...options, budget: undefined, models: undefined, messages: undefined })
  for await (const { type } of run.events({ after: id, types: undefined, follow: undefined, signal })) if (type) break
  await team.resume(run.id, { signal, timeoutMs: ms, onMismatch: undefined })
  return n
}

export const passing = defineAgent<{ ms?: number }>({
  async receive({ content, structuredData: { ms } }, context) {
    const options = {
      timeoutMs: ms,
      priority: ms,
      retries: ms,
      signal: undefined,
      threadId: undefined,
      polling: undefined,
    }
    await context.request('ann', content, options)
    await context.requestAll(['ann'], content, { ...options, concurrency: ms })
    await context.ask(content, { choices: undefined, answerWithinMs: ms, signal: undefined })
    await context.publish('found', content, 'fact', { confidence: ms, ifVersion: ms, supersedes: undefined })
    await context.blackboard.query({ author: undefined, key: undefined })
    await context.blackboard.waitFor('found', { timeoutMs: ms, signal: undefined })
  },
})
