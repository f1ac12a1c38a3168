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
  REFUSED,
  REQUEST,
  RESPONSE,
  RESULT,
  recipientOf,
  SEND,
  senderOf,
} from '../mailbox/frame.ts'
import type { Memory } from '../mailbox/memory.ts'

/** A turn that did something before it was announced. */
const UNNAMED = ''

interface Doing {
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
  status: AgentStatus
  epoch: number | undefined
}

export class StatusFold {
  readonly #name: (index: number) => string
  readonly #agents = new Map<string, Doing>()

  constructor(name: (index: number) => string) {
    this.#name = name
  }

  /** A life begins, is ready, or ends. */
  lives(agent: string, status: AgentStatus, epoch: number): StatusChange | undefined {
    const doing = this.#doing(agent)
    doing.life = status
    doing.epoch = epoch
    doing.turns.clear()
    return this.#change(agent, doing)
  }

  begins(agent: string, messageId: string): StatusChange | undefined {
    if (isRuntimes(agent)) return undefined
    const doing = this.#doing(agent)
    if (doing.turns.size === 0 && doing.lastTurn !== messageId) doing.waits.clear()
    doing.turns.delete(UNNAMED)
    doing.turns.add(messageId)
    doing.lastTurn = messageId
    return this.#change(agent, doing)
  }

  /** The end of a turn that nobody has announced is its beginning too. */
  beginsUnannounced(memory: Memory, at: number): StatusChange | undefined {
    if (kindOf(memory, at) !== END || flagsOf(memory, at) & ANNOUNCED) return undefined
    return this.begins(this.#name(senderOf(memory, at)), idOf(memory, at))
  }

  /** What a frame says of its sender. */
  ofSender(memory: Memory, at: number): StatusChange | undefined {
    const agent = this.#name(senderOf(memory, at))
    const kind = kindOf(memory, at)
    const correlation = correlationOf(memory, at)
    if (isRuntimes(agent)) return undefined
    if (kind === END) {
      const doing = this.#doing(agent)
      doing.turns.delete(idOf(memory, at))
      doing.turns.delete(UNNAMED)
      doing.waits.clear()
      return this.#change(agent, doing)
    }
    const asks = kind === REQUEST || kind === CALL || kind === SEND
    if (!(asks && correlation > 0) && kind !== CANCEL) return undefined // below zero: the host's own, in an agent's name
    const doing = this.#doing(agent)
    if (kind === CANCEL) doing.waits.delete(correlation)
    else {
      doing.waits.add(correlation)
      if (doing.turns.size === 0) doing.turns.add(UNNAMED)
    }
    return this.#change(agent, doing)
  }

  /** What an answer says of who waited for it. */
  ofRecipient(memory: Memory, at: number): StatusChange | undefined {
    if (!ANSWERS.has(kindOf(memory, at))) return undefined
    const agent = this.#name(recipientOf(memory, at))
    const doing = this.#agents.get(agent)
    return doing?.waits.delete(correlationOf(memory, at)) ? this.#change(agent, doing) : undefined
  }

  #doing(agent: string): Doing {
    let doing = this.#agents.get(agent)
    if (!doing) {
      doing = { life: 'idle', epoch: undefined, turns: new Set(), waits: new Set(), lastTurn: '', told: undefined }
      this.#agents.set(agent, doing)
    }
    return doing
  }

  #change(agent: string, doing: Doing): StatusChange | undefined {
    const status = statusOf(doing)
    if (status === doing.told) return undefined
    doing.told = status
    return { agent, status, epoch: doing.epoch }
  }
}

const ANSWERS: ReadonlySet<number> = new Set([END, RESPONSE, RESULT, ACCEPTED, REFUSED])

/** The script has many turns at a time, and the caller none. */
const isRuntimes = (agent: string) => agent.startsWith('$')

function statusOf({ life, turns, waits }: Doing): AgentStatus {
  if (life !== 'idle' || turns.size === 0) return life
  return waits.size > 0 ? 'waiting' : 'running'
}
