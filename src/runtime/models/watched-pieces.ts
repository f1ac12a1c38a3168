/**
 * Logs the pieces of a model's answer for those who watch the run. The host logs them once, whatever happens to the
 * thread of the turn, so a reader gets no piece twice. What is void later is marked: the text of a round that ended in
 * tool calls, and all pieces of an attempt that was made again.
 */
import type { Watched } from '../../actors/definition/model.ts'
import type { Unrecorded } from '../log/records.ts'
import type { Redactor } from '../logging/redactor.ts'
import type { Heard } from '../providers/collect.ts'
import type { Cell } from '../state/cell.ts'
import type { RunState } from '../state/run-state.ts'

interface Needs {
  readonly caller: {
    readonly cell: Cell
    readonly run: RunState
    readonly callId: string
    /** True if an earlier process has made the call, whose pieces may be in the log. */
    readonly isAgain?: boolean | undefined
  }
  readonly watched: Watched
  readonly redactor: Redactor
  record(record: Unrecorded): void
}

type Spoken = Exclude<Heard, { part: 'restart' }>
type Channel = ReturnType<Redactor['pieces']>

export class WatchedPieces {
  readonly #needs: Needs
  readonly #of: { agent: string; callId: string } & Watched
  /** Text, reasoning and each tool input on their own: a key may begin in one piece and end in the next. */
  #channels = new Map<string, Channel>()
  #hasText = false

  constructor(needs: Needs) {
    const { caller, watched } = needs
    const { messageId, round, answerOf } = watched
    this.#needs = needs
    this.#of = { agent: caller.cell.name, messageId, callId: caller.callId, round, answerOf }
    if (caller.isAgain) this.#supersede('retried')
  }

  hear(heard: Heard): void {
    if (heard.part === 'restart') this.#restart()
    else this.#channel(heard).push(heard.text)
  }

  /** Ends the pieces of an answer. `callsTools`: the answer is not its text. */
  end(callsTools: boolean): void {
    for (const channel of this.#channels.values()) channel.end()
    if (callsTools && this.#hasText) this.#supersede('tool_calls')
  }

  #channel(heard: Spoken): Channel {
    const key = heard.part === 'tool_input' ? `${heard.part} ${heard.id}` : heard.part
    let channel = this.#channels.get(key)
    if (!channel) {
      channel = this.#needs.redactor.pieces((text) => this.#say(heard, text))
      this.#channels.set(key, channel)
    }
    return channel
  }

  #say(heard: Spoken, text: string): void {
    const { caller, redactor, record } = this.#needs
    if (caller.run.over) return
    this.#hasText ||= heard.part === 'text'
    const ofTool = heard.part === 'tool_input' && redactor.data({ toolCallId: heard.id, tool: heard.name })
    record({ kind: 'model.piece', ...this.#of, part: heard.part, text, ...ofTool })
  }

  #restart(): void {
    const hadPieces = this.#channels.size > 0
    this.#channels = new Map()
    this.#hasText = false
    if (hadPieces) this.#supersede('retried')
  }

  #supersede(reason: 'tool_calls' | 'retried'): void {
    if (!this.#needs.caller.run.over) this.#needs.record({ kind: 'model.superseded', ...this.#of, reason })
  }
}
