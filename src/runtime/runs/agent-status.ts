/**
 * Status of each agent over time, for readers of events. It is folded from records that the log has anyway. It costs
 * the agents nothing: a turn writes no extra record, and without a reader nothing is folded.
 */

import { OWN_WORK } from '../../actors/definition/own-work.ts'
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
import type { HostRecord, Whose } from '../log/records.ts'
import { busiest } from '../state/busiest.ts'

/** Number of interrupted turns that are remembered, in case they are redelivered. */
const CUT_OFF = 1_024
/**
 * Number among the waits for a writer that waits for its reader. Such a wait is no request and has no number of its
 * own. It ends with the thread.
 */
const READER = 0

/** State of one turn, over its attempts. */
interface Doing {
  /** Instance whose thread runs the turn; undefined if the turn did something before it was announced. */
  instance: number | undefined
  /**
   * True if the turn runs beside the other open turns. Otherwise the turn that began last is at work: it has overtaken
   * the others.
   */
  beside: boolean
  /** True while the turn's thread runs. */
  open: boolean
  /**
   * Numbers of the turn's unanswered requests to others, or to the host. They survive the exit of the thread that
   * asked.
   */
  readonly waits: Set<number>
}

interface Agent {
  readonly name: string
  /** Status of each instance's thread: 'idle' while it runs. */
  readonly lives: AgentStatus[]
  epoch: number | undefined
  readonly turns: Map<number, Doing>
  told: AgentStatus | undefined
}

/** Change of an agent's status. `epoch` is undefined if the log does not have it. */
export interface StatusChange {
  agent: string
  index: number
  status: AgentStatus
  epoch: number | undefined
}

export class StatusFold {
  readonly #name: (index: number) => string
  /** Agents by index: two runs may have agents of the same name. */
  readonly #agents = new Map<number, Agent>()

  constructor(name: (index: number) => string) {
    this.#name = name
  }

  /** Notes that a thread starts, is ready, or ends. */
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
    turns.delete(turn) // moves it to the end
    turns.set(turn, { instance, beside, open: true, waits })
    if (turns.size > CUT_OFF) for (const [other, { open }] of turns) if (!open) turns.delete(other)
    return this.#change(index, agent)
  }

  /** Notes the beginning of a turn that was not announced, from its end. */
  beginsUnannounced(memory: Memory, at: number): StatusChange | undefined {
    if (kindOf(memory, at) !== END || flagsOf(memory, at) & ANNOUNCED) return undefined
    const index = senderOf(memory, at)
    return this.begins({ index, agent: this.#name(index), turn: turnOf(memory, at), beside: true })
  }

  /** Updates the status of the sender of a frame. */
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
    if (!(asks && correlation > 0) && kind !== CANCEL && !reads) return undefined // negative: the host's own calls
    const agent = this.#agent(index, name)
    if (kind === CANCEL) settle(agent, correlation)
    else if (reads && limitOf(memory, at) === 0) agent.turns.get(turn)?.waits.delete(READER)
    else turnIn(agent, turn).waits.add(correlation)
    return this.#change(index, agent)
  }

  /** Updates the status of the agent that waited for an answer. */
  ofRecipient(memory: Memory, at: number): StatusChange | undefined {
    if (!ANSWERS.has(kindOf(memory, at))) return undefined
    const index = recipientOf(memory, at)
    const agent = this.#agents.get(index)
    return agent && settle(agent, correlationOf(memory, at)) ? this.#change(index, agent) : undefined
  }

  /** Returns the agent at an index. The index of a run agent is reused after its run is over. */
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

/** Updates the fold with a record. */
export function statusAfter(record: HostRecord, fold: StatusFold): StatusChange | undefined {
  switch (record.kind) {
    case 'agent.status':
      return fold.lives(record, record.status)
    case 'agent.ready':
      return fold.lives(record, 'idle')
    case 'turn.started':
      return fold.begins(record)
    default:
      return undefined
  }
}

const isOwnWork = (memory: Memory, at: number) => OWN_WORK.has(readBody(memory, at).content)

/** Returns the turn that did something, announced or not. */
function turnIn({ turns }: Agent, turn: number): Doing {
  const known = turns.get(turn)
  if (known) return known
  const doing: Doing = { instance: undefined, beside: false, open: true, waits: new Set() }
  turns.set(turn, doing)
  return doing
}

/** Ends a wait; false: there is no such wait. */
function settle({ turns }: Agent, correlation: number): boolean {
  if (correlation === READER) return false
  for (const { waits } of turns.values()) if (waits.delete(correlation)) return true
  return false
}

const ANSWERS: ReadonlySet<number> = new Set([END, RESPONSE, RESULT, ACCEPTED, REFUSED])

/** Checks for a name of the runtime. The script has many turns at a time, and the caller has none. */
const isRuntimes = (agent: string) => agent.startsWith('$')

function statusOf({ lives, turns }: Agent): AgentStatus {
  const life = busiest(lives)
  const open = [...turns.values()].filter((turn) => turn.open)
  const last = open.at(-1)
  if (life !== 'idle' || !last) return life
  const working = last.beside ? open.some(({ waits }) => waits.size === 0) : last.waits.size === 0
  return working ? 'running' : 'waiting'
}
