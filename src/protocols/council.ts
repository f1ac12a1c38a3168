/** Agents that look for one answer, and the methods by which they come closer. */
import type { OrchestratorContext, Outcome, RequestOptions } from '../actors/definition/context.ts'
import type { ModelSchema } from '../actors/definition/tool.ts'
import { PERHAPS_LAST } from '../actors/model/last-speaker.ts'
import { ReplyInvalidError, UnknownAgentError } from '../shared/errors.ts'
import { askFor, outcomeOf, tooFewAnswers } from './asking.ts'
import {
  type Position,
  positionFrom,
  positionOf,
  priorityOf,
  type Stand,
  standsAsData,
  standsAsText,
  standsOf,
} from './positions.ts'
import type { CONSENSUS, Speak } from './prompts.ts'

/** Minimum number of members: fewer cannot agree. */
const FEWEST = 2

/** The members, the position of each, and the agents that have dropped out. */
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

  /** Returns the answers of members; null: not usable, so it supports no position now. One that fails drops out. */
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
      const { agent } = outcome
      if (outcome.ok) answers.set(agent, values.get(agent) ?? null)
      else if (!(outcome.error instanceof ReplyInvalidError)) this.#leave(outcome)
      else {
        answers.set(agent, null)
        this.orchestrator.decide(`Does the vote of "${agent}" count?`, 'no', outcome.error.message)
      }
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

/** Votes on the first answers. One without votes leaves the list, as long as at least two remain. */
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
      const schema = viewAmong([...before.keys()])
      const said = await council.askEach(council.members, content, schema, { structuredData })
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
      const reason =
        writer === tieBreaker ? 'It is the tie-breaker.' : 'It has the highest priority of those who take part.'
      orchestrator.decide(`Round ${round}: who writes the text?`, writer, reason)
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

function writersOf(orchestrator: OrchestratorContext, members: readonly string[], tieBreaker?: string): string[] {
  const others = members.filter((name) => name !== tieBreaker)
  const byPriority = others.sort((a, b) => priorityOf(orchestrator, b) - priorityOf(orchestrator, a))
  return tieBreaker === undefined ? byPriority : [tieBreaker, ...byPriority]
}
