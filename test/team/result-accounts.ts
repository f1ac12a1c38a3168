/** What a result says in two places, compared. Each function gives what is not so. */
import type { MultiAgentResult } from '../../src/index.ts'

type Result = MultiAgentResult<unknown>
type Usage = Result['totalTokenUsage']

/** All of it: nothing if the result is true to its trace. */
export function disagreements(result: Result): string[] {
  return [tokens, times, messages, outputs, tasks, board].flatMap((check) => check(result))
}

const NOTHING = { inputTokens: 0, outputTokens: 0, totalTokens: 0, calls: 0 }

function tokens({ tokenUsage, totalTokenUsage, orchestrationTrace: { events } }: Result): string[] {
  const byAgent = new Map<string, Usage>()
  for (const { eventType, agent, details } of events)
    if (eventType === 'model.called')
      byAgent.set(agent!, sum([byAgent.get(agent!) ?? NOTHING, (details as { usage: Usage }).usage]))
  const names = new Set([...byAgent.keys(), ...Object.keys(tokenUsage)])
  return [
    ...[...names].flatMap((name) => differ(`tokens of ${name}`, tokenUsage[name], byAgent.get(name) ?? NOTHING)),
    ...differ('tokens in all', totalTokenUsage, sum(Object.values(tokenUsage))),
  ]
}

function sum(usages: readonly Usage[]): Usage {
  const total = { ...NOTHING }
  for (const usage of usages)
    for (const key of Object.keys(NOTHING) as (keyof typeof NOTHING)[]) total[key] += usage[key]
  return total
}

/** Each stretch between two ends of turns in which an agent had one or more counts once. */
function times({ agentExecutionTimesMs, executionTimeMs, orchestrationTrace }: Result): string[] {
  const { agentActivations, events } = orchestrationTrace
  const ended = events.findLast(({ eventType }) => eventType === 'run.finished')!.timestamp
  const outside = agentActivations.filter(
    ({ startedAt, endedAt }) => startedAt > endedAt || startedAt < ended - executionTimeMs || endedAt > ended,
  )
  const begun = events.filter(({ eventType }) => eventType === 'turn.started').length
  const names = new Set(agentActivations.map(({ agent }) => agent).filter((agent) => !agent.startsWith('$')))
  for (const agent of Object.keys(agentExecutionTimesMs)) names.add(agent)
  return [
    ...[...names].flatMap((agent) => {
      const mine = agentActivations.filter((turn) => turn.agent === agent)
      const ends = [...new Set(mine.flatMap(({ startedAt, endedAt }) => [startedAt, endedAt]))].sort((a, b) => a - b)
      const busy = ends.slice(1).reduce((sum, to, i) => {
        const from = ends[i]!
        return mine.some(({ startedAt, endedAt }) => startedAt <= from && endedAt >= to) ? sum + to - from : sum
      }, 0)
      const isTrue = Math.abs((agentExecutionTimesMs[agent] ?? -1) - busy) < 0.001
      return isTrue ? [] : [`time of ${agent}: the result says ${agentExecutionTimesMs[agent]}, its trace ${busy}`]
    }),
    ...outside.map((turn) => `a turn outside of its run: ${JSON.stringify(turn)}`),
    ...differ('turns', agentActivations.length, begun),
  ]
}

function messages({ messageHistory, orchestrationTrace: { messageFlow } }: Result): string[] {
  const inHistory = messageHistory.map(({ id, type, sender }) => `${type} ${id} from ${sender}`)
  const inFlow = new Set(messageFlow.map(({ messageId, type, from }) => `${type} ${messageId} from ${from}`))
  return [
    ...inHistory.filter((message) => !inFlow.has(message)).map((message) => `not in the flow: ${message}`),
    ...[...inFlow].filter((message) => !inHistory.includes(message)).map((message) => `not in history: ${message}`),
  ]
}

function outputs({ agentOutputs, messageHistory }: Result): string[] {
  const answered = messageHistory.filter(
    ({ type, sender, metadata }) => type === 'response' && !('error' in metadata) && !sender.startsWith('$'),
  )
  const names = new Set([...answered.map(({ sender }) => sender), ...Object.keys(agentOutputs)])
  return [...names].flatMap((name) =>
    differ(
      `what ${name} answered`,
      agentOutputs[name]?.map(({ content }) => content),
      answered.filter(({ sender }) => sender === name).map(({ content }) => content),
    ),
  )
}

function tasks({ taskCompletion, failures, orchestrationTrace: { events } }: Result): string[] {
  const last: Record<string, string> = {}
  for (const { eventType, details } of events)
    if (eventType === 'task') {
      const { task } = details as { task: { id: string; status: string } }
      last[task.id] = task.status
    }
  const failed = Object.keys(last).filter((id) => ['failed', 'refused'].includes(last[id]!))
  const listed = failures.map(({ taskId }) => taskId!).filter((id) => failed.includes(id))
  return [...differ('tasks', taskCompletion, last), ...differ('tasks that failed', listed.sort(), failed.sort())]
}

function board({ blackboardState, orchestrationTrace: { events } }: Result): string[] {
  const written = events.filter(({ eventType }) => eventType === 'blackboard')
  const keys = [...new Set(written.map(({ details }) => (details as { key: string }).key))]
  return differ('keys on the blackboard', Object.keys(blackboardState ?? {}).sort(), keys.sort())
}

function differ(what: string, said: unknown, found: unknown): string[] {
  const [a, b] = [JSON.stringify(said), JSON.stringify(found)]
  return a === b ? [] : [`${what}: the result says ${a}, its trace ${b}`]
}
