/** A team whose agents ask all that is outside of it, for tests that play its runs again. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { z } from 'zod'
import { createTeam, defineTool, type MultiAgentPatternOptions, type Run } from '../../src/index.ts'
import { type Script as ModelScript, scriptedModel } from '../../src/testing.ts'
import { first, type Script } from '../durability/desk-team.ts'
import { folderOf } from '../durability/log-folders.ts'
import type { Changed } from '../fixtures/old-runs/clerk.ts'
import { silent } from '../kit/team.ts'

const clerk = new URL('../fixtures/old-runs/clerk.js', import.meta.url)
const weigh = new URL('../fixtures/old-runs/weigh.js', import.meta.url)

export const sells: Script = async (desk, query) => {
  const offers = await Promise.all(['ann', 'bob'].map((agent) => desk.request(agent, `${query} of ${agent}`)))
  return offers.map(({ content }) => content).join(' and ')
}

/** Counts how often the host's tool ran. */
export const priced = { times: 0 }

const price = defineTool({
  name: 'price',
  description: 'Gives a price.',
  input: z.object({ of: z.string(), weight: z.number() }),
  run: ({ weight }) => {
    priced.times += 1
    return { euros: weight * 10 }
  },
})

/** Options of the team. `changed`: what is other in the code of ann. */
export function clerks(run: Script = sells, changed: Changed = {}): MultiAgentPatternOptions {
  const role = { module: clerk, env: ['CLERK_EFFECTS'], tools: [price, { module: weigh }] }
  return {
    agents: [
      { name: 'ann', ...role, data: changed },
      { name: 'bob', ...role },
    ],
    logger: silent,
    models: { default: scriptedModel([{ reply: 'nobody may ask it' }]) },
    orchestration: { strategy: 'custom', name: 'a shop', run },
  }
}

/** What the steps and the tools of threads did. */
export const effects = (): string[] => readFileSync(process.env.CLERK_EFFECTS!, 'utf8').trim().split('\n')

/** Makes a team that keeps a log in that folder. */
export function shop(t: Test, path: string, options = clerks(), script: readonly ModelScript[] = answers) {
  process.env.CLERK_EFFECTS = join(folderOf(t), 'effects')
  const models = { default: scriptedModel([...script]) }
  const team = createTeam({ ...options, models, stateManagement: { path } })
  t.teardown(() => team.close())
  return team
}

const answers: ModelScript[] = [
  { agent: 'ann', reply: 'green tea', delayMs: 20 },
  { agent: 'bob', reply: 'black coffee', delayMs: 5 },
]

/** Answers all questions of a run, when so many are open, and waits for its result. */
export async function served(run: Run<unknown>, answer = 'yes', together = 1) {
  const answering = (async () => {
    const open: string[] = []
    for await (const event of run.events({ types: ['question', 'run.finished'] })) {
      if (event.type === 'question') open.push(event.questionId)
      if (open.length < together) continue
      const answered = open.splice(0, answer === 'no' ? 1 : open.length) // a second "no" would race with the first
      for (const questionId of answered) await run.answer(questionId, answer).catch(() => {}) // it may be withdrawn
    }
  })()
  const result = await run.result
  await answering
  return result
}

export { first }
