/** `dramatis run <team file> "<query>"`: one query, one answer. */
import { environment } from '../../environment.ts'
import { createTeam, type MultiAgentResult } from '../../index.ts'
import { inFlowMode } from '../../protocols/flow-mode.ts'
import { lineLogger } from '../../runtime/logging/default-logger.ts'
import type { Answer } from '../answer-stream.ts'
import { askPerson } from '../ask-person.ts'
import type { CodeWatch } from '../code-watch.ts'
import { EXIT, exitCodeOf, failureWords } from '../failure.ts'
import { listenForInterrupt, unlessAborted } from '../interrupt.ts'
import { resultText } from '../json-text.ts'
import { loadEnv } from '../load-env.ts'
import { loadTeamFile } from '../load-team-file.ts'
import { progressOn, withoutEvents } from '../progress.ts'
import type { Screen } from '../screen.ts'
import { traceFile } from '../trace-file.ts'

/** Streams of the process that a command runs in. */
export interface Surroundings {
  answer: Answer
  stderr: Screen
  /** Source of the answers to agents' questions. */
  stdin: NodeJS.ReadableStream
  /** The working directory. */
  folder: string
}

export interface RunFlags {
  json?: boolean
  trace?: string
  timeout?: number
  /** Reloads agents whose files change while the query runs. */
  watch?: boolean
}

/** Runs the query and resolves to the exit code. Rejects for everything that kept the run from beginning. */
export async function run(
  file: string,
  query: string,
  { json = false, trace, timeout, watch = false }: RunFlags,
  { answer, stderr, stdin, folder }: Surroundings,
): Promise<number> {
  const writeTrace = trace === undefined ? undefined : traceFile(trace, folder)
  loadEnv(folder)
  const progress = await progressOn(stderr)
  answer.divertTo(progress.print)
  const { signal, stop } = listenForInterrupt(progress.print)
  try {
    const loaded = await unlessAborted(loadTeamFile(file, folder), signal)
    const definition = inFlowMode(loaded, environment().FLOW_MODE)
    const team = createTeam({ ...definition, logger: definition.logger ?? withoutEvents(lineLogger(progress.print)) })
    const asking = askPerson(team, stdin, progress.print)
    let codeWatch: CodeWatch | undefined
    try {
      progress.watch(team)
      if (watch) {
        const { CodeWatch } = await import('../code-watch.ts') // late: most runs watch nothing
        codeWatch = new CodeWatch(team, definition, (line) => progress.print(`${line}\n`))
        await codeWatch.ready
      }
      const result = await team.execute(query, { signal, timeoutMs: timeout })
      progress.end()
      const code = await tell(result)
      await writeTrace?.(result.orchestrationTrace)
      return code
    } finally {
      codeWatch?.close()
      asking.stop()
      progress.end()
      await team.close()
    }
  } catch (error) {
    if (signal.aborted) return EXIT.interrupted
    throw error
  } finally {
    stop()
  }

  async function tell(result: MultiAgentResult): Promise<number> {
    if (json) await answer.write(resultText(result))
    else if (result.success) await answer.write(result.finalOutput.replace(/\n?$/, '\n'))
    if (signal.aborted && !result.success) return EXIT.interrupted
    if (!result.success) stderr.write(`error: ${failureWords(result.error)}\n`)
    const told = result.error?.message ?? '' // a text for people has no reasons
    for (const { agent, error } of result.failures)
      if (!told.includes(error.message)) stderr.write(`left out: ${agent}: ${failureWords(error)}\n`)
    return result.success ? EXIT.done : exitCodeOf(result.error)
  }
}
