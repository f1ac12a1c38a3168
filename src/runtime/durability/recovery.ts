/**
 * Puts what the log of an earlier process has into a supervisor: numbers, states, runs, messages, waits, tasks, boards.
 * A turn that was open comes again, with what the log has of it, as after the death of its thread. Runs that do not go
 * on at once stay interrupted, and nothing of them is put in place until they are resumed.
 */

import { jsonIn } from '../../mailbox/codec.ts'
import * as frame from '../../mailbox/frame.ts'
import { type Envelope, envelopeOf, type OnMismatch } from '../../mailbox/mailbox.ts'
import { readableParts } from '../../mailbox/stored-parts.ts'
import {
  AgentCrashedError,
  AgentTerminatedError,
  CancelledError,
  ConfigurationError,
  type DramatisError,
  describe,
  errorData,
  UnknownAgentError,
} from '../../shared/errors.ts'
import { type Agent, NO_TURN, type OpenRequest } from '../host/agent.ts'
import { turnWithin } from '../host/delegation.ts'
import { ORCHESTRATOR_INDEX } from '../host/directory.ts'
import { noteHandedOff } from '../host/handed-answers.ts'
import { hasDependencies } from '../host/mailboxes.ts'
import { callerIn, type RunState } from '../host/run.ts'
import type { Stage } from '../host/staged-start.ts'
import type { RunBook } from '../runs/runs.ts'
import type { Supervisor } from '../supervision/host.ts'
import { isDone } from '../verbs/task-board.ts'
import type { OpenCallFrame, OpenMessage, OpenWait } from './open-work.ts'
import type { RecoveredLog } from './recovered-log.ts'
import type { RecoveredRun } from './recovered-run.ts'
import { RunRecovery } from './run-recovery.ts'
import type { TeamParts } from './team-facts.ts'

/*
 * Turns that end the process again and again, in code that JavaScript cannot stop. Which one it was is known when it
 * was the only one at work. A turn of which that is known, and that was open at as many deaths in a row as its agent
 * may have (`poisonAttempts`, at least 2) without getting any further, does not come again.
 */

/** Open message of an earlier process that was taken up, and its agent. */
export interface TakenUp {
  readonly message: OpenMessage
  readonly agent: Agent
  readonly envelope: Envelope<RunState>
}

/** Suspects begin one by one, but in no more stages than this: then several begin together. */
const MOST_STAGES = 16
/** Time of a stage. It doubles with each further death, for turns that take longer to end their process. */
const STAGE_MS = 2_000
const LONGEST_STAGE_MS = 60_000

/** Returns the deaths in a row after which a turn of that agent does not come again. One death proves nothing. */
const mostDeaths = ({ settings }: Agent): number => Math.max(2, settings.supervision.poisonAttempts)

/**
 * A run that waits for a person stood still before it died. Until its turns have come back to their question, a kill
 * from outside looks like a crash of theirs.
 */
const TIMES_WHILE_ASKING = 10

/** Returns the error for a turn that does not come again because it ended its processes. */
function poisonIn({ message, agent }: TakenUp, { deaths, times }: RecoveredLog): AgentCrashedError | undefined {
  const count = message.deaths
  const [accused, other] = deaths.accused
  const most = mostDeaths(agent) * (times.asks(message.run) ? TIMES_WHILE_ASKING : 1)
  if (accused !== message || other || count < most) return undefined
  const text = `The process died ${count} times in a row while agent "${agent.name}" worked on this message, the last time when nothing else was under way; it is not tried again. Look for native code that crashes, and for a lack of memory.`
  return new AgentCrashedError(text, { agent: agent.name, processDeaths: count })
}

/** Returns the stages in which the turns begin that may have ended the processes; none if nothing is known. */
function stagesOf(taken: readonly TakenUp[], { deaths, work }: RecoveredLog): Stage[] {
  const suspects = taken.filter(({ agent, message }) => message.deaths >= mostDeaths(agent) - 1)
  if (suspects.length === 0) return []
  const waiting = new Set<string>()
  for (const { caller, turn } of [...work.waits, ...work.calls]) waiting.add(`${caller} ${turn}`)
  const isWaiting = ({ message }: TakenUp) => waiting.has(`${message.recipient} ${message.turn}`)
  const places = new Map(deaths.accused.map((message, place) => [message, place]))
  const accused = suspects.filter(({ message }) => places.has(message))
  const others = suspects.filter(({ message }) => !places.has(message))
  const busy = others.filter((each) => !isWaiting(each))
  const idle = others.filter(isWaiting)
  accused.sort((a, b) => places.get(b.message)! - places.get(a.message)!) // the last to begin is the first suspect
  const groups = [...grouped(accused), ...grouped(busy), ...(idle.length > 0 ? [idle] : [])]
  return groups.map((group) => ({ suspects: group, limitMs: crashLimitOf(group) }))
}

function grouped(suspects: readonly TakenUp[]): TakenUp[][] {
  const size = Math.ceil(suspects.length / MOST_STAGES)
  const groups: TakenUp[][] = []
  for (let from = 0; from < suspects.length; from += size) groups.push(suspects.slice(from, from + size))
  return groups
}

function crashLimitOf(group: readonly TakenUp[]): number {
  const more = Math.max(...group.map(({ agent, message }) => message.deaths - mostDeaths(agent) + 1))
  return Math.min(STAGE_MS * 2 ** more, LONGEST_STAGE_MS)
}

/*
 * Open messages, waits and calls of an earlier process. A turn that was open comes again, with what the log has of it.
 */

class MessageRecovery {
  readonly #owners: Supervisor
  readonly #old: RecoveredLog
  readonly #states: ReadonlyMap<number, RunState>
  readonly #onMismatch: OnMismatch
  readonly #envelopes = new Map<OpenMessage, Envelope<RunState>>()

  /** `states`: the runs that there are, by index. `onMismatch`: what becomes of them if code of theirs has changed. */
  constructor(owners: Supervisor, old: RecoveredLog, states: ReadonlyMap<number, RunState>, onMismatch: OnMismatch) {
    this.#owners = owners
    this.#old = old
    this.#states = states
    this.#onMismatch = onMismatch
  }

  message(message: OpenMessage): void {
    const { work, times } = this.#old
    const run = this.#states.get(message.run)
    const callee = this.#owners.directory.present(message.recipient)
    if (!run || !callee) return
    const { memory, at, turn, attempt, handedOff, retried } = message
    const envelope = envelopeOf(run, memory, at)
    if (handedOff) noteHandedOff(callee, envelope)
    if (retried > 0) envelope.retries = { count: retried, late: undefined, instance: undefined }
    this.#envelopes.set(message, envelope)
    const { clock, pauses } = this.#owners
    const now = clock.monotonic()
    const turnTimes = turn === 0 ? undefined : times.ofTurn(message, work)
    if (turn === 0 || (!turnTimes && attempt === 1)) {
      if (callee.settings.queueTimeoutMs !== false) envelope.waitsSince = now - times.since(message.entry)
      return
    }
    envelope.handedSeq = message.entry.seq
    Object.assign(envelope, { turn, attempt, ...(!run.over && { onMismatch: this.#onMismatch }) })
    const { sinceMs, pausedMs, attemptMs } = turnTimes ?? { sinceMs: 0, pausedMs: 0, attemptMs: 0 }
    envelope.begunAt = now - sinceMs
    pauses.restore(envelope, pausedMs, Math.min(pausedMs, times.askedMs(message.run)), attemptMs)
  }

  /** Adds a wait for an answer. `settle`: takes the answer for a caller in the host. */
  wait({ caller: index, correlation, turn, message }: OpenWait, settle: OpenRequest['settle']): void {
    const envelope = this.#envelopes.get(message)
    const { byIndex: agents } = this.#owners.directory
    const caller = agents[index]
    if (!envelope || !caller) return
    const { memory, at } = message
    const { retries = caller.settings.retries, idempotent } = frame.policyOf(memory, at)
    const waiting = frame.waitingOf(memory, at)
    const call = frame.stepOf(memory, at)
    const isOffer = correlation < 0 && call !== 0
    const isOffering = (open: OpenCallFrame) => open.caller === index && open.correlation === call
    this.#owners.requests.restore({
      caller,
      correlation,
      run: envelope.run,
      turn: isOffer ? ([...this.#old.work.calls].find(isOffering)?.turn ?? NO_TURN) : turn,
      callee: agents[message.recipient]!,
      envelope,
      streams: (frame.flagsOf(memory, at) & frame.STREAMS) !== 0,
      settle: index === 1 ? (settle ?? (() => {})) : correlation < 0 ? () => {} : undefined,
      retries,
      idempotent,
      group: caller.first.groups.restore(turn, waiting & frame.MOST_GROUPS),
      signalled: (waiting & frame.SIGNALLED) !== 0,
      tried: 1,
      grantedMs: grantedMs(message, agents[message.recipient]!),
      replaced: 0,
      offers: isOffer,
    })
  }

  deliver(message: OpenMessage): void {
    const { blocked, directory, mailboxes, redelivery, requests, team } = this.#owners
    const envelope = this.#envelopes.get(message)
    const callee = directory.byIndex[message.recipient]
    if (!envelope || !callee) return this.#refuse(message)
    const { memory, at, run, turn } = envelope
    run.open += 1
    const request = requests.of(envelope)
    if (turn === 0 && hasDependencies(memory, at) && this.#waitsForTasks(run, frame.idOf(memory, at))) {
      blocked.hold(callee, envelope)
      return
    }
    if (request && callee.settings.reentrancy === 'chain') {
      const within = turnWithin(requests, request.caller, request.turn, callee)
      if (within && 'memory' in within) envelope.within = within
    }
    team.force(callee.index, envelope.bytes)
    if (turn > 0) redelivery.restore(callee, envelope)
    else mailboxes.restore(callee, envelope)
  }

  /** Refuses a message to an agent that the program does not have any more: who waits for it is told. */
  #refuse({ run: index, recipient, memory, at, id }: OpenMessage): void {
    const { directory, journal, requests } = this.#owners
    const run = this.#states.get(index)
    if (!run) return
    const agent = directory.name(recipient)
    const text = `Agent "${agent}" had this message when its process ended, and the program that goes on has no agent of that name. Add it again, or give its work to another one.`
    const error = new AgentTerminatedError(text, { agent })
    journal.deadLetter(run, memory, at, 'unknown_agent', [error])
    for (const { caller: asks, correlation, turn, message } of this.#old.work.waits) {
      const caller = directory.byIndex[asks]
      if (message.id !== id || !caller || caller.removed) continue
      requests.refuse({ caller, correlation, run, turn, settle: undefined, from: recipient, memory, at }, error)
    }
  }

  /**
   * Decides about turns that may not come again, or that nobody waits for any more. After the death of a process the
   * others begin with care.
   */
  judge(): void {
    const { cancellation, directory, redelivery } = this.#owners
    const taken: TakenUp[] = []
    const awaited = new Set(Array.from(this.#old.work.waits, ({ message }) => message))
    for (const [message, envelope] of this.#envelopes) {
      const { memory, at, handedOff, recipient } = message
      const callee = directory.byIndex[recipient]!
      const each = { message, agent: callee, envelope }
      const poison = envelope.cancelled ? undefined : poisonIn(each, this.#old)
      if (poison) {
        envelope.deaths = [{ error: errorData(poison), epoch: callee.epoch, alone: true, fingerprint: null }]
        cancellation.bury(callee, envelope, 'poison', poison)
      } else if (frame.kindOf(memory, at) === frame.REQUEST && !handedOff && !awaited.has(message)) {
        const text = `The request to "${callee.name}" had been withdrawn when its process ended.`
        cancellation.withdraw(callee, envelope, new CancelledError(text, { agent: callee.name }))
      } else if (envelope.attempt === 1 || redelivery.judgeTakenUp(callee, envelope)) taken.push(each)
    }
    this.#beginCarefully(taken.filter(({ envelope }) => !envelope.cancelled))
  }

  #beginCarefully(taken: readonly TakenUp[]): void {
    const { stagedStart, directory, logger, pauses } = this.#owners
    if (!this.#old.deaths.hasDied) return
    stagedStart.watch(directory.actors)
    const stages = stagesOf(taken, this.#old)
    stagedStart.hold(stages)
    if (stages.length === 0) return
    const suspects = stages.flatMap((stage) => stage.suspects)
    const text =
      'processes with this log died again and again, and some turns got no further meanwhile: these begin first, one by one, and nothing else until it is known which one it is'
    logger.warn({ turns: suspects.length, agents: [...new Set(suspects.map(({ agent }) => agent.name))] }, text)
    for (const { agent, envelope } of taken) {
      const { run, turn } = envelope
      const begins = turn === 0 ? undefined : stagedStart.until(envelope)
      if (begins) void pauses.during({ agent, turn, correlation: 0, run }, () => begins)
    }
  }

  #waitsForTasks({ tasks }: RunState, id: string): boolean {
    const dependencies = tasks.get(id)?.dependencies ?? []
    return dependencies.some((each) => !isDone(tasks.get(each)?.status ?? 'completed'))
  }

  /** Tells senders that their messages are accepted: those waited for room, or for all recipients. */
  acknowledge(): void {
    const { directory, requests } = this.#owners
    for (const { run: index, memory, at } of this.#old.asking.values()) {
      const run = this.#states.get(index)
      const sender = directory.byIndex[frame.senderOf(memory, at)]
      if (run && sender && !sender.removed) requests.acknowledge(sender, run, memory, at)
    }
  }

  /**
   * Serves the calls again that have no result. A tool waits for its agent, which loads it, and for the begin of its
   * turn: tools run code that may end the process. A call of a turn that does not come again is withdrawn.
   */
  serveCalls(): void {
    const { calls, cancellation, stagedStart, lifecycle } = this.#owners
    for (const { caller, correlation, turn, run: index, memory, at, entry } of [...this.#old.work.calls]) {
      const run = this.#states.get(index)
      const agent = this.#owners.directory.present(caller)
      if (!run || !agent) continue
      const envelope = agent.messageOf(turn)
      if (!envelope) {
        cancellation.logCancel({ caller: agent, correlation, run, turn })
        continue
      }
      const isTool = /^(tool|remote)$/.test(frame.readBody(memory, at).content)
      const loaded = isTool && [...agent.instances.map((each) => lifecycle.ready(each)), stagedStart.until(envelope)]
      const ready = loaded && Promise.all(loaded).then(noMatter, noMatter)
      const passedMs = this.#old.times.since(entry)
      calls.serve(agent, run, memory, at, { passedMs, ...(ready && { ready }) })
    }
  }
}

/** Returns the time that the tries of a turn have added to the wait for its answer. */
function grantedMs({ memory, at, retried }: OpenMessage, { settings }: Agent): number {
  const limit = frame.limitOf(memory, at)
  if (retried === 0 || frame.isWallClockLimit(limit)) return 0
  return retried * (frame.answerMsOf(limit) ?? settings.responseTimeoutMs)
}

const noMatter = () => {}

/** Gives the agents of the team the indices that they had, and continues all numbers. */
function restoreNames({ directory, hostMessages, runs }: Supervisor, old: RecoveredLog): void {
  const [ofTeam, ofRuns, free] = [new Map<string, number>(), new Set<number>(), new Set<number>()]
  for (const [index, { name, run }] of old.names) {
    if (run === 0) ofTeam.set(name, index)
    else ofRuns.add(index)
    if (run !== 0 && !old.runs.has(run)) free.add(index)
  }
  directory.reseat(ofTeam, ofRuns, free)
  for (const [index, counters] of old.counters) directory.byIndex[index]?.continueFrom(counters)
  hostMessages.continueFrom(old.lastHostNumber)
  runs.continueFrom(old.lastRun)
}

/** Puts the states of agents in place, their conversations, and what they have for the runs that go on. */
function restoreStates({ agentStates, directory }: Supervisor, old: RecoveredLog, runs: Iterable<RunState>): void {
  for (const [index, state] of old.team.states.ofAgents) {
    const agent = directory.byIndex[index] // also of an agent that may be added later
    if (agent) agent.state = state
  }
  const { owners } = agentStates.conversations
  for (const fact of old.team.states.conversations.owners.all()) owners.set(fact)
  for (const { agent: index, threadId, conversation } of old.team.states.conversations.all()) {
    const agent = directory.byIndex[index]
    if (index === ORCHESTRATOR_INDEX || agent?.removed || agent?.settings.playedByModel)
      agentStates.conversations.keep(index, threadId, conversation)
  }
  for (const { threadId, metadata } of runs) if (threadId !== undefined) owners.begin(threadId, callerIn(metadata)) // whatever became of it meanwhile
  for (const run of runs)
    for (const [index, state] of old.team.states.ofRun(run.index))
      if (directory.byIndex[index]) run.states.set(index, state)
}

/**
 * Puts the dead letters into their list. Without those of messages that were sent again and wait for room: all that
 * wait have it now.
 */
function restoreLetters({ journal, parts }: Supervisor, { team, work }: RecoveredLog): void {
  for (const { letter, bytes } of team.letters.entries) {
    const { message } = letter
    if (message.parts)
      message.parts = readableParts(message.parts, ({ hash }) => {
        const stored = parts.get(hash)
        return stored && (() => stored)
      })
    journal.deadLetters.add(letter, bytes)
  }
  for (const { memory, at } of work.messages()) {
    const { metadata } = frame.readBody(memory, at)
    const replayed: unknown = metadata && Reflect.get(Object(jsonIn(metadata)), 'replayOf')
    if (typeof replayed === 'string') journal.removeLetter(replayed)
  }
}

interface Given {
  readonly owners: Supervisor
  readonly parts: TeamParts
  readonly book: RunBook
  readonly old: RecoveredLog
  readonly onMismatch: OnMismatch
}

export class Recovery {
  readonly #owners: Supervisor
  readonly #parts: TeamParts
  readonly #book: RunBook
  readonly #old: RecoveredLog
  readonly #runs: RunRecovery
  readonly #onMismatch: OnMismatch

  constructor({ owners, parts, book, old, onMismatch }: Given) {
    this.#owners = owners
    this.#parts = parts
    this.#book = book
    this.#old = old
    this.#onMismatch = onMismatch
    this.#runs = new RunRecovery(owners, book, old)
  }

  /**
   * Restores the team, and goes on with the runs that nothing hinders. `byHand`: only with those that a caller has
   * launched again already. Returns the runs that go on, what hinders others, and what keeps agents from being there.
   */
  perform(byHand: boolean): { going: RunState[]; hindrances: DramatisError[]; lacking: DramatisError[] } {
    const runs = this.#runs
    const old = this.#old
    restoreNames(this.#owners, old)
    const lacking = this.#rejoinTeam()
    const open = [...old.runs.values()]
    restoreStates(
      this.#owners,
      old,
      open.map((run) => runs.stateOf(run)),
    )
    for (const fact of old.team.shared) this.#owners.sharedStates.restore(fact)
    for (const fact of old.team.outbox.values()) this.#owners.outbox.restore(fact)
    for (const entry of old.team.board) this.#owners.boards.restoreOfTeam(entry)
    restoreLetters(this.#owners, old)
    for (const callId of old.openTools) this.#owners.tools.interrupted.add(callId)
    for (const note of old.heldTools.values()) this.#owners.tools.held.set(note.callId, note)
    const going: RecoveredRun[] = []
    const hindrances: DramatisError[] = []
    for (const run of open) {
      const isWanted =
        !this.#hasOtherOutput(run) && (!byHand || this.#book.get(run.launched.id)?.state.query === run.launched.query)
      const error = isWanted ? this.#hindrance(run) : undefined
      if (isWanted && !error) going.push(run)
      else this.#interrupt(run, error)
      if (error) hindrances.push(error)
    }
    this.#goOn(going, this.#onMismatch)
    return { going: going.map((run) => runs.stateOf(run)), hindrances, lacking }
  }

  #rejoinTeam(): DramatisError[] {
    const lacking: DramatisError[] = []
    for (const agent of this.#old.team.joined.values())
      try {
        this.#parts.madeAgents.rejoin(undefined, agent)
      } catch (error) {
        const text = `Agent "${agent.name}" was made by an agent, and this team cannot have it any more: ${describe(error)}`
        lacking.push(new ConfigurationError(text, { agent: agent.name }, error))
      }
    return lacking
  }

  #rejoin({ joined }: RecoveredRun, run: RunState): void {
    for (const newcomer of joined.values()) {
      const agent = this.#parts.madeAgents.rejoin(run, newcomer)
      for (const each of agent?.instances ?? []) void this.#owners.lifecycle.begin(each)
    }
  }

  /** Checks whether a caller has launched a run again with another schema: it does not go on with that one. */
  #hasOtherOutput({ launched: { id, query, output } }: RecoveredRun): boolean {
    const again = this.#book.get(id)?.state
    return output !== undefined && again?.query === query && again.output !== undefined && !again.output.is(output)
  }

  /** Leaves a run as the log has it. `error`: what its callers are told. */
  #interrupt(run: RecoveredRun, error: DramatisError | undefined): void {
    const { launched, finished } = run
    const isOver = finished !== undefined || launched.own
    const state = this.#runs.stateOf(run)
    const interruption = {
      hindrance: () => this.#hindrance(run),
      goOn: (onMismatch: OnMismatch) => this.#goOn([run], onMismatch),
    }
    if (finished) this.#runs.end(run, false)
    this.#book.interrupted.take(state, isOver ? undefined : launched, interruption, error)
  }

  /**
   * Returns why the team as it is cannot go on with a run: it lacks an agent that has a message of the run, or cannot
   * have one that was made in it.
   */
  #hindrance(run: RecoveredRun): DramatisError | undefined {
    const { index, launched } = run
    const { names, work } = this.#old
    const { directory } = this.#owners
    const missing = new Set<string>()
    const need = (agent: number) => {
      const known = names.get(agent)
      if (known?.run === 0 && !directory.present(agent)) missing.add(known.name)
    }
    for (const message of work.messages()) if (message.run === index) need(message.recipient)
    if (this.#runs.begins(run)) need(launched.target)
    if (missing.size === 0) return this.#misfit(run)
    const agents = [...missing]
    const text = `Run "${launched.id}" cannot go on: it has work for ${agents.map((name) => `"${name}"`).join(', ')}, and this team has no agent of that name. Nothing of the run is lost: add the agent (team.addAgent) and resume the run, or cancel it.`
    return new UnknownAgentError(text, { agent: agents[0], runId: launched.id, missing: agents })
  }

  #misfit(run: RecoveredRun): DramatisError | undefined {
    for (const agent of run.joined.values())
      try {
        this.#parts.madeAgents.assertFits(this.#runs.stateOf(run), agent)
      } catch (error) {
        const text = `Run "${run.launched.id}" cannot go on: agent "${agent.name}" was made in it, and this team cannot have it. ${describe(error)}`
        return new ConfigurationError(text, { agent: agent.name, runId: run.launched.id }, error)
      }
    return undefined
  }

  #goOn(open: readonly RecoveredRun[], onMismatch: OnMismatch): void {
    const runs = this.#runs
    const { work } = this.#old
    const states = new Map(open.map((run) => [run.index, runs.stateOf(run)]))
    for (const run of open) this.#rejoin(run, runs.stateOf(run))
    const messages = new MessageRecovery(this.#owners, this.#old, states, onMismatch)
    for (const message of work.messages()) messages.message(message)
    const settles = new Map(open.map((run) => [run.index, runs.restore(run)]))
    for (const wait of work.waits) messages.wait(wait, settles.get(wait.message.run))
    for (const message of work.messages()) messages.deliver(message)
    for (const run of open) runs.fold(run)
    this.#owners.readersRestored(new Set(states.values()))
    messages.acknowledge()
    messages.judge()
    messages.serveCalls()
    for (const run of open) {
      runs.answer(run, settles.get(run.index))
      runs.windDown(run)
    }
    this.#owners.loop.wake() // the threads may be there already, and idle
  }
}
