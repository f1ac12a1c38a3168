/** State of the team that handles of runs and readers of events look up: names, boards, and the place in the log. */
import type { Blackboard } from '../../blackboard/entry.ts'
import { type BlackboardView, readOnly } from '../../blackboard/read-only.ts'
import type { Redactor } from '../logging/redactor.ts'
import { USER_INDEX } from '../state/agent-directory.ts'
import type { RunState } from '../state/run-state.ts'
import type { Supervisor } from '../supervision/supervisor.ts'
import { redactedBlackboard } from '../verbs/redacted-blackboard.ts'
import type { EventSource } from './log-events.ts'
import type { RunHost } from './run-handle.ts'

interface Acts extends Pick<RunHost, 'cancel' | 'onRecords'>, Pick<EventSource, 'resultOf'> {
  /** Resolves when the team has started, and with that its durable log is open. */
  started(): Promise<void>
}

export class RunViews implements RunHost, EventSource {
  readonly #supervisor: Supervisor
  readonly cancel: Acts['cancel']
  readonly onRecords: Acts['onRecords']
  readonly resultOf: Acts['resultOf']
  readonly #started: Acts['started']

  constructor(supervisor: Supervisor, { cancel, onRecords, resultOf, started }: Acts) {
    this.#supervisor = supervisor
    this.cancel = cancel
    this.onRecords = onRecords
    this.resultOf = resultOf
    this.#started = started
  }

  name(index: number): string {
    return this.#supervisor.directory.name(index)
  }

  runId(index: number): string {
    return this.#supervisor.runs.idOf(index)
  }

  get seq(): number {
    return this.#supervisor.journal.seq
  }

  get keptEnd(): number | undefined {
    return this.#supervisor.journal.keptEnd
  }

  get logName(): string | undefined {
    return this.#supervisor.journal.name
  }

  get redactor(): Redactor {
    return this.#supervisor.redactor
  }

  epochOf(index: number): number {
    return this.#supervisor.directory.cells[index]?.epoch ?? 0
  }

  /** Returns the blackboard of the run; without one that of the team, if it has one beside its runs. */
  blackboard(run: RunState | undefined): Blackboard | undefined {
    const { boards, directory, redactor } = this.#supervisor
    const author = directory.name(USER_INDEX)
    if (run) run.boardLent = true
    const board = run ? boards.board(run) && boards.view(run, author) : boards.teamView(author)
    if (!board) return undefined
    const view = redactedBlackboard(board, redactor)
    const write: Blackboard['write'] = async (key, value, entryType, options) => {
      if (this.logName === undefined) await this.#started() // the log that is to have it is not open yet
      const entry = await view.write(key, value, entryType, options)
      await this.written()
      return entry
    }
    return { ...view, write }
  }

  board(run: RunState): BlackboardView | undefined {
    const { boards, redactor } = this.#supervisor
    const board = boards.board(run)
    return board && readOnly(board, run.revisionOf(board), (entries) => redactor.data(entries))
  }

  written(): Promise<void> | undefined {
    return this.#supervisor.journal.written()
  }
}
