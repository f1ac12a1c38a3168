/**
 * What each agent does now, folded from records that are in the log anyway, for whoever reads events. It costs the agents
 * nothing: a turn writes no record for it, and where nobody reads nothing is folded.
 */
import type { AgentStatus } from '../../actors/definition/task.ts'
import {
  ACCEPTED,
  ANNOUNCED,
  CALL,
  CANCEL,
  correlationOf,
  END,
  flagsOf,
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
  turnOf,
} from '../../mailbox/frame.ts'
import { readBody } from '../../mailbox/frame-body.ts'
import type { Memory } from '../../mailbox/memory.ts'
import type { Whose } from '../log/records.ts'
import { busiest } from '../state/busiest.ts'
import { OWN_WORK } from '../verbs/own-work.ts'

/** So many turns that were cut off are remembered, should they come again. */
const CUT_OFF = 1_024
/** Among the waits: that of a writer for its reader, which is no request and has no number. It dies with its life. */
const READER = 0

/** One turn, over its attempts. */
interface Doing {
  /** In whose thread it is; undefined where it did something before it was announced. */
  instance: number | undefined
  /** It goes on beside the others that are open. Else the one that began last is at work: it has overtaken the others. */
  beside: boolean
  /** Its thread lives. */
  open: boolean
  /** What it has asked others, or the host, and has no answer to. They survive the death of their asker. */
  readonly waits: Set<number>
}

interface Agent {
  readonly name: string
  /** Of the life of each instance: 'idle' where it lives. */
  readonly lives: AgentStatus[]
  epoch: number | undefined
  readonly turns: Map<number, Doing>
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
  readonly #agents = new Map<number, Agent>()

  constructor(name: (index: number) => string) {
    this.#name = name
  }

  /** A life begins, is ready, or ends. */
  lives(
    { index, agent: name, instance = 0, epoch }: Whose & { epoch: number },
    status: AgentStatus,
  ): StatusChange | undefined {
    const agent = this.#agent(index, name)
    agent.lives[instance] = status
    agent.epoch = epoch
    for (const turn of agent.turns.values()) {
      if ((turn.instance ?? instance) !== instance) continue
      turn.open = false
      turn.waits.delete(READER)
    }
    return this.#change(index, agent)
  }

  begins({
    index,
    agent: name,
    instance = 0,
    turn,
    beside,
  }: Whose & { turn: number; beside: boolean }): StatusChange | undefined {
    if (isRuntimes(name)) return undefined
    const agent = this.#agent(index, name)
    const { turns } = agent
    const waits = turns.get(turn)?.waits ?? new Set()
    turns.delete(turn) // now it is the last
    turns.set(turn, { instance, beside, open: true, waits })
    if (turns.size > CUT_OFF) for (const [other, { open }] of turns) if (!open) turns.delete(other)
    return this.#change(index, agent)
  }

  /** The end of a turn that nobody has announced is its beginning too. */
  beginsUnannounced(memory: Memory, at: number): StatusChange | undefined {
    if (kindOf(memory, at) !== END || flagsOf(memory, at) & ANNOUNCED) return undefined
    const index = senderOf(memory, at)
    return this.begins({ index, agent: this.#name(index), turn: turnOf(memory, at), beside: true })
  }

  /** What a frame says of its sender. */
  ofSender(memory: Memory, at: number): StatusChange | undefined {
    const index = senderOf(memory, at)
    const name = this.#name(index)
    const kind = kindOf(memory, at)
    const correlation = correlationOf(memory, at)
    if (isRuntimes(name)) return undefined
    const turn = turnOf(memory, at)
    if (kind === END) {
      const agent = this.#agent(index, name)
      agent.turns.delete(turn)
      return this.#change(index, agent)
    }
    const asks = kind === REQUEST || kind === SEND || (kind === CALL && !isOwnWork(memory, at))
    const reads = kind === STREAM_WAIT
    if (!(asks && correlation > 0) && kind !== CANCEL && !reads) return undefined // below zero: the host's own, in an agent's name
    const agent = this.#agent(index, name)
    if (kind === CANCEL) settle(agent, correlation)
    else if (reads && limitOf(memory, at) === 0) agent.turns.get(turn)?.waits.delete(READER)
    else turnIn(agent, turn).waits.add(correlation)
    return this.#change(index, agent)
  }

  /** What an answer says of who waited for it. */
  ofRecipient(memory: Memory, at: number): StatusChange | undefined {
    if (!ANSWERS.has(kindOf(memory, at))) return undefined
    const index = recipientOf(memory, at)
    const agent = this.#agents.get(index)
    return agent && settle(agent, correlationOf(memory, at)) ? this.#change(index, agent) : undefined
  }

  /** An index comes again too, when the run of its agent is over. */
  #agent(index: number, name: string): Agent {
    let agent = this.#agents.get(index)
    if (agent?.name !== name) {
      agent = { name, lives: ['idle'], epoch: undefined, turns: new Map(), told: undefined }
      this.#agents.set(index, agent)
    }
    return agent
  }

  #change(index: number, agent: Agent): StatusChange | undefined {
    const status = statusOf(agent)
    if (status === agent.told) return undefined
    agent.told = status
    return { agent: agent.name, index, status, epoch: agent.epoch }
  }
}

const isOwnWork = (memory: Memory, at: number) => OWN_WORK.has(readBody(memory, at).content)

/** The turn that did something, announced or not. */
function turnIn({ turns }: Agent, turn: number): Doing {
  const known = turns.get(turn)
  if (known) return known
  const doing: Doing = { instance: undefined, beside: false, open: true, waits: new Set() }
  turns.set(turn, doing)
  return doing
}

/** That wait is over; false: there is none. */
function settle({ turns }: Agent, correlation: number): boolean {
  if (correlation === READER) return false
  for (const { waits } of turns.values()) if (waits.delete(correlation)) return true
  return false
}

const ANSWERS: ReadonlySet<number> = new Set([END, RESPONSE, RESULT, ACCEPTED, REFUSED])

/** The script has many turns at a time, and the caller none. */
const isRuntimes = (agent: string) => agent.startsWith('$')

function statusOf({ lives, turns }: Agent): AgentStatus {
  const life = busiest(lives)
  const open = [...turns.values()].filter((turn) => turn.open)
  const last = open.at(-1)
  if (life !== 'idle' || !last) return life
  const working = last.beside ? open.some(({ waits }) => waits.size === 0) : last.waits.size === 0
  return working ? 'running' : 'waiting'
}
