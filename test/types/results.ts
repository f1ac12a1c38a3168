/** Results, runs and events: what is there is known from what was asked and what was checked. */
import type {
  AgentInstance,
  Contribution,
  ContributionReport,
  DramatisError,
  MultiAgentResult,
  Run,
  RuntimeEvent,
  Team,
} from 'dramatis'
import { ConfigurationError, TaskRefusedError, TeamOverloadedError } from 'dramatis'
import { z } from 'zod'

export async function execute(team: Team): Promise<string> {
  const result = await team.execute('q', { output: z.object({ answers: z.array(z.string()) }), timeoutMs: 5 })
  if (!result.success) {
    const nothing: null = result.data
    // @ts-expect-error there is no answer in a failure
    result.finalOutput.length
    return result.error.code === 'RUN_TIMEOUT' ? 'slow' : `${result.error.message}${nothing}`
  }
  const none: null = result.error
  const first: string | undefined = result.data.answers[0]
  const partial = result.failures.map(({ agent, error, taskId }) => `${agent} ${taskId}: ${error.message}`)
  return `${first}${none}${partial.join()}${result.finalOutput}`
}

export async function plain(team: Team): Promise<undefined> {
  const result: MultiAgentResult = await team.execute('q')
  if (!result.success) throw result.error
  return result.data
}

export async function credit(team: Team): Promise<string[]> {
  const { contributions } = await team.execute('q')
  const report: ContributionReport = contributions
  const ann: Contribution | undefined = report.agents.ann
  // @ts-expect-error there may be no such agent
  report.agents.bob.timeMs
  const words = report.sentences.map(({ text, saidBy }) => `${text} (${saidBy.join()})`)
  return [...words, `${ann?.tokens.totalTokens} ${ann?.entries.used.join()} ${ann?.sentences.length}`]
}

export async function follow(team: Team): Promise<void> {
  const run: Run = team.launch('q', { metadata: { user: 'ann' }, threadId: 't', priority: 2, runId: 'r' })
  for await (const event of run.events({ after: 3, types: ['output.delta', 'run.finished'] })) describe(event)
  for await (const event of team.stream('q', { signal: AbortSignal.timeout(5) })) describe(event)
  for await (const piece of run.text()) piece.toUpperCase()
  const known: Run<unknown> | undefined = team.getRun('r')
  await known?.cancel('no longer wanted')
  const listed = await team.listRuns({ status: 'running' })
  listed.map(({ id, startedAt }) => `${id}${startedAt.toFixed()}`)
  const agent: AgentInstance | undefined = team.getAgent('a')
  await agent?.run('task', { timeoutMs: 5 })
}

export function describe(event: RuntimeEvent): string {
  switch (event.type) {
    case 'run.finished':
      return event.result.success ? event.result.finalOutput : event.result.error.code
    case 'agent.crashed':
      return `${event.agent} ${event.epoch} ${event.error.message} ${event.restartInMs ?? 'never'}`
    case 'task':
      return `${event.task.description} ${event.previous} ${event.task.status}`
    case 'turn.started':
    case 'turn.finished':
      return `${event.agent} ${event.attempt}`
    case 'message.dead':
      return event.letter.reason
    default:
      // @ts-expect-error not every event has an agent
      return event.agent
  }
}

export function explain(error: unknown): string {
  if (error instanceof TeamOverloadedError) return JSON.stringify(error.toJSON())
  if (error instanceof ConfigurationError) return `${error.code satisfies 'CONFIGURATION'} ${error.details.path}`
  if (error instanceof TaskRefusedError) return (error satisfies DramatisError).code satisfies 'TASK_REFUSED'
  return 'unknown'
}
