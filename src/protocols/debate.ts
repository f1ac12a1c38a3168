/** Strategy `debate`: agents argue different positions before a judge, which decides and answers. */
import type { OrchestratorContext, Outcome, RequestOptions } from '../actors/definition/context.ts'
import { IN_WORDS } from '../actors/model/last-speaker.ts'
import { flag, integer, listOf, oneOf, refused, rule, shape } from '../shared/checks.ts'
import { ReplyInvalidError } from '../shared/errors.ts'
import { askFor, failureOf, lastWord, tooFewAnswers } from './asking.ts'
import { resultOf } from './positions.ts'
import { promptsOf, type Speak, speaking } from './prompts.ts'
import { type AgentName, type AnyAgent, agentOf, agentsOf, type Strategy } from './strategy.ts'

/**
 * Prompts of the strategy `debate`. `query` is the question, `position` the position of the debater, and `debate` the
 * arguments, under headings with the debaters and their positions. `for` and `against` are the positions if none are
 * given; then the debater gets `ownSide` too.
 */
const DEBATE = {
  for: 'for the proposition',
  against: 'against the proposition',
  ownSide: 'If your role takes another side, argue for that one.',
  argue:
    'You are in a debate, in round {round} of {rounds}. Your position: {position}. Argue for it, and answer what the others have said.\n\n# Question\n\n{query}\n\n# Said since your last turn\n\n{debate}',
  cite: 'Cite evidence for your argument: list in evidence what it rests on (sources, figures, facts that can be checked).',
  evidence: 'Your argument came without evidence. Give it again, with what it rests on in evidence.',
  verdict:
    'You judge this debate. Name in winner the debater who has the better of it, one of {debaters}, and say why in reasons.\n\n# Criteria\n\n{criteria}\n\n# Question\n\n{query}\n\n# Debate\n\n{debate}',
  criteria: 'Which arguments are sound, and which evidence bears them out. What came without evidence counts less.',
  answer:
    '{winner} has won the debate ({position}). Now answer the question for its reader: say which side has the better of it and why, and what speaks against it.\n\n# Question\n\n{query}\n\n# Your reasons\n\n{reasons}',
} as const

/**
 * Agents argue different positions before a judge, which decides and answers.
 *
 * In each round the debaters speak one after the other. Each is told what was said since its last turn; a code agent
 * gets all of it as `structuredData: { query, position, round, debate }`. With `requireEvidence` a debater answers
 * `{ argument, evidence }`, where `evidence` is a list of texts. An argument without evidence is sent back once. Then
 * it counts as it is, and the judge is told that it has no evidence. A debater that fails, refuses, is late, or twice
 * answers without an argument is left out and listed in `failures`. The others go on while two positions are left. If
 * there is no argument at all, the run fails.
 *
 * Then the judge is asked twice: for its verdict `{ winner, reasons }`, where the winner is the name of a debater, and
 * for the answer to the query, which is `finalOutput`. A verdict that names none of the debaters is sent back once;
 * after that the run fails with `ReplyInvalidError`. If all arguments are for one position, it wins without a verdict.
 * Decisions in the trace are the positions, each debater left out, arguments without evidence, and the verdict. The
 * debate is in `messageHistory`.
 *
 * @example
 * createTeam({ agents, orchestration: { strategy: 'debate', debaters: ['advocate', 'critic'], judge: 'judge' } })
 */
export interface DebateConfig<N extends AgentName = AnyAgent> {
  strategy: 'debate'
  /** Agents that argue, in the order in which they speak; at least two. */
  debaters: readonly N[]
  /** Agent that judges; it may not be a debater. */
  judge: N
  /**
   * Positions, given to the debaters in turn: with fewer positions than debaters, several debaters share one. At least
   * two. Default: for and against the proposition in turn; a debater whose role takes another side is told to argue for
   * that one.
   */
  positions?: readonly string[]
  /** Number of times that each debater speaks. Default: 3. */
  maxRounds?: number
  /** true: each argument has to cite its evidence. Default: true. */
  requireEvidence?: boolean
  /** Criteria of the judge. Default: sound arguments and the evidence for them. */
  judgeCriteria?: readonly string[]
  /**
   * Your own texts instead of the strategy's: `for`, `against`, `ownSide`, `argue`, `cite`, `evidence`, `verdict`,
   * `criteria`, `answer`.
   */
  prompts?: Partial<Record<string, string>>
}

const WINNER = 'Who has won the debate?'

export const debate: Strategy<DebateConfig> = {
  strategy: 'debate',
  protocol(config, team) {
    check(config, team)
    const { judge, maxRounds = 3, requireEvidence = true } = config
    const say = speaking(DEBATE, config.prompts)
    const sides = config.positions ?? [say('for', {}), say('against', {})]
    const positions = new Map(config.debaters.map((debater, i) => [debater, sides[i % sides.length] ?? '']))
    const criteria = [...(config.judgeCriteria ?? [say('criteria', {})])]
    const why = config.positions ? 'positions says so.' : 'positions is not given: they take sides in turn.'
    return {
      name: 'debate',
      async run(orchestrator, query) {
        const said: Argument[] = []
        const failures: Outcome[] = []
        const speakers = new Map(positions)
        for (const [debater, position] of positions) orchestrator.decide(`What does "${debater}" argue?`, position, why)

        for (let round = 1; round <= maxRounds && hasTwoSides(orchestrator, round, speakers); round++) {
          for (const [debater, position] of [...speakers]) {
            const isGiven = config.positions !== undefined
            const turn = { query, debater, position, isGiven, round, rounds: maxRounds, said }
            try {
              said.push(await speak(orchestrator, turn, say, requireEvidence))
            } catch (thrown) {
              const error = failureOf(orchestrator, thrown)
              failures.push({ agent: debater, ok: false, error })
              speakers.delete(debater)
              orchestrator.decide(`Does "${debater}" go on?`, 'no', `${error.code}: ${error.message}`)
            }
          }
        }
        if (said.length === 0) throw tooFewAnswers(failures, 1, positions.size)

        const { winner, reasons } = await verdictOn(orchestrator, { query, judge, criteria, said }, say)
        const position = positions.get(winner) ?? ''
        const content = say('answer', { query, winner, position, reasons })
        const structuredData = { query, winner, position, reasons, debate: said }
        return resultOf({ agent: judge, message: await lastWord(orchestrator, judge, content, { structuredData }) })
      },
    }
  },
}

type Say = Speak<keyof typeof DEBATE>

/** Argument of a debater. `evidence` is null if no evidence was asked for. */
interface Argument {
  round: number
  agent: string
  position: string
  argument: string
  evidence: string[] | null
}

interface Turn {
  query: string
  debater: string
  position: string
  /** True if the configuration gives the position; then the side of the debater's role does not count. */
  isGiven: boolean
  round: number
  rounds: number
  said: readonly Argument[]
}

function hasTwoSides(orchestrator: OrchestratorContext, round: number, speakers: ReadonlyMap<string, string>): boolean {
  if (new Set(speakers.values()).size > 1) return true
  const left = [...speakers.keys()].join(', ') || 'nobody'
  orchestrator.decide(`Is there a round ${round}?`, 'no', `No two positions are left to argue: ${left}.`)
  return false
}

async function speak(orchestrator: OrchestratorContext, turn: Turn, say: Say, cites: boolean): Promise<Argument> {
  const { query, debater, position, isGiven, round, rounds, said } = turn
  const since = said.slice(said.findLastIndex(({ agent }) => agent === debater) + 1)
  const argues = say('argue', { query, position, round, rounds, debate: asText(since) })
  const task = isGiven ? argues : `${argues}\n\n${say('ownSide', {})}`
  const options = { structuredData: { query, position, round, debate: said }, metadata: IN_WORDS }
  const own = { round, agent: debater, position }
  if (!cites) {
    const message = await orchestrator.request(debater, task, options)
    return { ...own, argument: resultOf({ agent: debater, message }).content, evidence: null }
  }
  const [content, reminder] = [`${task}\n\n${say('cite', {})}`, say('evidence', {})]
  const argument = await argueWithEvidence(orchestrator, debater, content, reminder, options)
  if (argument.evidence.length === 0) {
    const reason = 'It was sent back once; it stands as it is, and the judge is told.'
    orchestrator.decide(`Does "${debater}" give evidence in round ${round}?`, 'no', reason)
  }
  return { ...own, ...argument }
}

/**
 * Asks for an argument with its evidence. An argument without evidence is sent back once, with `reminder`; then it
 * counts as it is. An answer that does not match the schema is treated in the same way.
 */
async function argueWithEvidence(
  orchestrator: OrchestratorContext,
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
    failureOf(orchestrator, error)
    return first
  }
}

async function attempt(orchestrator: OrchestratorContext, debater: string, content: string, options: RequestOptions) {
  const { citedArgument } = await import('./forms.ts')
  try {
    const asked = { ...options, contentField: 'argument' }
    const { value } = await askFor(orchestrator, debater, content, citedArgument, asked)
    const evidence = value.evidence.filter((one) => one.trim() !== '')
    return { said: { argument: value.argument, evidence }, sentBack: false }
  } catch (error) {
    const words = error instanceof ReplyInvalidError ? error.details.content : undefined
    if (typeof words !== 'string' || words.trim() === '') throw error
    return { said: { argument: words, evidence: [] }, sentBack: true }
  }
}

/** @throws {ReplyInvalidError} when the judge twice names none of the debaters. */
async function verdictOn(
  orchestrator: OrchestratorContext,
  { query, judge, criteria, said }: { query: string; judge: string; criteria: string[]; said: readonly Argument[] },
  say: Say,
): Promise<{ winner: string; reasons: string }> {
  const debaters = [...new Set(said.map(({ agent }) => agent))]
  const [first] = debaters
  if (first !== undefined && new Set(said.map(({ position }) => position)).size === 1) {
    const reasons = 'Nobody argued for another position.'
    orchestrator.decide(WINNER, first, reasons)
    return { winner: first, reasons }
  }
  const list = criteria.map((criterion) => `- ${criterion}`).join('\n')
  const content = say('verdict', { query, criteria: list, debaters: debaters.join(', '), debate: asText(said) })
  const { verdictAmong } = await import('./forms.ts')
  const options = { structuredData: { query, criteria, debaters, debate: said }, metadata: IN_WORDS }
  try {
    const { value } = await askFor(orchestrator, judge, content, verdictAmong(debaters), options)
    orchestrator.decide(WINNER, value.winner, `The judge "${judge}" says so. ${value.reasons}`.trim())
    return value
  } catch (error) {
    const isNone = error instanceof ReplyInvalidError
    if (isNone) orchestrator.decide(WINNER, 'none', `The judge "${judge}" named none of ${debaters.join(', ')}.`)
    throw error
  }
}

/** Returns the arguments as text, each under its debater's name with its evidence, or a note that it has none. */
function asText(said: readonly Argument[]): string {
  const sections = said.map(({ round, agent, position, argument, evidence }) => {
    const cited =
      evidence?.length === 0 ? '\n\n(without evidence)' : (evidence ?? []).map((one) => `\n- ${one}`).join('')
    const rest = evidence && evidence.length > 0 ? `\n\nEvidence:${cited}` : cited
    return `## ${agent}, round ${round} (${position})\n\n${argument}${rest}`
  })
  return sections.join('\n\n') || 'Nothing yet.'
}

const texts = listOf(rule('a text that is not empty', (value) => typeof value === 'string' && value.trim() !== ''))

function check(config: DebateConfig, team: readonly string[]): void {
  const { debaters, judge, positions, judgeCriteria } = config
  shape<DebateConfig>(
    {
      strategy: oneOf('debate'),
      debaters: agentsOf(team),
      judge: agentOf(team),
      positions: texts,
      maxRounds: integer(1),
      requireEvidence: flag,
      judgeCriteria: texts,
      prompts: promptsOf(DEBATE),
    },
    'debaters',
    'judge',
  )(config, 'orchestration')
  const wrong = (key: keyof DebateConfig, accepted: string, advice: string) =>
    refused(`orchestration.${key}`, config[key], accepted, advice)
  if (debaters.length < 2) throw wrong('debaters', 'a list of at least two agents', 'One alone has no debate.')
  if (debaters.includes(judge)) throw wrong('judge', 'an agent that is no debater', 'Nobody judges its own case.')
  if (judgeCriteria?.length === 0)
    throw wrong('judgeCriteria', 'a list of at least one text', "Leave it out for the strategy's own.")
  if (positions === undefined) return
  const isRepeated = new Set(positions).size < positions.length
  if (!isRepeated && positions.length >= 2 && positions.length <= debaters.length) return
  const accepted = `from 2 to ${debaters.length} different positions, one for each debater at most`
  throw wrong('positions', accepted, 'Leave it out for the two sides of the question.')
}
