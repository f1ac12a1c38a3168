/** The kinds of jobs that teams of several sizes do: parts that split, questions with one right answer, a chain of steps. */
import { readdir, readFile } from 'node:fs/promises'
import type { ModelClient, OrchestratorContext } from 'dramatis'
import { noisyModel, RIGHT } from '../quality/noisy-model.ts'
import { questionOf, sideIn } from '../quality/questions.ts'
import { LATENCY, simulatedModel } from './simulated-model.ts'

export interface Job {
  /** The job in words, for the head of the table. */
  readonly title: string
  /** What plays the roles where there is no real model. */
  readonly simulated: ModelClient
  /** That model in words. */
  readonly by: string
  readonly systemPrompt: string
  /** Does the job. Resolves to the share of right answers, where some are right. */
  run(script: OrchestratorContext, workers: readonly string[]): Promise<number | undefined>
}

export type Kind = 'parts' | 'question' | 'chain'

// seen from dist/bench/team-size
const GUIDES = new URL('../../../docs/how-to/', import.meta.url)
const QUESTIONS = 100
const SIMULATED = `a simulated model (${LATENCY.firstTokenMs} ms to the first token, ${LATENCY.tokenMs} ms for each)`
const STEPS = 12

export const JOBS: Readonly<Record<Kind, () => Promise<Job>>> = {
  async parts() {
    const job = await sections()
    return {
      title: `${job.length} sections summarized and an overview made of them`,
      simulated: simulatedModel,
      by: SIMULATED,
      systemPrompt: 'You summarize a section of a manual in one sentence.',
      run: (script, workers) => summarized(script, job, workers).then(() => undefined),
    }
  },
  question: async () => ({
    title: `${QUESTIONS} questions with one right answer, each put to all workers; the majority counts`,
    simulated: noisyModel,
    by: `noisy models, right ${RIGHT} of the time, which take no time`,
    systemPrompt: 'You answer a question with one letter.',
    run: voted,
  }),
  chain: async () => ({
    title: `a chain of ${STEPS} steps, each on what the one before has come to`,
    simulated: simulatedModel,
    by: SIMULATED,
    systemPrompt: 'You improve a text in one sentence.',
    run: chained,
  }),
}

/** The sections of this project's how-to guides that have something to say. */
export async function sections(): Promise<string[]> {
  const names = (await readdir(GUIDES)).filter((name) => name.endsWith('.md')).sort()
  const texts = await Promise.all(names.map((name) => readFile(new URL(name, GUIDES), 'utf8')))
  const parts = texts
    .join('\n')
    .replaceAll(/```[\s\S]*?```/g, '')
    .split(/^#+ /m)
  return parts.map((part) => part.trim()).filter((part) => part.split(/\s+/).length > 40)
}

/** Who is free takes the next section; the editor gets all summaries in the order of the sections. */
async function summarized(
  script: OrchestratorContext,
  job: readonly string[],
  names: readonly string[],
): Promise<string> {
  const summaries: string[] = []
  const left = job.entries()
  const work = async (name: string) => {
    for (const [at, section] of left) {
      summaries[at] = (await script.request(name, `Summarize this section:\n${section}`)).content
    }
  }
  await Promise.all(names.map(work))
  return (await script.request('editor', `Make an overview of these summaries:\n${summaries.join('\n')}`)).content
}

/** A tie counts as half. */
async function voted(script: OrchestratorContext, workers: readonly string[]): Promise<number> {
  let right = 0
  for (let number = 1; number <= QUESTIONS; number++) {
    const { text, truth } = questionOf(number)
    const answers = await Promise.all(workers.map(async (name) => sideIn((await script.request(name, text)).content)))
    const [a, b] = (['A', 'B'] as const).map((side) => answers.filter((answer) => answer === side).length)
    if (a === b) right += 0.5
    else if ((a! > b! ? 'A' : 'B') === truth) right += 1
  }
  return right / QUESTIONS
}

/** The steps go round the workers: each needs the one before, so nobody works beside another. */
async function chained(script: OrchestratorContext, workers: readonly string[]): Promise<undefined> {
  let text = 'A team passes on a text.'
  for (let step = 0; step < STEPS; step++) {
    const name = workers[step % workers.length]!
    text = (await script.request(name, `Improve this text (step ${step + 1}):\n${text}`)).content
  }
}
