/**
 * Finds threads that are stuck: with a turn under way, and silent for `watchdogMs`. Silent means that neither a bell was
 * answered, nor a message taken, nor anything written. Of that silence the time counts in which the thread ran or was blocked, not
 * the time in which it waited for a processor (threads/silence.ts); what it did is read only where a look finds it silent. It asks by bell,
 * so an idle team has no timer; it pauses while a debugger is attached. When the host itself was late, the thread was asked no
 * sooner: sleep counts as one interval then, however long it was. So a host that is late each time, for want of a core, finds them
 * too. With the heartbeat comes how much a thread holds outside of its heap, where that has a limit; Node is asked as well.
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

/** How often a thread is asked whose memory has a limit: what it takes meanwhile is beyond it. */
const MEMORY_MS = 250
/**
 * Node says what a thread holds with its garbage. Before that is collected there is about as much as the thread may hold, if it is in few
 * large buffers, and else up to 200 MiB.
 */
const mostWithGarbage = (limitMb: number) => 2 * limitMb + 256

/** How often the words are compared that all threads share, where an agent is not trusted and nothing else asks for a look. */
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
  /** Those whose memory has a limit, among the first `seen` cells. */
  const limited: Cell[] = []
  let seen = 0

  const wordsMs = () => (directory.cells.some(({ settings }) => settings.untrusted) ? UNTRUSTED_MS : sharedWords.lookMs)

  const watched = () =>
    directory.actors.filter(
      (cell) => cell.life?.thread.isolated && cell.mailbox.handed.size > 0 && Number.isFinite(beatMs(cell)),
    )

  /** A turn is open whose frames the host may not hear of, be it that of a script in the host itself, and there is a thread that may be to blame. */
  const mayBeUnheard = () =>
    Number.isFinite(wordsMs()) &&
    directory.actors.some(({ mailbox }) => mailbox.handed.size > 0) &&
    directory.actors.some(({ life }) => life?.thread.isolated)

  /** What the threads have told of themselves lately. */
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

  /** Asks Node instead of the thread, which tells nothing while it blocks. */
  const weighBlocked = async (cell: Cell) => {
    const { life } = cell
    const held = await life?.thread.held?.()?.catch(() => undefined) // it has ended, or not begun
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
        life.starved = silence.isDoubtful(limit)
        return life.kill(stuck(cell.name, limit, silence))
      }
    }
    life.thread.ring()
  }

  /** Of all agents, not of those with a turn now: one that begins later may have less time. */
  const interval = () => {
    let least = Math.min(wordsMs(), sharedWords.lookMs)
    for (const cell of directory.cells) least = Math.min(least, beatMs(cell))
    return least
  }

  const arm = () => {
    if (!timer && (watched().length > 0 || mayBeUnheard())) timer = clock.timer(interval(), check)
  }

  return {
    next() {
      weigh()
      arm()
    },
  }
}

const stuck = (agent: string, watchdogMs: number, silence: Silence) =>
  new AgentCrashedError(
    `The thread of agent "${agent}" is stuck: with a turn under way it gave no sign of life for ${silence.words} (an endless loop, or blocking code). Raise supervision.watchdogMs (${watchdogMs}) if its work may take that long without a pause.`,
    { agent, watchdogMs, silentMs: silence.totalMs, processorMs: silence.cpuMs, blockedMs: silence.blockedMs },
  )

const tooMuch = (agent: string, heldMb: number, maxExternalMb: number) =>
  new AgentCrashedError(
    `The thread of agent "${agent}" holds ${heldMb.toFixed(1)} MiB outside of its heap (buffers and the like); at most ${maxExternalMb} are allowed (limits.maxExternalMb), so it was ended. Let go of what is not needed, or raise the limit.`,
    { agent, heldMb, maxExternalMb },
  )
