/** A team that is watched: in this process, or served somewhere. */
import type { AgentProgress, ContextInfo, Digest, Team } from '../../index.ts'

/** Piece of an answer as it comes, or the end of it. */
export type Said = { text: string } | { end: 'answer'; text: string } | { end: 'failure'; text: string }

/** An answer that is being made. */
export interface Talk {
  /** Id of its run; undefined as long as a service has not told it. */
  readonly runId: string | undefined
  readonly said: AsyncIterable<Said>
  stop(): Promise<void>
}

export interface TeamSource {
  /** Name of the team where it is one of several that are served. */
  readonly team?: string
  watch(signal: AbortSignal): AsyncIterable<Digest>
  /** Restarts an agent that was stopped for good. */
  restart(agent: string): Promise<void>
  /** Gives the team a query in a thread. */
  say(query: string, threadId: string): Talk
  answer(runId: string, questionId: string, answer: string): Promise<void>
  /** Returns the figures of an agent's context, where they are at hand. */
  context(agent: string): ContextInfo | undefined
  /** Returns how far an agent is with its turn, where that is at hand. */
  progress(agent: string): AgentProgress | undefined
  close(): Promise<void>
}

/** A team of this process, which is closed with the source. */
export function localSource(team: Team): TeamSource {
  return {
    watch: (signal) => team.watch({ signal }),
    restart: (agent) => team.restartAgent(agent),
    say(query, threadId) {
      const run = team.launch(query, { threadId })
      return {
        runId: run.id,
        said: (async function* (): AsyncGenerator<Said> {
          for await (const text of run.text()) yield { text }
          const result = await run.result
          yield result.success
            ? { end: 'answer', text: result.finalOutput }
            : { end: 'failure', text: result.error.message }
        })(),
        stop: () => run.cancel('stopped at the terminal'),
      }
    },
    async answer(runId, questionId, answer) {
      await team.getRun(runId)?.answer(questionId, answer)
    },
    context: (agent) => team.getAgent(agent)?.getContext(),
    progress: (agent) => team.getAgent(agent)?.getProgress(),
    close: () => team.close(),
  }
}
