/** Agents that look for one answer: the members, the position of each, and the agents that have dropped out. */
import type { OrchestratorContext, Outcome, RequestOptions } from '../actors/definition/context.ts'
import type { ModelSchema } from '../actors/definition/tool.ts'
import { PERHAPS_LAST } from '../actors/model/last-speaker.ts'
import { DramatisError, ReplyInvalidError, UnknownAgentError } from '../shared/errors.ts'
import { askFor, outcomeOf, tooFewAnswers } from './asking.ts'
import {
  type Position,
  positionFrom,
  positionOf,
  resultOf,
  type Stand,
  standsAsData,
  standsAsText,
  standsOf,
} from './positions.ts'
import type { CONSENSUS, Speak } from './prompts.ts'

/** Argument of a debater. `evidence` is null if no evidence was asked for. */
export interface Argument {
  round: number
  agent: string
  position: string
  argument: string
  evidence: string[] | null
}

type Said = Pick<Argument, 'argument' | 'evidence'>
type Asking = Pick<OrchestratorContext, 'agents' | 'request' | 'signal'>

/** Asks for an argument without evidence, and returns the content as it is. */
export async function argue(
  orchestrator: Asking,
  debater: string,
  content: string,
  options: RequestOptions,
): Promise<Said> {
  const message = await orchestrator.request(debater, content, options)
  return { argument: resultOf({ agent: debater, message }).content, evidence: null }
}

/**
 * Asks for an argument with its evidence. An argument without evidence is sent back once, with `reminder`; then it
 * counts as it is. An answer that does not match the schema is treated in the same way.
 */
export async function argueWithEvidence(
  orchestrator: Asking,
  debater: string,
  content: string,
  reminder: string,
  options: RequestOptions,
): Promise<{ argument: string; evidence: string[] }> {
  const { said: first, sentBack } = await attempt(orchestrator, debater, content, options)
  if (first.evidence.length > 0 || sentBack) return first
  try {
    const { said: second } = await attempt(orchestrator, debater, `${content}\n\n${reminder}`, options)
    return second.evidence.length > 0 ? second : first
  } catch (error) {
    orchestrator.signal.throwIfAborted() // the end of the run is not a failure of the agent
    if (error instanceof DramatisError) return first
    throw error
  }
}

async function attempt(orchestrator: Asking, debater: string, content: string, options: RequestOptions) {
  const { citedArgument } = await import('./forms.ts')
  try {
    const { value } = await askFor(orchestrator, debater, content, citedArgument, {
      ...options,
      contentField: 'argument',
    })
    const evidence = value.evidence.filter((one) => one.trim() !== '')
    return { said: { argument: value.argument, evidence }, sentBack: false }
  } catch (error) {
    const words = error instanceof ReplyInvalidError ? error.details.content : undefined
    if (typeof words !== 'string' || words.trim() === '') throw error
    return { said: { argument: words, evidence: [] }, sentBack: true }
  }
}

/** Minimum number of members: fewer cannot agree. */
const FEWEST = 2

export class Council {
  readonly orchestrator: OrchestratorContext
  readonly query: string
  /** Position of each member, in the order of the agents. */
  readonly held = new Map<string, Position>()
  readonly #outcomes = new Map<string, Outcome>()

  constructor(orchestrator: OrchestratorContext, query: string) {
    this.orchestrator = orchestrator
    this.query = query
  }

  /** Names of the agents that still take part. */
  get members(): string[] {
    return [...this.held.keys()]
  }

  /** Asks all agents the query. Each answer may become the run's answer. An agent that fails does not take part. */
  async open(agents: readonly string[]): Promise<void> {
    const outcomes = await this.orchestrator.requestAll([...agents], this.query, { metadata: PERHAPS_LAST })
    for (const outcome of outcomes) {
      if (outcome.ok) {
        this.#outcomes.set(outcome.agent, outcome)
        this.held.set(outcome.agent, positionOf(outcome))
      } else this.#leave(outcome)
    }
    this.#checkEnough()
  }

  /**
   * Asks some members and returns their answers. null: the answer is not usable; the member stays, but supports no
   * position this time. A member that fails drops out and is not in the result.
   */
  async askEach<T>(
    members: readonly string[],
    content: string,
    schema: ModelSchema<unknown, T>,
    options: RequestOptions,
  ): Promise<Map<string, T | null>> {
    const values = new Map<string, T>()
    const outcomes = await Promise.all(
      members.map((member) =>
        outcomeOf(member, async () => {
          const { value, message } = await askFor(this.orchestrator, member, content, schema, options)
          values.set(member, value)
          return message
        }),
      ),
    )
    const answers = new Map<string, T | null>()
    for (const outcome of outcomes) {
      const { agent, ok } = outcome
      if (ok || outcome.error instanceof ReplyInvalidError) answers.set(agent, values.get(agent) ?? null)
      if (!ok && answers.has(agent)) this.#refuse(agent, outcome.error.message)
      else if (!ok) this.#leave(outcome)
    }
    this.#checkEnough()
    return answers
  }

  /** Asks one agent for a text of its own. undefined: it failed, and drops out. */
  async write(writer: string, content: string, options: RequestOptions): Promise<Position | undefined> {
    const outcome = await outcomeOf(writer, () =>
      this.orchestrator.request(writer, content, { ...options, metadata: PERHAPS_LAST }),
    )
    if (outcome.ok) return positionOf(outcome)
    this.#leave(outcome)
    this.#checkEnough()
    return undefined
  }

  #refuse(agent: string, reason: string): void {
    this.orchestrator.decide(`Does the vote of "${agent}" count?`, 'no', reason)
  }

  #leave(outcome: Extract<Outcome, { ok: false }>): void {
    const { agent, error } = outcome
    this.orchestrator.signal.throwIfAborted() // the end of the run is not a failure of the agent
    this.#outcomes.set(agent, outcome)
    this.held.delete(agent)
    this.orchestrator.decide(`Does "${agent}" take part?`, 'no', `${error.code}: ${error.message}`)
  }

  #checkEnough(): void {
    if (this.held.size < FEWEST) throw tooFewAnswers([...this.#outcomes.values()], FEWEST, this.#outcomes.size)
  }
}

/*
 * Three methods by which agents with different positions come closer. Each returns, round by round, the position of
 * each agent.
 */

/** Position that each agent supports after a round; null: none. */
export type Standing = ReadonlyMap<string, Position | null>

export interface Method {
  round(round: number): Promise<Standing>
  /** Positions from which a tie-breaker may choose. */
  readonly choices: readonly Stand[]
}

type Say = Speak<keyof typeof CONSENSUS>

export const backedIn = (standing: Standing): [string, Position][] =>
  [...standing].flatMap(([agent, position]) => (position ? [[agent, position]] : []))

/**
 * Votes on the answers that were given at first. An answer without votes is not on the next list, as long as at least
 * two remain.
 */
export function voting(council: Council, say: Say): Method {
  const { query } = council
  const method = {
    choices: standsOf(council.held),
    async round(round: number): Promise<Standing> {
      const { choiceOf } = await import('./forms.ts')
      const list = method.choices
      const content = say('vote', { query, positions: standsAsText(list) })
      const structuredData = { query, round, positions: standsAsData(list) }
      const votes = await council.askEach(council.members, content, choiceOf(list.length), { structuredData })
      const standing = new Map(
        [...votes].map(([agent, vote]) => [agent, vote && (list[vote.choice - 1]?.position ?? null)]),
      )
      const backed = standsOf(backedIn(standing))
      if (backed.length > 1) method.choices = backed
      return standing
    },
  }
  return method
}

/** Lets each agent see the positions of the others with their reasons; it may take one of them or change its own. */
export function discussion(council: Council, say: Say): Method {
  const { query, held } = council
  const reasons = new Map<string, string>()
  return {
    get choices() {
      return standsOf(held)
    },
    async round(round) {
      const { viewAmong } = await import('./forms.ts')
      const before = new Map(held)
      const positions = [...before].map(([agent, { content, structuredData }]) => ({
        agent,
        content,
        structuredData: structuredData ?? null,
        reasons: reasons.get(agent) ?? null,
      }))
      const why = (text: string | null) => (text === null ? '' : `\n\nReasons: ${text}`)
      const list = positions.map((one) => `## ${one.agent}\n\n${one.content}${why(one.reasons)}`).join('\n\n')
      const content = say('discuss', { query, positions: list })
      const structuredData = { query, round, positions }
      const said = await council.askEach(council.members, content, viewAmong([...before.keys()]), {
        structuredData,
      })
      const standing = new Map<string, Position | null>()
      for (const [agent, view] of said) {
        const others = view?.agreesWith ? before.get(view.agreesWith) : undefined
        const position = view && (others ?? positionFrom(view.answer))
        standing.set(agent, position)
        if (!position) continue
        held.set(agent, position)
        if (view.reasons) reasons.set(agent, view.reasons)
        else reasons.delete(agent)
      }
      return standing
    },
  }
}

/**
 * Lets one agent write a text that the others accept or object to; an agent that objects keeps its own answer. The
 * tie-breaker writes, otherwise the member with the highest priority. If the writer fails, the next one writes.
 */
export function synthesis(council: Council, say: Say, tieBreaker: string | undefined): Method {
  const { query, held, orchestrator } = council
  const writers = writersOf(orchestrator, council.members, tieBreaker)
  let objections: { agent: string; objection: string }[] = []
  let last: { writer: string; draft: Position } | undefined
  const objectionsAsText = () =>
    objections.map(({ agent, objection }) => `- ${agent}: ${objection}`).join('\n') || 'There is none yet.'

  async function write(round: number): Promise<{ writer: string; draft: Position }> {
    for (let writer = writers[0]; writer !== undefined; writers.shift(), writer = writers[0]) {
      if (writer !== tieBreaker && !held.has(writer)) continue
      orchestrator.decide(`Round ${round}: who writes the text?`, writer, reasonFor(writer, tieBreaker))
      const stands = standsOf(held)
      const content = say('draft', { query, positions: standsAsText(stands), objections: objectionsAsText() })
      const structuredData = { query, round, positions: standsAsData(stands), objections }
      const draft = await council.write(writer, content, { structuredData })
      if (draft) return { writer, draft }
    }
    throw new UnknownAgentError(
      'Nobody is left who could write the text that all are to accept. Name a tieBreaker that stays in the team.',
    )
  }

  return {
    get choices() {
      return standsOf([...(last ? [[last.writer, last.draft] as const] : []), ...held])
    },
    async round(round) {
      const { opinion } = await import('./forms.ts')
      const { writer, draft } = await write(round)
      last = { writer, draft }
      const others = council.members.filter((member) => member !== writer)
      const content = say('accept', { query, draft: draft.content })
      const { content: text, structuredData: data = null } = draft
      const structuredData = { query, round, draft: { writer, content: text, structuredData: data } }
      const said = await council.askEach(others, content, opinion, { structuredData })
      objections = [...said].flatMap(([agent, view]) =>
        view && !view.accept ? { agent, objection: view.objection || 'It says no more than that it objects.' } : [],
      )
      const standing = new Map<string, Position | null>(held.has(writer) ? [[writer, draft]] : [])
      for (const [agent, view] of said) standing.set(agent, view && (view.accept ? draft : (held.get(agent) ?? null)))
      return standing
    },
  }
}

function writersOf(
  { agents }: Pick<OrchestratorContext, 'agents'>,
  members: readonly string[],
  tieBreaker: string | undefined,
): string[] {
  const priorityOf = (name: string) => agents.find((agent) => agent.name === name)?.priority ?? 0
  const byPriority = members.filter((name) => name !== tieBreaker).sort((a, b) => priorityOf(b) - priorityOf(a))
  return tieBreaker === undefined ? byPriority : [tieBreaker, ...byPriority]
}

function reasonFor(writer: string, tieBreaker: string | undefined): string {
  return writer === tieBreaker ? 'It is the tie-breaker.' : 'It has the highest priority of those who take part.'
}
