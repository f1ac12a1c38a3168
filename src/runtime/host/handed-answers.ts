/**
 * Lets a model remember the answer that another agent gave in its place, after a handoff. Its thread goes on with a
 * conversation in which each message of the user has its answer.
 */

import type { Patch } from 'immer'
import type { PatchNotice } from '../../actors/definition/assignment.ts'
import type { Conversation, SpokenTurn } from '../../actors/model/conversation.ts'
import { isFailure } from '../../mailbox/codec.ts'
import { BEGINS_AGAIN, END, flagsOf, idOf, kindOf, PATCH, readBody } from '../../mailbox/frame.ts'
import { framesOf } from '../log/run-log.ts'
import { type Agent, NO_TURN } from './agent.ts'
import type { Core } from './core.ts'
import { lastSuccessor, type RunState } from './run.ts'

/** Adds the answers that the log of the run has to the conversations of those who have handed off, once. */
export function rememberHandedAnswers(core: Core, run: RunState): void {
  if (run.handoffs === 0) return
  const answers = answersIn(run)
  for (const [index, state] of run.states) {
    const agent = core.directory.byIndex[index]
    const patches = agent?.settings.playedByModel ? [...missing(run, state as Conversation, answers)] : []
    if (agent && patches.length > 0) addTo(core, agent, run, patches)
  }
}

function addTo({ agentStates, frames, journal }: Core, agent: Agent, run: RunState, patches: Patch[]): void {
  const notice: PatchNotice = { scope: 'run', patches }
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

/** Returns the answers to messages that have a duty of another one, by the id of the message. */
function answersIn(run: RunState): Map<string, string> {
  const heirs = new Set(run.successors.values())
  const answers = new Map<string, string>()
  for (const [memory, at] of framesOf(run.log)) {
    if (kindOf(memory, at) !== END || isFailure(memory, at) || (flagsOf(memory, at) & BEGINS_AGAIN) !== 0) continue
    const id = idOf(memory, at)
    if (!heirs.has(id)) continue
    const { content, data = '' } = readBody(memory, at)
    answers.set(id, content === '' ? data : content)
  }
  return answers
}
