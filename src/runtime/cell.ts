/** What the host knows of one agent: the mailbox that outlives its threads, and the life that it has now. */
import type { PatchNotice } from '../actors/assignment.ts'
import type { RoleInfo } from '../actors/role.ts'
import type { AgentStatus } from '../actors/task.ts'
import type { DramatisError } from '../errors.ts'
import { LARGEST_FRAME } from '../mailbox/foreign-frame.ts'
import { type Envelope, Mailbox } from '../mailbox/mailbox.ts'
import type { Memory } from '../mailbox/memory.ts'
import { FrameJoiner, FrameWriter, PARKED, Window } from '../mailbox/window.ts'
import type { RestartTime } from './restart-policy.ts'
import type { RunState } from './run-state.ts'
import type { MailboxSettings, SupervisionSettings } from './settings.ts'
import type { Thread } from './thread.ts'

/** A request that its caller waits for. */
export interface OpenRequest {
  readonly caller: Cell
  readonly correlation: number
  readonly run: RunState
  /** The caller's turn. */
  readonly turn: number
  readonly callee: Cell
  readonly envelope: Envelope<RunState>
  readonly streams: boolean
  /** For callers in the host: takes the answer in place of a thread. */
  readonly settle: ((memory: Memory, at: number) => void) | undefined
  /** How often it may be asked again, and whether its turn may then begin again. */
  readonly retries: number
  readonly idempotent: boolean
  /** How often it has been asked. */
  tried: number
  /** What this has added to the time that its caller waits from the start of the turn. */
  grantedMs: number
}

/** One thread's time as the agent: fresh windows, a new epoch. */
export class Life {
  readonly epoch: number
  readonly thread: Thread
  readonly window = new Window()
  readonly plain = new FrameWriter(this.window.plain)
  readonly ranked = new FrameWriter(this.window.ranked)
  readonly replies = new FrameWriter(this.window.replies)
  readonly joiner = new FrameJoiner(LARGEST_FRAME)
  /** Replies that the ring had no room for, in order. */
  readonly backlog: { memory: Memory; bytes: number }[] = []
  /** Runs that the thread has been told of. */
  readonly announced = new Set<number>()
  /** Patches of turns that have not committed yet. */
  readonly patches = new Map<number, PatchNotice[]>()
  /** A large message that is half in the window. */
  sending: { memory: Memory; bytes: number; envelope: Envelope<RunState> } | undefined
  /** A message that was too large for the lane of its priority, and went by the other. */
  ranksLarge: Envelope<RunState> | undefined
  /** The redelivered message whose logged steps the thread has been given. */
  replayed: Envelope<RunState> | undefined
  /** Whose messages are in the window. */
  run: RunState | undefined
  ready = false
  /** Its outbox holds what no thread of ours leaves there: nothing more is read from it. */
  broken = false
  /** Frames that were refused as none that an agent may write. */
  refused = 0
  /** The last send or request that was routed, to know whether a claim was used. */
  lastTurn = 0
  lastStep = 0
  /** Why the host ends it, when it does. */
  verdict: DramatisError | undefined
  /** The host ends it for the sake of others; who waits for that is here. */
  recalled: (() => void)[] | undefined
  /** A turn waits for the reader of its answer. */
  awaitsReader = false
  wantsBell: 'none' | 'message' | 'reply' = 'none'

  constructor(epoch: number, thread: Thread) {
    this.epoch = epoch
    this.thread = thread
  }

  /** Whether the thread has begun with the message that it was handed. */
  begun(envelope: Envelope<RunState>): boolean {
    return this.window[envelope.lane].taken(envelope.windowAt, envelope.windowEnd)
  }

  /** Waits are open, but nobody has asked the thread whether all its turns wait. */
  get mayBeParked(): boolean {
    return Atomics.load(this.window.words, PARKED) === 2
  }

  /** Every open turn waits for others. Looks at the replies first: the thread unparks before it takes one. */
  get parked(): boolean {
    if (this.backlog.length > 0 || this.window.replies.readTo() !== this.window.replies.written) return false
    return Atomics.load(this.window.words, PARKED) === 1
  }
}

export interface CellSettings {
  info: RoleInfo
  /** Where its role stands in the team's options, for errors: `agents[0]`. */
  option: string
  /** Its code: the href of a file: URL, or a bare specifier; null: the definition is given, nothing is imported. */
  module: string | null
  maxHeapMb: number | null
  maxExternalMb: number | null
  concurrency: number
  mailbox: MailboxSettings
  supervision: SupervisionSettings
  responseTimeoutMs: number
  queueTimeoutMs: number | false
  /** How often a request of this one is asked again. */
  retries: number
  turnTimeoutMs: number | false
  env: readonly string[]
  /** Needs a permit of the run for its turns. The protocol script does not. */
  counted: boolean
}

export class Cell {
  readonly index: number
  readonly name: string
  readonly settings: CellSettings
  readonly mailbox: Mailbox<RunState>
  /** Requests that this agent waits for, by its own number for them. */
  readonly open = new Map<number, OpenRequest>()
  /** Verbs of this agent that the host is busy with, by its own number for them, and the turns that wait for them. */
  readonly calls = new Map<number, { readonly turn: number; readonly withdrawn: AbortController }>()
  /** Callers in the host that asked whether their message was taken. */
  readonly verdicts: Map<number, (error: DramatisError | undefined) => void>
  /** Its broadcasts that some mailbox has not accepted yet: the numbers of their copies, by its own number for them. */
  readonly broadcasts: Map<number, readonly number[]>
  status: AgentStatus = 'starting'
  epoch = 0
  life: Life | undefined
  /** The highest number that this agent has used for a wait, over its lives. */
  correlation = 0
  state: object | undefined
  restarts = 0
  /** For the intensity. */
  restartTimes: RestartTime[] = []
  startFailures = 0
  /** Counts the beginnings: one that another has overtaken makes no life. */
  beginnings = 0
  /** Frames of its earlier lives that came after their end, and were dropped. */
  staleFrames = 0
  /** Why it is stopped, if it is. */
  stopped: DramatisError | undefined
  /** The run that it was made in and goes with; undefined: it is of the team. */
  readonly run: RunState | undefined
  /** It has left the team for good. Its name may come again. */
  removed = false
  /** Messages that were under way together when the thread died: they come one at a time until the guilty one is found. */
  readonly suspects = new Set<Envelope<RunState>>()
  /** The run whose permit it has. */
  permit: RunState | undefined
  /** How many messages more it may be handed while others wait for its permit. */
  slice = 0
  /** What its turns take, about, in ms. Of a new agent nothing is known: long ones are the safe guess. */
  turnMs = 20
  /** When its last turn ended or its life began, monotonic ms. */
  lastEndAt = 0
  turns = 0

  /** `former`: who had that index and name before. What tells its turns and lives apart in the log goes on counting. */
  constructor(index: number, name: string, settings: CellSettings, run?: RunState, former?: Cell) {
    this.index = index
    this.name = name
    this.settings = settings
    this.run = run
    this.mailbox = former?.mailbox ?? new Mailbox<RunState>()
    // What the one before had sent may wait for room still.
    this.verdicts = former?.verdicts ?? new Map()
    this.broadcasts = former?.broadcasts ?? new Map()
    if (!former) return
    this.epoch = former.epoch
    this.correlation = former.correlation
    this.staleFrames = former.staleFrames
  }

  /** Every message that is not done with: in the mailbox, or a request of this agent's that is not answered. */
  *messages(): IterableIterator<Envelope<RunState>> {
    yield* this.mailbox.handed.values()
    yield* this.mailbox.queued()
    yield* this.mailbox.parked
    for (const { envelope } of this.open.values()) yield envelope
  }

  /** Of an agent with one turn at a time: the message that its thread has begun with, or takes next. */
  get current(): Envelope<RunState> | undefined {
    const { handed } = this.mailbox
    if (!this.life || handed.ranked === 0) return handed.first
    let next: Envelope<RunState> | undefined
    let plain = false
    for (const envelope of handed.values()) {
      // Those of priority 0 are taken in order, so the first of them speaks for all.
      if (envelope.priority === 0 && plain) continue
      if (this.life.begun(envelope)) return envelope
      if (envelope.priority === 0) plain = true
      if (!next || envelope.priority > next.priority) next = envelope
    }
    return next
  }
}
