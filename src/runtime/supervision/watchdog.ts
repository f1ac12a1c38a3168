/**
 * Finds threads that are stuck: they have a turn under way and are silent for `watchdogMs`. Silent means that the
 * thread answered no wakeup, took no message and wrote nothing. Only the time in which the thread ran or was blocked
 * counts, not the time in which it waited for a processor (thread.ts). These times are read only when a check
 * finds the thread silent.
 *
 * The watchdog asks by wakeup, so an idle team has no timer. It pauses while a debugger is attached. If the host itself
 * was late, the thread was not asked any sooner: the delay then counts as one interval, however long it was. So even a
 * host that is late each time, for want of a core, finds stuck threads.
 *
 * A turn that loops by microtasks or `process.nextTick` can take hundreds of MB a second. So a thread that takes memory
 * while its event loop stands has half of that time, and none once it has taken half of what the process may use. The
 * loop stands as long as the thread answers no wakeup and takes no message; what it writes is no sign of it. Whether
 * the process has grown is looked at every 250 ms, and the threads are looked at as soon as it has.
 *
 * The heartbeat also publishes how much a thread holds outside of its heap, if that has a limit; Node is asked as well.
 */

import { url as inspectorUrl } from 'node:inspector'
import { EXTERNAL_KIB } from '../../mailbox/channel.ts'
import type { Timer } from '../../shared/clock.ts'
import { AgentCrashedError } from '../../shared/errors.ts'
import type { Agent } from '../host/agent.ts'
import type { Incarnation } from '../host/incarnation.ts'
import type { Reader } from '../host/journal.ts'
import { Silence, type Thread } from '../threads/thread.ts'
import { halfOfMemoryMb } from '../threads/worker-thread.ts'
import type { Supervisor } from './host.ts'

/**
 * Interval at which a thread with a memory limit is asked. It can exceed the limit by what it takes between two checks.
 */
const MEMORY_MS = 250
/**
 * Returns the limit for the figure from Node, which includes garbage. Before garbage is collected there is about as
 * much of it as the thread may hold, if it is in few large buffers, and else up to 200 MiB.
 */
const mostWithGarbage = (limitMb: number) => 2 * limitMb + 256

/** Growth of the process since the last look after which the next look is made at once. */
const SOON_MB = 32
/** Growth of the process while the loop of a thread stands that counts against that thread. */
const GROWN_MB = 64
/** Part of that growth which the thread itself has to have taken: the rest of a heap is taken by helpers of V8. */
const OWN_PART = 1 / 4

const processMb = () => process.memoryUsage.rss() / 2 ** 20

/**
 * Interval at which the words are compared that all threads share, if an agent is untrusted and nothing else asks for a
 * look.
 */
const UNTRUSTED_MS = 1_250

const beatMs = ({ settings: { supervision, maxExternalMb } }: Agent): number => {
  const memoryMs = maxExternalMb === null ? Number.POSITIVE_INFINITY : MEMORY_MS
  return supervision.watchdogMs === false ? memoryMs : Math.min(supervision.watchdogMs / 4, memoryMs)
}

/** Signs of an incarnation that are missing since some look. */
interface Watch {
  /** Without a sign of any kind. */
  silence: Silence
  /** Without a turn of its event loop. */
  standing: Silence
  /** Memory at the first look that found the loop standing. */
  before: { readonly processMb: number; readonly takenMb: number } | undefined
}

export const watchdog = ({ clock, directory, loop, team }: Supervisor): Reader => {
  const watches = new WeakMap<Incarnation, Watch>()
  let timer: Timer | undefined
  let checkedAt = 0
  let checkedMb = 0
  const limited: Agent[] = []
  let seen = 0

  /** Shortest interval that an agent asks for, and whether one is untrusted, when the team had so many additions. */
  let asked = { leastMs: Number.POSITIVE_INFINITY, untrusted: false, additions: -1 }
  const ask = () => {
    const { additions, byIndex: agents } = directory
    if (asked.additions === additions) return asked
    let leastMs = Number.POSITIVE_INFINITY
    for (const agent of agents) leastMs = Math.min(leastMs, beatMs(agent))
    asked = { leastMs, untrusted: agents.some(({ settings }) => settings.untrusted), additions }
    return asked
  }

  const wordsMs = () => (ask().untrusted ? UNTRUSTED_MS : Number.POSITIVE_INFINITY)

  const watched = () =>
    directory.living.filter(
      (agent) => agent.incarnation?.thread.isolated && agent.mailbox.handed.size > 0 && Number.isFinite(beatMs(agent)),
    )

  /**
   * Checks for an open turn whose frames may not reach the host, even that of a script in the host itself, while a
   * thread exists that may be to blame.
   */
  const mayBeUnheard = () =>
    Number.isFinite(wordsMs()) &&
    directory.living.some(({ mailbox }) => mailbox.handed.size > 0) &&
    directory.living.some(({ incarnation }) => incarnation?.thread.isolated)

  const weigh = () => {
    for (; seen < directory.byIndex.length; seen++) {
      const agent = directory.byIndex[seen]!
      if (agent.settings.maxExternalMb !== null) limited.push(...agent.instances)
    }
    for (const agent of limited) {
      const limit = agent.settings.maxExternalMb!
      if (!agent.incarnation) continue
      const held = Atomics.load(agent.incarnation.channel.words, EXTERNAL_KIB) / 1_024
      if (held > limit) agent.incarnation.kill(tooMuch(agent.name, held, limit))
    }
  }

  /** Asks Node instead of the thread, which publishes nothing while it blocks. */
  const weighBlocked = async (agent: Agent) => {
    const { incarnation } = agent
    const held = await incarnation?.thread.held?.()?.catch(() => undefined) // the thread has ended, or not started
    if (held === undefined || agent.incarnation !== incarnation) return
    const heldMb = held / 2 ** 20
    const limit = agent.settings.maxExternalMb!
    if (heldMb > mostWithGarbage(limit)) agent.incarnation?.kill(tooMuch(agent.name, heldMb, limit))
  }

  const check = () => {
    timer = undefined
    team.allWrote() // a thread may have taken away the mark of another, or its wake-up
    loop.kick()
    weigh()
    for (const agent of limited) if (agent.mailbox.handed.size > 0) void weighBlocked(agent)
    const now = clock.monotonic()
    const agents = watched()
    const passed = now - checkedAt
    const least = interval()
    checkedAt = now
    checkedMb = clock.virtual ? 0 : processMb()
    const attached = inspectorUrl() !== undefined
    for (const agent of agents) look(agent, passed, passed > 2 * least + 100 ? least : passed, attached)
    arm()
  }

  /** Returns the agent that a shared thread works for, whichever of its agents was found silent. */
  const whoWorksIn = ({ atWork }: Thread) =>
    atWork && directory.living.find(({ incarnation }) => incarnation?.thread === atWork)

  const look = (agent: Agent, passedMs: number, mostMs: number, excused: boolean) => {
    const incarnation = agent.incarnation!
    const { outbox, replies } = incarnation.channel
    const turns = incarnation.signs
    const beat = turns + outbox.readTo() - replies.readTo()
    const watch = watches.get(incarnation)
    const limit = agent.settings.supervision.watchdogMs
    const isStanding = watch?.standing.beat === turns
    if (!watch || excused || limit === false || !(isStanding || watch.silence.beat === beat))
      watches.set(incarnation, { silence: new Silence(beat), standing: new Silence(turns), before: undefined })
    else {
      const times = incarnation.thread.times()
      if (watch.silence.beat === beat) watch.silence.add(passedMs, mostMs, times)
      else watch.silence = new Silence(beat)
      if (isStanding) watch.standing.add(passedMs, mostMs, times)
      else watch.standing = new Silence(turns)
      const guilty = whoWorksIn(incarnation.thread) ?? agent
      const verdict = verdictOn(guilty, limit, watch, isStanding ? times?.takenMb : undefined)
      if (verdict) return guilty.incarnation!.kill(verdict)
    }
    incarnation.thread.wake()
  }

  /** Returns the error that a thread is ended with, if it is. `takenMb`: of one whose loop stands, as far as known. */
  const verdictOn = (guilty: Agent, limit: number, watch: Watch, takenMb: number | undefined) => {
    const { silence, standing } = watch
    if (silence.isStuck(limit)) {
      guilty.incarnation!.starved = silence.isDoubtful(limit)
      return stuck(guilty, limit, silence)
    }
    if (takenMb === undefined) {
      watch.before = undefined
      return undefined
    }
    watch.before ??= { processMb: processMb(), takenMb }
    const grownMb = processMb() - watch.before.processMb
    const isOwn = takenMb - watch.before.takenMb >= OWN_PART * grownMb
    if (!isOwn || grownMb < GROWN_MB || !(standing.isStuck(limit / 2) || grownMb >= halfOfMemoryMb())) return undefined
    guilty.incarnation!.starved = grownMb < halfOfMemoryMb() && standing.isDoubtful(limit / 2)
    return growing(guilty, limit, standing, grownMb)
  }

  /**
   * Returns the check interval over all agents, not only those with a turn now: a turn that begins later may have less
   * time.
   */
  const interval = () => Math.min(wordsMs(), ask().leastMs)

  const arm = () => {
    if (timer || !(watched().length > 0 || mayBeUnheard())) return
    const ms = interval()
    timer = clock.virtual ? clock.timer(ms, check) : clock.timer(Math.min(ms, MEMORY_MS), () => checkIfDue(ms))
  }

  const checkIfDue = (ms: number) => {
    timer = undefined
    if (clock.monotonic() - checkedAt >= ms || processMb() - checkedMb >= SOON_MB) check()
    else arm()
  }

  return {
    // A turn begins only after one of these.
    kinds: ['frames', 'turn.started'],
    next() {
      if (limited.length > 0 || seen < directory.byIndex.length) weigh()
      if (!timer) arm()
    },
  }
}

const stuck = ({ name: agent, incarnation }: Agent, watchdogMs: number, silence: Silence) => {
  const whose = incarnation?.thread.shared ? ' of all agents that share it' : ''
  return new AgentCrashedError(
    `The thread of agent "${agent}" is stuck: with a turn under way it gave no sign of life for ${silence.words} (an endless loop, or blocking code). Raise supervision.watchdogMs${whose} (${watchdogMs}) if its work may take that long without a pause.`,
    { agent, watchdogMs, silentMs: silence.totalMs, processorMs: silence.cpuMs, blockedMs: silence.blockedMs },
  )
}

const growing = ({ name: agent, incarnation }: Agent, watchdogMs: number, standing: Silence, grownMb: number) => {
  const whose = incarnation?.thread.shared ? ' of all agents that share it' : ''
  return new AgentCrashedError(
    `The thread of agent "${agent}" is stuck and takes memory: its event loop did not turn for ${standing.words}, while the process grew by ${Math.round(grownMb)} MiB (an endless loop by process.nextTick or microtasks, or blocking code). So it has half of supervision.watchdogMs (${watchdogMs}), and none once that is half of the memory. Raise it${whose} if its work may take that long without a pause.`,
    { agent, watchdogMs, silentMs: standing.totalMs, processorMs: standing.cpuMs, grownMb },
  )
}

const tooMuch = (agent: string, heldMb: number, maxExternalMb: number) =>
  new AgentCrashedError(
    `The thread of agent "${agent}" holds ${heldMb.toFixed(1)} MiB outside of its heap (buffers and the like); at most ${maxExternalMb} are allowed (limits.maxExternalMb), so it was ended. Let go of what is not needed, or raise the limit.`,
    { agent, heldMb, maxExternalMb },
  )
