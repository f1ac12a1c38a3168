/**
 * Lets a model remember the answer that another agent gave in its place, after a handoff. Its thread goes on with a
 * conversation in which each message of the user has its answer.
 */

import type { Patch } from 'immer'
import type { PatchNotice } from '../../actors/definition/assignment.ts'
import { type Conversation, handedOverIn, NO_CONVERSATION, type SpokenTurn } from '../../actors/model/conversation.ts'
import { contentWith, userContent } from '../../actors/model/prompt.ts'
import { decodeMessage, isFailure } from '../../mailbox/codec.ts'
import {
  BEGINS_AGAIN,
  END,
  flagsOf,
  idOf,
  kindOf,
  lengthOf,
  type Memory,
  PATCH,
  REQUEST,
  readBody,
  recipientOf,
  senderOf,
} from '../../mailbox/frame.ts'
import type { Envelope } from '../../mailbox/mailbox.ts'
import type { AgentMessage } from '../../mailbox/message.ts'
import type { HostRecord } from '../log/records.ts'
import { framesOf, type RunLog } from '../log/run-log.ts'
import { type Agent, NO_TURN } from './agent.ts'
import type { Core } from './core.ts'
import { ORCHESTRATOR_INDEX, USER_INDEX } from './directory.ts'
import { asksLastSpeaker } from './journal.ts'
import { directoryOf, lastSuccessor, type RunState } from './run.ts'

/** Adds the answers that the log of the run has to the conversations of those who have handed off, once. */
export function rememberHandedAnswers(core: Core, run: RunState): void {
  if (run.threadId !== undefined) rememberAnswerOfCode(core, run)
  if (run.handoffs === 0) return
  const answers = answersIn(run, new Set(run.successors.values()))
  for (const [index, state] of run.states) {
    const agent = core.directory.byIndex[index]
    if (!agent || !remembersAlone(agent)) continue
    const patches = [...missing(run, state as Conversation, answers)]
    if (patches.length > 0) addTo(core, agent, run, patches)
  }
}

/** Notes that a turn has handed its duty off, and is open. */
export function noteHandedOff(agent: Agent, envelope: Envelope<RunState>): void {
  envelope.handedOff = true
  if (!remembersAlone(agent)) return
  envelope.run.handing ??= new Set()
  envelope.run.handing.add(envelope)
}

/** Those who share a conversation have the answer already. */
const remembersAlone = ({ settings }: Agent): boolean => settings.playedByModel && !settings.floor

/**
 * Adds the answer of code that has spoken last to the conversation that agents share, once. Models add what they say as
 * their turns end. Code has no conversation, so it stands in that of a model, with what that one said before: its turn
 * may end later.
 */
function rememberAnswerOfCode(core: Core, run: RunState): void {
  const { directory, agentStates } = core
  const someReader = directory.agents(run).find(isReader)
  if (!someReader) return
  const chain = [...speakersIn(run.log, run.index, (index) => directory.name(index))]
  const [first, last] = [chain[0], chain.at(-1)]
  if (!first || !last || directory.agent(last.agent, run)?.settings.playedByModel !== false) return
  const content = answersIn(run, new Set([last.messageId])).get(last.messageId)
  if (!content) return
  const reader = chain.flatMap(({ agent }) => directory.agent(agent, run) ?? []).findLast(isReader) ?? someReader
  agentStates.conversations.begin(reader, run)
  const { turns: there } = (run.states.get(reader.index) ?? NO_CONVERSATION) as Conversation
  const known = new Set(there.map(({ id }) => id))
  if (known.has(last.messageId)) return
  const handed = messageIn(run, last.messageId, core)
  const said = ((handed && handedOverIn(handed)?.said) ?? []).filter(({ id }) => !known.has(id))
  for (const { id } of said) known.add(id)
  const question = known.has(first.messageId) ? undefined : messageIn(run, first.messageId, core)
  const asked = question && { role: 'user' as const, content: contentWith(question, userContent(question, true)) }
  const answer = { role: 'assistant' as const, content }
  const news = [...said, { id: last.messageId, messages: [...(asked ? [asked] : []), answer] }]
  const patches = news.map((value, i): Patch => ({ op: 'add', path: ['turns', there.length + i], value }))
  addTo(core, reader, run, patches)
}

const isReader = ({ settings }: Agent): boolean => settings.playedByModel && settings.floor !== undefined

function messageIn(run: RunState, id: string, { directory }: Core): AgentMessage | undefined {
  for (const [memory, at] of framesOf(run.log))
    if (kindOf(memory, at) === REQUEST && idOf(memory, at) === id)
      return decodeMessage(memory, at, directoryOf(run, directory))
  return undefined
}

function addTo({ agentStates, frames, journal }: Core, agent: Agent, run: RunState, patches: Patch[]): void {
  const isNew = run.unlogged.has(agent.index) || !run.states.has(agent.index)
  // A later process may have given up by then what it had read of a run that is over.
  const base = (isNew || run.over) && { base: run.states.get(agent.index) ?? NO_CONVERSATION }
  const notice: PatchNotice = { scope: 'run', patches, ...base }
  agentStates.applyPatch(agent, run, notice)
  if (run.threadId === undefined) return // nothing goes on with it
  const fields = { sender: agent.index, run: run.index, turn: NO_TURN, data: JSON.stringify(notice) }
  const { memory, bytes } = frames.make({ kind: PATCH, ...fields })
  journal.appendOwned(run, memory, bytes)
}

/**
 * Yields the patches that add the answers to a conversation, each as the turn of the message that was answered: who
 * gave it has that turn, and an agent that is handed both conversations gets it once.
 */
function* missing(run: RunState, { turns = [] }: Conversation, answers: ReadonlyMap<string, string>): Generator<Patch> {
  const known = new Set(turns.map(({ id }) => id))
  let end = turns.length
  for (const { id, messages } of turns) {
    const last = lastSuccessor(run, id)
    const content = answers.get(last)
    if (!content || known.has(last) || messages.at(-1)?.content === content) continue
    known.add(last)
    const value: SpokenTurn = { id: last, messages: [{ role: 'assistant', content }] }
    yield { op: 'add', path: ['turns', end++], value }
  }
}

/** Returns the answers to these messages, by the id of the message. */
function answersIn(run: RunState, asked: ReadonlySet<string>): Map<string, string> {
  const answers = new Map<string, string>()
  for (const [memory, at] of framesOf(run.log)) {
    if (kindOf(memory, at) !== END || isFailure(memory, at) || (flagsOf(memory, at) & BEGINS_AGAIN) !== 0) continue
    const id = idOf(memory, at)
    if (!asked.has(id)) continue
    const { content, data = '' } = readBody(memory, at)
    answers.set(id, content === '' ? data : content)
  }
  return answers
}

/*
 * Finds who speaks for a run, from what the log has anyway: the agent whose answer is to be the one of the run, and
 * after a handoff the agent that has its duty.
 */

interface Speaking {
  readonly agent: string
  readonly messageId: string
}

export interface SpeakerChange {
  readonly agent: string
  readonly from: string | null
}

export class SpeakerFold {
  readonly #name: (index: number) => string
  /** By run. */
  readonly #speaking = new Map<number, Speaking>()

  constructor(name: (index: number) => string) {
    this.#name = name
  }

  of(run: number): Speaking | undefined {
    return this.#speaking.get(run)
  }

  record(record: HostRecord): SpeakerChange | undefined {
    const { run } = record
    if (record.kind === 'run.finished') this.#speaking.delete(run)
    if (record.kind !== 'handoff' || record.step !== 'handed_off') return undefined
    if (this.#speaking.get(run)?.messageId !== record.messageId) return undefined
    return this.#speaks(run, { agent: record.to, messageId: record.offer ?? '' })
  }

  frame(memory: Memory, at: number, run: number): SpeakerChange | undefined {
    if (kindOf(memory, at) !== REQUEST) return undefined
    const recipient = recipientOf(memory, at)
    const isFirst = BEGINNERS.has(senderOf(memory, at)) && recipient !== ORCHESTRATOR_INDEX
    if (!isFirst || !asksLastSpeaker(memory, at)) return undefined
    return this.#speaks(run, { agent: this.#name(recipient), messageId: idOf(memory, at) })
  }

  #speaks(run: number, now: Speaking): SpeakerChange | undefined {
    const before = this.#speaking.get(run)
    this.#speaking.set(run, now)
    return before?.agent === now.agent ? undefined : { agent: now.agent, from: before?.agent ?? null }
  }
}

const BEGINNERS: ReadonlySet<number> = new Set([ORCHESTRATOR_INDEX, USER_INDEX])

/** Returns the name of the agent that speaks for a run, or has spoken for it last; null: a script, or several. */
export function speakerIn(log: RunLog, run: number, name: (index: number) => string, until?: number): string | null {
  let speaker: string | null = null
  for (const { agent } of speakersIn(log, run, name, until)) speaker = agent
  return speaker
}

/** Returns the agent whose words the answer of a run is; undefined: a script has made it. */
export function whoAnswered({ directory }: Core, run: RunState, answer: string): Agent | undefined {
  const last = [...speakersIn(run.log, run.index, (index) => directory.name(index))].at(-1)
  if (!last || answersIn(run, new Set([last.messageId])).get(last.messageId) !== answer) return undefined
  return directory.agent(last.agent, run)
}

/** Yields who speaks for a run, one after the other, with the message that each answers. */
function* speakersIn(log: RunLog, run: number, name: (index: number) => string, until?: number): Generator<Speaking> {
  const fold = new SpeakerFold(name)
  for (const entry of log.entries(-1, until)) {
    if (entry.kind === 'run.finished') break
    const before = fold.of(run)
    if (entry.kind !== 'frames') fold.record(entry)
    else for (let at = entry.from; at < entry.to; at += lengthOf(entry.memory, at)) fold.frame(entry.memory, at, run)
    const now = fold.of(run)
    if (now && now !== before) yield now
  }
}
