/** How what a plan tells others is said by the verbs, and what the turn waits for then. */
import { type AgentContext, type AgentMessage, DramatisError } from '../../src/index.ts'
import type { Telling } from './random-program.ts'
import type { Asked, Wait } from './truth.ts'

/** Some of several have failed, or were not waited for: a turn that is tried again asks them again. */
export function mayAskAgain({ do: verb }: Telling, outcome: unknown): boolean {
  if (verb === 'requestAny' || verb === 'requestQuorum') return true
  if (verb === 'escalate') return !isGuidance(outcome)
  return Array.isArray(outcome) && outcome.some(({ ok }: { ok: boolean }) => !ok)
}

export function waitOf(action: Telling, of: readonly Asked[]): Wait {
  if (action.do === 'send') return { kind: 'room', of: [of[0]!] }
  return { kind: 'answers', need: neededBy(action, of.length), of }
}

function neededBy(action: Telling, asked: number): number {
  if (action.do === 'requestQuorum') return action.count
  return action.do === 'requestAll' ? asked : 1
}

export function tell(action: Telling, context: AgentContext): Promise<unknown> {
  const { path } = action.plan
  switch (action.do) {
    case 'send':
      return context.send(action.to, path)
    case 'request':
      return context.request(action.to, path)
    case 'delegate':
      return context.delegate(action.to, path)
    case 'handoff':
      return context.handoff(action.to, path)
    case 'requestAll':
      return context.requestAll(action.to, path)
    case 'requestAny':
      return context.requestAny(action.to, path)
    case 'requestQuorum':
      return context.requestQuorum(action.to, action.count, path)
    case 'requestStream':
      return readAll(context.requestStream(action.to, path), `${action.to} did ${path} `)
    case 'escalate':
      return context.escalate(path)
  }
}

/** What an agent emits when it comes to its next action. */
export const pieceOf = (at: number) => `${at};`

/** The pieces that are read have to be all that were written, in order, each once. `did`: how the writer's own answer begins. */
async function readAll(answer: ReturnType<AgentContext['requestStream']>, did: string): Promise<void> {
  let read = ''
  for await (const piece of answer) read += piece
  const { content } = await answer.response
  if (!content.startsWith(did)) return // it was handed off: who answered has emitted for nobody
  const written = Array.from({ length: Number(content.slice(did.length)) }, (_, i) => pieceOf(i)).join('')
  if (read !== written) throw new Torn(`read "${read}" of "${written}"`)
}

/** A stream that does not give what was written. */
export class Torn extends Error {}

/** What the turn is asked to play; to a manager it comes in the words of who cannot go on. */
export function pathOf({ content, metadata }: AgentMessage): string {
  const { escalation } = metadata as { escalation?: { reason: string } }
  return escalation?.reason ?? content
}

export const isGuidance = (outcome: unknown) => Object(outcome).kind === 'guidance'

/** Nobody wrote it in time. */
export function passOver(error: unknown): void {
  if (!(error instanceof DramatisError) || error.code !== 'REQUEST_TIMEOUT') throw error
}
