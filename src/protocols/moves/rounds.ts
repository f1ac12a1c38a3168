/**
 * Three methods by which agents with different positions come closer. Each returns, round by round, the position of
 * each agent.
 */
import type { OrchestratorContext } from '../../actors/definition/context/context.ts'
import { UnknownAgentError } from '../../errors.ts'
import type { CONSENSUS } from '../prompts/consensus.ts'
import type { Speak } from '../prompts/prompts.ts'
import type { Council } from './council.ts'
import { type Position, positionFrom, type Stand, standsAsData, standsAsText, standsOf } from './positions.ts'

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
      const { choiceOf } = await import('./answer-forms.ts')
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
      const { viewAmong } = await import('./answer-forms.ts')
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
      const { opinion } = await import('./answer-forms.ts')
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
