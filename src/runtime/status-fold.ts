/**
 * What each agent does now, folded from records that are in the log anyway, for whoever reads events. It costs the agents
 * nothing: a turn writes no record for it, and where nobody reads nothing is folded.
 */
import type { AgentStatus } from '../actors/task.ts'
import {
  ACCEPTED,
  ANNOUNCED,
  CALL,
  CANCEL,
  correlationOf,
  END,
  flagsOf,
  idOf,
  kindOf,
  limitOf,
  REFUSED,
  REQUEST,
  RESPONSE,
  RESULT,
  recipientOf,
  SEND,
  STREAM_WAIT,
  senderOf,
} from '../mailbox/frame.ts'
import type { Memory } from '../mailbox/memory.ts'

/** A turn that did something before it was announced. */
const UNNAMED = ''
/** Among the waits: that of a writer for its reader, which is no request and has no number. It dies with its life. */
const READER = 0

interface Doing {
  readonly agent: string
  /** Of its life: 'idle' where it lives. */
  life: AgentStatus
  epoch: number | undefined
  /** The messages that it is at: more than one when a message of higher priority overtook one that had been announced. */
  readonly turns: Set<string>
  /** What it has asked others, or the host, and has no answer to. They survive the death of their asker. */
  readonly waits: Set<number>
  lastTurn: string
  told: AgentStatus | undefined
}

/** A status that is new. `epoch` is undefined where the log does not say. */
export interface StatusChange {
  agent: string
  index: number
  status: AgentStatus
  epoch: number | undefined
}

export class StatusFold {
  readonly #name: (index: number) => string
  /** By index: two runs may have agents of one name. */
  readonly #agents = new Map<number, Doing>()

  constructor(name: (index: number) => string) {
    this.#name = name
  }

  /** A life begins, is ready, or ends. */
  lives(of: { index: number; agent: string; epoch: number }, status: AgentStatus): StatusChange | undefined {
    const doing = this.#doing(of.index, of.agent)
    doing.life = status
    doing.epoch = of.epoch
    doing.turns.clear()
    doing.waits.delete(READER)
    return this.#change(of.index, doing)
  }

  begins(index: number, agent: string, messageId: string): StatusChange | undefined {
    if (isRuntimes(agent)) return undefined
    const doing = this.#doing(index, agent)
    if (doing.turns.size === 0 && doing.lastTurn !== messageId) doing.waits.clear()
    doing.turns.delete(UNNAMED)
    doing.turns.add(messageId)
    doing.lastTurn = messageId
    return this.#change(index, doing)
  }

  /** The end of a turn that nobody has announced is its beginning too. */
  beginsUnannounced(memory: Memory, at: number): StatusChange | undefined {
    if (kindOf(memory, at) !== END || flagsOf(memory, at) & ANNOUNCED) return undefined
    const index = senderOf(memory, at)
    return this.begins(index, this.#name(index), idOf(memory, at))
  }

  /** What a frame says of its sender. */
  ofSender(memory: Memory, at: number): StatusChange | undefined {
    const index = senderOf(memory, at)
    const agent = this.#name(index)
    const kind = kindOf(memory, at)
    const correlation = correlationOf(memory, at)
    if (isRuntimes(agent)) return undefined
    if (kind === END) {
      const doing = this.#doing(index, agent)
      doing.turns.delete(idOf(memory, at))
      doing.turns.delete(UNNAMED)
      doing.waits.clear()
      return this.#change(index, doing)
    }
    const asks = kind === REQUEST || kind === CALL || kind === SEND
    const reads = kind === STREAM_WAIT
    if (!(asks && correlation > 0) && kind !== CANCEL && !reads) return undefined // below zero: the host's own, in an agent's name
    const doing = this.#doing(index, agent)
    if (kind === CANCEL || (reads && limitOf(memory, at) === 0)) doing.waits.delete(correlation)
    else {
      doing.waits.add(correlation)
      if (doing.turns.size === 0) doing.turns.add(UNNAMED)
    }
    return this.#change(index, doing)
  }

  /** What an answer says of who waited for it. */
  ofRecipient(memory: Memory, at: number): StatusChange | undefined {
    if (!ANSWERS.has(kindOf(memory, at))) return undefined
    const index = recipientOf(memory, at)
    const doing = this.#agents.get(index)
    return doing?.waits.delete(correlationOf(memory, at)) ? this.#change(index, doing) : undefined
  }

  /** An index comes again too, when the run of its agent is over. */
  #doing(index: number, agent: string): Doing {
    let doing = this.#agents.get(index)
    if (doing?.agent !== agent) {
      const nothing = { turns: new Set<string>(), waits: new Set<number>(), lastTurn: '', told: undefined }
      doing = { agent, life: 'idle', epoch: undefined, ...nothing }
      this.#agents.set(index, doing)
    }
    return doing
  }

  #change(index: number, doing: Doing): StatusChange | undefined {
    const status = statusOf(doing)
    if (status === doing.told) return undefined
    doing.told = status
    return { agent: doing.agent, index, status, epoch: doing.epoch }
  }
}

const ANSWERS: ReadonlySet<number> = new Set([END, RESPONSE, RESULT, ACCEPTED, REFUSED])

/** The script has many turns at a time, and the caller none. */
const isRuntimes = (agent: string) => agent.startsWith('$')

function statusOf({ life, turns, waits }: Doing): AgentStatus {
  if (life !== 'idle' || turns.size === 0) return life
  return waits.size > 0 ? 'waiting' : 'running'
}
