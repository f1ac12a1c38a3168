/** Strategy `sequential`: a pipeline, in which each agent works on the answer of the one before it. */

import { flag, oneOf, shape } from '../shared/checks.ts'
import { TaskRefusedError, UnknownAgentError } from '../shared/errors.ts'
import { lastWord, withVerbs } from './asking.ts'
import { FullContext } from './pass-on.ts'
import { type Answer, resultOf } from './positions.ts'
import { type AgentName, type AnyAgent, agentsOf, choosing, namesIn, type Strategy } from './strategy.ts'

/**
 * A pipeline: each agent works on the answer of the one before it.
 *
 * @example
 * createTeam({ agents, orchestration: { strategy: 'sequential', agentOrder: ['writer', 'editor'] } })
 */
export interface SequentialConfig<N extends AgentName = AnyAgent> {
  strategy: 'sequential'
  /** Order of the agents; an agent may be in it more than once. Default: all agents, in the team's order. */
  agentOrder?: readonly N[]
  /**
   * false: each agent gets only the previous answer. true: it gets the query and every answer so far, under its agent's
   * name. A model gets a summary of the answers before the previous one, if these have more than 32,768 characters (or
   * than `maxTokens` of its role); its own model writes it. Default: false.
   */
  passFullContext?: boolean
  /**
   * true: an agent that refuses is left out, and is listed in `failures`; models have the tool `refuse`. false: its
   * refusal fails the run. Default: false.
   */
  allowSkip?: boolean
  /**
   * true: an answer with `structuredData.final === true` ends the run; models before the last have the tool `finish`.
   * Default: true.
   */
  earlyTermination?: boolean
}

/** Structured data goes from each agent to the next; the result is the last answer. */
export const sequential: Strategy<SequentialConfig> = {
  strategy: 'sequential',
  protocol(config, team) {
    shape<SequentialConfig>({
      strategy: oneOf('sequential'),
      agentOrder: agentsOf(team, 'repeats'),
      passFullContext: flag,
      allowSkip: flag,
      earlyTermination: flag,
    })(config, 'orchestration')
    const { passFullContext = false, allowSkip = false, earlyTermination = true } = config
    const choose = choosing(config.agentOrder)
    return {
      name: 'sequential',
      async run(orchestrator, query) {
        const order = choose(namesIn(orchestrator))
        const answers: Answer[] = []
        const context = passFullContext ? new FullContext(orchestrator) : undefined
        let refusal: TaskRefusedError | undefined
        for (const [at, agent] of order.entries()) {
          const last = answers.at(-1)?.message
          try {
            const content = !last ? query : context ? `${query}\n\n${await context.for(agent, answers)}` : last.content
            const isLast = at === order.length - 1
            const finish = earlyTermination && !isLast ? ['finish'] : []
            const verbs = withVerbs(orchestrator.agents, agent, ...finish, ...(allowSkip ? ['refuse'] : []))
            const options = { structuredData: last?.structuredData, ...(verbs && { metadata: verbs }) }
            const message = isLast
              ? await lastWord(orchestrator, agent, content, options)
              : await orchestrator.request(agent, content, options)
            answers.push({ agent, message })
          } catch (error) {
            if (!allowSkip || !(error instanceof TaskRefusedError)) throw error
            refusal = error
            orchestrator.decide(`Can the run do without "${agent}"?`, 'yes', `It refused: ${error.message}`)
            continue
          }
          const rest = order.slice(at + 1)
          if (earlyTermination && rest.length > 0 && isFinal(answers.at(-1))) {
            orchestrator.decide('Is the work done?', 'yes', `"${agent}" calls it final; not asked: ${rest.join(', ')}.`)
            break
          }
        }
        const last = answers.at(-1)
        if (!last) throw refusal ?? new UnknownAgentError('The team has no agent to ask. Add one with addAgent().')
        return resultOf(last)
      },
    }
  },
}

function isFinal(answer: Answer | undefined): boolean {
  if (answer?.message.metadata.final === true) return true // a model has called `finish`
  const data = answer?.message.structuredData
  return typeof data === 'object' && data !== null && 'final' in data && data.final === true
}
