/** How what a plan tells others is said by the verbs, and what the turn waits for then. */
import type { AgentContext } from '../../src/index.ts'
import type { Telling } from './random-program.ts'
import type { Asked, Wait } from './truth.ts'

/** Some of several have failed. */
export const failedPartly = (outcome: unknown) =>
  Array.isArray(outcome) && outcome.some(({ ok }: { ok: boolean }) => !ok)

export function waitOf(action: Telling, of: readonly Asked[]): Wait {
  if (action.do === 'send') return { kind: 'room', of: [of[0]!] }
  return { kind: 'answers', need: action.do === 'requestAll' ? of.length : 1, of }
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
  }
}
