/** A small team in this thread whose first agent does what the test says; and how to get hold of an error. */
import { type AgentContext, type Blackboard, DramatisError, defineAgent } from '../../src/index.ts'
import { testTeam } from '../../src/testing.ts'

/** What these helpers use of tap. */
export interface Test {
  teardown(end: () => unknown): unknown
}

/** What plain JavaScript sees: methods that take anything. */
export type Untyped<T> = {
  readonly [Key in keyof T]: T[Key] extends (...given: never[]) => unknown ? (...given: unknown[]) => unknown : T[Key]
}
export type UntypedContext = Untyped<Omit<AgentContext, 'blackboard'>> & { readonly blackboard: Untyped<Blackboard> }
/** What a test has the agent "ann" do in a turn. */
export type Act = (context: UntypedContext) => unknown

export const untyped = <T>(value: T) => value as unknown as Untyped<T>

/**
 * Agents "ann", who does what the test says, and "bob", who answers "bob heard ..."; one run is one turn of ann's.
 */
export function stage(t: Test, options: object = {}) {
  let act: Act | undefined
  let outcome: unknown
  const ann = defineAgent({
    async receive(_message, context) {
      const now = act
      act = undefined
      outcome = now && (await (async () => now(context as unknown as UntypedContext))().catch(Thrown.from))
      return 'ann is well'
    },
    observe() {},
  })
  const bob = defineAgent({ receive: ({ content }) => `bob heard ${content}`, observe() {} })
  const team = testTeam(
    {
      agents: [{ name: 'ann' }, { name: 'bob' }],
      orchestration: { strategy: 'sequential', agentOrder: ['ann'] },
      enableBlackboard: true,
      ...options,
    },
    { modules: { ann, bob } },
  )
  t.teardown(() => team.close())

  /** What it gives in a turn, or what it throws, wrapped. */
  const play = async (what: Act): Promise<unknown> => {
    act = what
    const result = await team.execute('act')
    if (!result.success) throw result.error
    return outcome
  }
  return {
    team,
    play,
    /** The error that it gives in a turn, which has to be one of this library. */
    async refusal(what: Act): Promise<DramatisError> {
      const given = await play(what)
      if (given instanceof Thrown) return own(given.error)
      throw new Error(`nothing was refused: ${JSON.stringify(given)}`)
    },
    /** Whether ann and bob still do their work, and nothing of this run is lost. */
    async isWell(): Promise<boolean> {
      const lost = team.deadLetters.list().length
      const heard = await play(async (context) => {
        const answer = (await context.request('bob', 'hello')) as { content: string }
        return answer.content
      })
      return heard === 'bob heard hello' && team.deadLetters.list().length === lost
    },
  }
}

class Thrown {
  readonly error: unknown
  constructor(error: unknown) {
    this.error = error
  }
  static readonly from = (error: unknown) => new Thrown(error)
}

/** The error, if it is one of this library. */
function own(error: unknown): DramatisError {
  if (error instanceof DramatisError) return error
  throw error
}

/** What a promise rejects with, or a call throws; it has to be an error of this library. */
export async function refusalOf(doing: Promise<unknown> | (() => unknown)): Promise<DramatisError> {
  let given: unknown
  try {
    given = await (typeof doing === 'function' ? doing() : doing)
  } catch (error) {
    return own(error)
  }
  throw new Error(`nothing was refused: ${JSON.stringify(given)}`)
}

/** A getter or a trap that throws. */
export const boom = () => {
  throw new Error('boom')
}

/** A proxy that was revoked throws for each question about it, even whether it is a list. */
export const revoked = (target: object = {}): object => {
  const { proxy, revoke } = Proxy.revocable(target, {})
  revoke()
  return proxy
}
