/**
 * A process of the cluster. Its parent sends what to do, and it answers each with the same number. SIGTERM gives its
 * shards over to the others.
 */
import { appendFileSync } from 'node:fs'
import { type ClusterOptions, type ClusterRun, createTeam, defineTool, RunEndedError } from 'dramatis'
import { z } from 'zod'

export interface MemberSettings {
  readonly cluster: ClusterOptions & { url: string }
  /** File to which agents append what they do. */
  readonly effects: string
}

export interface Asked {
  readonly number: number
  readonly ask: 'submit' | 'outcome' | 'say' | 'agree' | 'shards'
  readonly id: string
}

const { cluster, effects } = JSON.parse(process.argv[2] ?? '') as MemberSettings

/** Needs two people that agree. */
const pay = defineTool({
  name: 'pay',
  description: 'Pays an order.',
  input: z.object({ order: z.string() }),
  approval: { quorum: 2 },
  run: ({ order }) => appendFileSync(effects, `paid ${order}\n`),
})

const clerk = { module: new URL('./clerk.js', import.meta.url), concurrency: 64, data: { effects }, tools: [pay] }
const team = createTeam({
  agents: [
    { name: 'clerk', ...clerk },
    { name: 'closer', ...clerk },
    { name: 'helper', module: new URL('./helper.js', import.meta.url) },
  ],
  orchestration: { strategy: 'sequential', agentOrder: ['clerk'] },
  cluster,
  threads: { warmSpares: 0 },
})

/** Runs that this process has accepted. One that it has not is submitted again, as a client behind a balancer does. */
const runs = new Map<string, ClusterRun>()

async function done({ ask, id }: Asked): Promise<unknown> {
  if (ask === 'shards') return [...team.held.keys()]
  const run = runs.get(id) ?? (await team.launch(`order ${id}`, { runId: id }))
  runs.set(id, run)
  if (ask === 'submit') return run.shard
  if (ask === 'say') return said(run)
  if (ask === 'agree') return agreed(run)
  const { success, finalOutput, error } = await run.result()
  // the clerk lets through what it gets; of another process's run only the details have it
  const { code } = Object(error?.code === 'AGENT_FAILED' ? error.details.cause : error)
  return { success, finalOutput, code: code ?? error?.code ?? null, message: error?.message ?? null }
}

/** Says something to a run, once however often it is asked; `at`: null if the run had ended before. */
async function said(run: ClusterRun): Promise<{ at: number | null }> {
  try {
    const { at } = await run.steer('Faster, please.', { id: `for ${run.id}` })
    return { at }
  } catch (error) {
    if (error instanceof RunEndedError) return { at: null }
    throw error
  }
}

const PEOPLE = ['ann', 'bob', 'eve']

/** Lets somebody agree to what the run asks: it may be one who has. */
async function agreed(run: ClusterRun): Promise<number> {
  const questions = await run.questions()
  const id = PEOPLE[Math.floor(Math.random() * PEOPLE.length)]!
  for (const { questionId } of questions) await run.answer(questionId, 'yes', { by: { id } })
  return questions.length
}

await team.start()
process.send?.({ ready: true })
process.on('message', (asked: Asked) => {
  const answer = (told: object) => process.connected && process.send?.({ number: asked.number, ...told })
  done(asked).then(
    (value) => answer({ value }),
    (error) => answer({ error: String(error) }),
  )
})
process.on('SIGTERM', async () => {
  await team.close()
  process.exit()
})
