/** Passes on what agents have said: whole, but to a model as a summary where it is long. */
import type { OrchestratorContext } from '../actors/definition/context.ts'
import { cutShort } from '../actors/model/shorten.ts'
import { MAX_TOKENS } from '../actors/model/window.ts'
import { DramatisError } from '../shared/errors.ts'
import { type Answer, asText } from './positions.ts'
import { speaking } from './prompts.ts'

/** Prompts for what is passed on as a summary: to the model that writes it, and around the summary. */
const PASS_ON = {
  summary: `Sum up what agents of your team have said, for "{agent}", who goes on from your summary alone. Keep facts, names, numbers, sources and paths; decisions and their reasons; what is open; and who said it. Keep the wording where it matters, and the language. Write plain sentences, at most {words} words, no preamble.

{text}`,

  passed: `(This is a summary: what was said before is too long to be passed on whole.)

{summary}`,
} as const

export type Passing = Pick<OrchestratorContext, 'agents' | 'complete' | 'decide' | 'signal'>

/** Most characters that are passed on whole, as many as of a conversation that is inherited in full. */
const LONGEST = 2 ** 15
const LONGEST_SUMMARY = 2_000

const say = speaking(PASS_ON)

/** Returns how many characters are passed on whole to that agent: only models are spared a long text. */
function mostFor({ agents }: Pick<Passing, 'agents'>, agent: string): number {
  const { playedByModel, maxTokens = MAX_TOKENS } = agents.find(({ name }) => name === agent) ?? {}
  return playedByModel ? Math.min(LONGEST, maxTokens) : Number.POSITIVE_INFINITY
}

/**
 * Returns the text for that agent: for a model a summary if the text has more than 32,768 characters, or more than one
 * for each token of its window. A summary costs a call of the agent's model. If that fails, the text is cut short.
 */
export async function passedOn(orchestrator: Passing, agent: string, text: string): Promise<string> {
  const most = mostFor(orchestrator, agent)
  if (text.length <= most) return text
  const { maxTokens = MAX_TOKENS, model } = orchestrator.agents.find(({ name }) => name === agent) ?? {}
  const maxOutputTokens = Math.min(LONGEST_SUMMARY, Math.ceil(maxTokens / 10))
  const readable = cutShort(text, maxTokens - 2 * maxOutputTokens) // a character hardly ever takes two tokens
  const prompt = say('summary', { agent, words: Math.floor(maxOutputTokens / 2), text: readable })
  const question = `How is what was said passed on to "${agent}"?`
  const why = `It has ${text.length} characters, more than ${most}.`
  try {
    const { text: summary } = await orchestrator.complete({ prompt, maxOutputTokens, ...(model && { model }) })
    if (summary.trim() !== '') {
      orchestrator.decide(question, 'as a summary', why)
      return say('passed', { summary })
    }
    orchestrator.decide(question, 'cut short', `${why} Its model gave no summary.`)
  } catch (error) {
    orchestrator.signal.throwIfAborted()
    if (!(error instanceof DramatisError && error.code === 'MODEL')) throw error
    orchestrator.decide(question, 'cut short', `${why} No summary: ${error.message}`)
  }
  return cutShort(text, most)
}

/** Answers that are passed on along a pipeline: what was summed up once is not summed up again. */
export class FullContext {
  readonly #orchestrator: Passing
  /** Stands for the first answers. */
  #summary = ''
  #summed = 0

  constructor(orchestrator: Passing) {
    this.#orchestrator = orchestrator
  }

  /** Returns all answers for that agent: the last one as it is, those before it whole or as a summary. */
  async for(agent: string, answers: readonly Answer[]): Promise<string> {
    const earlier = answers.slice(0, -1)
    const whole = asText(earlier)
    const last = asText(answers.slice(-1))
    if (whole.length <= mostFor(this.#orchestrator, agent)) return joined(whole, last)
    const known = joined(this.#summary, asText(earlier.slice(this.#summed)))
    const passed = await passedOn(this.#orchestrator, agent, known)
    if (passed !== known) {
      this.#summary = passed
      this.#summed = earlier.length
    }
    return joined(passed, last)
  }
}

/** Joins paragraphs, without those that are empty. */
export const joined = (...parts: readonly string[]): string => parts.filter((part) => part !== '').join('\n\n')
