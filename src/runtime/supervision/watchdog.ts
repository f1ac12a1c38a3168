/**
 * Finds threads that are stuck: they have a turn under way and are silent for `watchdogMs`. Silent means that the
 * thread answered no bell, took no message and wrote nothing. Only the time in which the thread ran or was blocked
 * counts, not the time in which it waited for a processor (threads/silence.ts). These times are read only when a check
 * finds the thread silent.
 *
 * The watchdog asks by bell, so an idle team has no timer. It pauses while a debugger is attached. If the host itself
 * was late, the thread was not asked any sooner: the delay then counts as one interval, however long it was. So even a
 * host that is late each time, for want of a core, finds stuck threads.
 *
 * The heartbeat also publishes how much a thread holds outside of its heap, if that has a limit; Node is asked as well.
 */
import { url as inspectorUrl } from 'node:inspector'
import type { Scheduler, Timer } from '../../clock.ts'
import { AgentCrashedError } from '../../errors.ts'
import { BEAT, EXTERNAL_KIB } from '../../mailbox/window.ts'
import type { SharedWords } from '../mailboxes/shared-words.ts'
import type { AgentDirectory } from '../state/agent-directory.ts'
import type { Cell } from '../state/cell.ts'
import type { Life } from '../state/life.ts'
import type { Reader } from '../state/reader.ts'
import { Silence } from '../threads/silence.ts'
import type { Thread } from '../threads/thread.ts'

/**
 * Interval at which a thread with a memory limit is asked. It can exceed the limit by what it takes between two checks.
 */
const MEMORY_MS = 250
/**
 * Returns the limit for the figure from Node, which includes garbage. Before garbage is collected there is about as
 * much of it as the thread may hold, if it is in few large buffers, and else up to 200 MiB.
 */
const mostWithGarbage = (limitMb: number) => 2 * limitMb + 256

/**
 * Interval at which the words are compared that all threads share, if an agent is untrusted and nothing else asks for a
 * look.
 */
const UNTRUSTED_MS = 1_250

const beatMs = ({ settings: { supervision, maxExternalMb } }: Cell): number => {
  const memoryMs = maxExternalMb === null ? Number.POSITIVE_INFINITY : MEMORY_MS
  return supervision.watchdogMs === false ? memoryMs : Math.min(supervision.watchdogMs / 4, memoryMs)
}

interface Needs {
  readonly clock: Scheduler
  readonly directory: AgentDirectory
  readonly sharedWords: SharedWords
}

export const watchdog = ({ clock, directory, sharedWords }: Needs): Reader => {
  const silences = new WeakMap<Life, Silence>()
  let timer: Timer | undefined
  let checkedAt = 0
  /** Agents with a memory limit, among the first `seen` cells. */
  const limited: Cell[] = []
  let seen = 0

  /** Shortest interval that an agent asks for, and whether one is untrusted, when the team had so many additions. */
  let asked = { leastMs: Number.POSITIVE_INFINITY, untrusted: false, additions: -1 }
  const ask = () => {
    const { additions, cells } = directory
    if (asked.additions === additions) return asked
    let leastMs = Number.POSITIVE_INFINITY
    for (const cell of cells) leastMs = Math.min(leastMs, beatMs(cell))
    asked = { leastMs, untrusted: cells.some(({ settings }) => settings.untrusted), additions }
    return asked
  }

  const wordsMs = () => (ask().untrusted ? UNTRUSTED_MS : sharedWords.lookMs)

  const watched = () =>
    directory.living.filter(
      (cell) => cell.life?.thread.isolated && cell.mailbox.handed.size > 0 && Number.isFinite(beatMs(cell)),
    )

  /**
   * Checks for an open turn whose frames may not reach the host, even that of a script in the host itself, while a
   * thread exists that may be to blame.
   */
  const mayBeUnheard = () =>
    Number.isFinite(wordsMs()) &&
    directory.living.some(({ mailbox }) => mailbox.handed.size > 0) &&
    directory.living.some(({ life }) => life?.thread.isolated)

  /** Checks the memory figures that the threads last published. */
  const weigh = () => {
    for (; seen < directory.cells.length; seen++) {
      const cell = directory.cells[seen]!
      if (cell.settings.maxExternalMb !== null) limited.push(...cell.instances)
    }
    for (const cell of limited) {
      const limit = cell.settings.maxExternalMb!
      if (!cell.life) continue
      const held = Atomics.load(cell.life.window.words, EXTERNAL_KIB) / 1_024
      if (held > limit) cell.life.kill(tooMuch(cell.name, held, limit))
    }
  }

  /** Asks Node instead of the thread, which publishes nothing while it blocks. */
  const weighBlocked = async (cell: Cell) => {
    const { life } = cell
    const held = await life?.thread.held?.()?.catch(() => undefined) // the thread has ended, or not started
    if (held === undefined || cell.life !== life) return
    const heldMb = held / 2 ** 20
    const limit = cell.settings.maxExternalMb!
    if (heldMb > mostWithGarbage(limit)) cell.life?.kill(tooMuch(cell.name, heldMb, limit))
  }

  const check = () => {
    timer = undefined
    sharedWords.look()
    weigh()
    for (const cell of limited) if (cell.mailbox.handed.size > 0) void weighBlocked(cell)
    const now = clock.monotonic()
    const cells = watched()
    const passed = now - checkedAt
    const least = interval()
    checkedAt = now
    const attached = inspectorUrl() !== undefined
    for (const cell of cells) look(cell, passed, passed > 2 * least + 100 ? least : passed, attached)
    arm()
  }

  /** Returns the agent that a shared thread works for, whichever of its agents was found silent. */
  const whoWorksIn = ({ atWork }: Thread) => atWork && directory.living.find(({ life }) => life?.thread === atWork)

  const look = (cell: Cell, passedMs: number, mostMs: number, excused: boolean) => {
    const life = cell.life!
    const { window } = life
    const beat =
      Atomics.load(window.words, BEAT) + window.outbox.readTo() + window.plain.readTo() + window.ranked.readTo()
    const silence = silences.get(life)
    const limit = cell.settings.supervision.watchdogMs
    if (silence?.beat !== beat || excused || limit === false) silences.set(life, new Silence(beat))
    else {
      silence.add(passedMs, mostMs, life.thread.times())
      if (silence.isStuck(limit)) {
        const guilty = whoWorksIn(life.thread) ?? cell
        guilty.life!.starved = silence.isDoubtful(limit)
        return guilty.life!.kill(stuck(guilty, limit, silence))
      }
    }
    life.thread.ring()
  }

  /**
   * Returns the check interval over all agents, not only those with a turn now: a turn that begins later may have less
   * time.
   */
  const interval = () => Math.min(wordsMs(), sharedWords.lookMs, ask().leastMs)

  const arm = () => {
    if (!timer && (watched().length > 0 || mayBeUnheard())) timer = clock.timer(interval(), check)
  }

  return {
    // A turn begins only after one of these.
    kinds: ['frames', 'turn.started'],
    next() {
      if (limited.length > 0 || seen < directory.cells.length) weigh()
      if (!timer) arm()
    },
  }
}

const stuck = ({ name: agent, life }: Cell, watchdogMs: number, silence: Silence) => {
  const whose = life?.thread.shared ? ' of all agents that share it' : ''
  return new AgentCrashedError(
    `The thread of agent "${agent}" is stuck: with a turn under way it gave no sign of life for ${silence.words} (an endless loop, or blocking code). Raise supervision.watchdogMs${whose} (${watchdogMs}) if its work may take that long without a pause.`,
    { agent, watchdogMs, silentMs: silence.totalMs, processorMs: silence.cpuMs, blockedMs: silence.blockedMs },
  )
}

const tooMuch = (agent: string, heldMb: number, maxExternalMb: number) =>
  new AgentCrashedError(
    `The thread of agent "${agent}" holds ${heldMb.toFixed(1)} MiB outside of its heap (buffers and the like); at most ${maxExternalMb} are allowed (limits.maxExternalMb), so it was ended. Let go of what is not needed, or raise the limit.`,
    { agent, heldMb, maxExternalMb },
  )
