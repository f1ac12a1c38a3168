/** Requests to several agents: all of them, or the first that succeeds. */
import { AgentFailedError, DramatisError, MessageRejectedError } from '../errors.ts'
import type { AgentMessage } from '../mailbox/message.ts'
import type { AgentContext, Outcome, RequestOptions } from './context.ts'
import { checkObject, checkRequests, wrongArgument } from './verb-checks.ts'

type Requester = Pick<AgentContext, 'request'>

/** Never rejects for an agent's failure: each outcome says what came of it, in the order of `to`. */
export async function allOf(
  context: Requester,
  to: readonly string[],
  content: string,
  options: RequestOptions & { concurrency?: number } = {},
): Promise<Outcome[]> {
  checkObject(options, 'options')
  const { concurrency = Math.max(1, to?.length), ...rest } = options
  checkRequests(to, content, rest)
  if (!Number.isInteger(concurrency) || concurrency < 1)
    throw wrongArgument('concurrency', concurrency, 'an integer from 1 is needed')
  const outcomes: Outcome[] = []
  let next = 0
  const lane = async () => {
    while (next < to.length) {
      const index = next++
      outcomes[index] = await outcomeOf(context, to[index]!, content, rest)
    }
  }
  await Promise.all(Array.from({ length: Math.min(concurrency, to.length) }, lane))
  return outcomes
}

async function outcomeOf(
  context: Requester,
  agent: string,
  content: string,
  options: RequestOptions,
): Promise<Outcome> {
  try {
    return { agent, ok: true, message: await context.request(agent, content, options) }
  } catch (error) {
    if (error instanceof DramatisError) return { agent, ok: false, error }
    throw error
  }
}

/** The first response; the others are cancelled. When all fail, one error that names each. */
export async function anyOf(
  context: Requester,
  to: readonly string[],
  content: string,
  options: RequestOptions = {},
): Promise<AgentMessage> {
  checkRequests(to, content, options)
  if (to.length === 0)
    throw new MessageRejectedError('requestAny needs at least one agent; the list is empty.', {
      path: 'to',
      got: 'an empty list',
    })
  const losers = new AbortController()
  const signal = options.signal ? AbortSignal.any([options.signal, losers.signal]) : losers.signal
  const failures = new Map<string, DramatisError>()
  try {
    return await Promise.any(
      to.map(async (agent) => {
        try {
          return await context.request(agent, content, { ...options, signal })
        } catch (error) {
          if (error instanceof DramatisError) failures.set(agent, error)
          throw error
        }
      }),
    )
  } catch (error) {
    if (failures.size === 0) throw error
    if (failures.size === 1) throw [...failures.values()][0]!
    const listed = [...failures].map(([agent, failure]) => `"${agent}": ${failure.message}`).join(' ')
    throw new AgentFailedError(`None of ${failures.size} agents answered. ${listed}`, {
      failures: [...failures].map(([agent, failure]) => ({ agent, code: failure.code, message: failure.message })),
    })
  } finally {
    losers.abort(new Error('another agent answered first'))
  }
}
