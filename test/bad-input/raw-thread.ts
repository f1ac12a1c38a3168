/**
 * A thread that is all the test's: it reads what the host hands to it, and what stands in its outbox is written by the
 * test, word by word. To the host it is an agent's thread like any other.
 */
import type t from 'tap'
import type { Assignment, Started } from '../../src/actors/definition/assignment.ts'
import type { Logger } from '../../src/actors/definition/tool.ts'
import { defineAgent, type TypedMessage } from '../../src/index.ts'
import { Channel, FrameWriter, type Ring } from '../../src/mailbox/channel.ts'
import {
  allocate,
  BLANK,
  END,
  type FrameFields,
  frameBytes,
  lengthOf,
  type Memory,
  runOf,
  senderOf,
  setTimes,
  turnOf,
  writeFrame,
} from '../../src/mailbox/frame.ts'
import { TeamMemory } from '../../src/mailbox/team-memory.ts'
import type { Agent } from '../../src/runtime/host/agent.ts'
import type { Incarnation } from '../../src/runtime/host/incarnation.ts'
import type { Thread, ThreadExit } from '../../src/runtime/threads/thread.ts'
import type { Scheduler } from '../../src/shared/clock.ts'
import { imbalances, leftovers } from '../kit/accounts.ts'
import { ask, type OpenTeam, openTeam, outcomeOf } from '../kit/team.ts'

/** What the thread was handed and has not ended. */
export interface RawTurn {
  turn: number
  run: number
  caller: number
  correlation: number
}

export class RawThread implements Thread {
  readonly isolated = true
  readonly warm = false
  readonly #clock: Scheduler
  channel: Channel | undefined
  index = 0
  #team: TeamMemory | undefined
  #ring: (() => void) | undefined
  #exit: ((exit: ThreadExit) => void) | undefined
  #gone = false

  constructor(clock: Scheduler) {
    this.#clock = clock
  }

  onWake(listener: () => void): void {
    this.#ring = listener
  }
  onExit(listener: (exit: ThreadExit) => void): void {
    const before = this.#exit
    this.#exit = (exit) => {
      before?.(exit)
      listener(exit)
    }
  }
  onPrint(): void {}
  onOwnPost(): void {}
  givesBytes(): void {}
  eventLoop(): undefined {}
  times(): undefined {}
  wake(): void {}
  async load(): Promise<Started> {
    return { ok: true, state: undefined }
  }
  async start({ channel: window, team, index }: Assignment): Promise<Started> {
    this.channel = new Channel(window)
    this.#team = new TeamMemory(team)
    this.index = index
    return { ok: true, state: undefined }
  }
  async isIdle(): Promise<boolean> {
    return true
  }
  async stop(): Promise<void> {}
  terminate(): void {
    if (this.#gone) return
    this.#gone = true
    this.#clock.defer(() => this.#exit?.({ code: 1, error: undefined }))
  }

  /** The host looks at what was written and copied into the outbox. */
  publish(): void {
    this.outbox.publish()
    this.#team!.wrote(this.index)
    this.#ring?.()
  }

  get outbox(): Ring {
    return this.channel!.outbox
  }

  /** Takes the messages that it was handed, and what it was answered. */
  turns(): RawTurn[] {
    const { plain, ranked, replies } = this.channel!
    const found: RawTurn[] = []
    for (const ring of [plain, ranked])
      for (let at = ring.peek(); at >= 0; at = ring.peek()) {
        const { memory } = ring
        const correlation = memory.i32[(at >> 2) + 5]!
        found.push({ turn: turnOf(memory, at), run: runOf(memory, at), caller: senderOf(memory, at), correlation })
        ring.pass(lengthOf(memory, at))
        ring.release()
      }
    for (let at = replies.peek(); at >= 0; at = replies.peek()) {
      replies.pass(lengthOf(replies.memory, at))
      replies.release()
    }
    return found
  }

  /** A frame as a thread of the runtime would write it; the test can spoil it before it is written. */
  frame(fields: Partial<FrameFields>): { memory: Memory; bytes: number } {
    const whole = { ...BLANK, sender: this.index, ...fields }
    const bytes = frameBytes(whole)
    const memory = allocate(bytes)
    writeFrame(memory, 0, whole, 1)
    nextId += 16
    memory.i32.set([1, 0x7000, 0x8000_0000 | 0, nextId], 8)
    if (whole.kind === END) setTimes(memory, 0, 1, 1)
    return { memory, bytes }
  }

  /** Writes it, and rings. False: there is no room for all of it. */
  write({ memory, bytes }: { memory: Memory; bytes: number }): boolean {
    const whole = new FrameWriter(this.outbox).write(memory.u8, 0, bytes)
    this.publish()
    return whole
  }

  send(fields: Partial<FrameFields>, spoil: (memory: Memory) => void = () => {}): void {
    const frame = this.frame(fields)
    spoil(frame.memory)
    if (!this.write(frame)) throw new Error('the outbox is full')
  }
}

let nextId = 16

/** Agents "ann" and "bob", who answer "heard ...", and "mallory", whose thread is the test's; each run asks mallory. */
export function hostileTeam(test: Pick<typeof t, 'teardown'>, options: object = {}) {
  const heard: TypedMessage[] = []
  const listens = (message: TypedMessage) => {
    heard.push(JSON.parse(JSON.stringify(message)) as TypedMessage)
    return `heard ${message.content}`
  }
  const lines: object[] = []
  const note = (level: string) => (fields: object, text: string) => void lines.push({ level, ...fields, text })
  const logger: Logger = { debug: () => {}, info: () => {}, warn: note('warn'), error: note('error') }
  const team = openTeam(
    test,
    {
      mallory: () => {},
      ann: defineAgent({ receive: listens, observe: (message) => void listens(message) }),
      bob: defineAgent({ receive: listens, observe: (message) => void listens(message) }),
    },
    {
      unwatched: true,
      logger,
      enableBlackboard: true,
      supervision: { backoff: { baseMs: 0, capMs: 0 }, maxRestarts: 1_000_000 },
      ...options,
    },
  )
  const { host } = team
  const { provisioning } = host
  const own = provisioning.threadFor.bind(provisioning)
  let thread = new RawThread(host.clock)
  provisioning.threadFor = (agent) => {
    if (agent.name !== 'mallory') return own(agent)
    thread = new RawThread(host.clock)
    return thread
  }
  const index = (name: string) => host.directory.agent(name)!.index
  return {
    team,
    host,
    heard,
    lines,
    index,
    get thread(): RawThread {
      return thread
    },
    get mallory(): Agent {
      return host.directory.agent('mallory')!
    },
    get incarnation(): Incarnation | undefined {
      return host.directory.agent('mallory')!.incarnation
    },
    /** Begins a run in which mallory has a turn. */
    async turn() {
      const result = outcomeOf(team.execute('go'))
      await team.clock.advance(0)
      const [turn] = thread.turns()
      if (!turn) throw new Error('mallory was handed nothing')
      return { ...turn, result }
    },
    /** Whether the others answer, all that is kept can be looked at, and the accounts add up. Gives what is not so. */
    async ailments(): Promise<string[]> {
      await team.clock.advance(0)
      const found = imbalances(host)
      for (const name of ['ann', 'bob']) {
        const answer = outcomeOf(ask(team, name, 'well?'))
        await team.clock.advance(0)
        if (answer.value !== 'heard well?') found.push(`${name} says ${answer.value ?? answer.error}`)
      }
      for (const run of host.runs.values()) look(team, run.id)
      return found
    },
    /** What is left over when mallory's thread has been ended and time has passed. */
    async leftovers(): Promise<string[]> {
      for (let n = 0; n < 3; n++) {
        for (const { turn, run } of thread.turns()) thread.send({ kind: END, type: 'response', turn, run })
        await team.clock.runToIdle()
      }
      return [...imbalances(host), ...leftovers(host)]
    },
  }
}

/** Everything that people can look at. */
function look(team: OpenTeam, runId: string): void {
  JSON.stringify(team.getMessageHistory(runId))
  JSON.stringify(team.deadLetters.list())
}
