/**
 * Makes a call of a tool in as many rounds as its server takes: it may ask people in between, or work on a task. All a
 * later process needs to go on is in the log before it is told to the server.
 */
import { notesOf, type ToolContext } from '../actors/definition/tool.ts'
import { systemClock } from '../shared/clock.ts'
import { RequestTimeoutError, shown } from '../shared/errors.ts'
import { visible } from '../shared/text.ts'
import { LoginError } from './auth.ts'
import { type Fields, isFields } from './loose.ts'

export type Context = Pick<ToolContext, 'ask' | 'runId' | 'signal'>

/** Asks the server. What `mayRepeat` may be asked twice. */
export type AskServer = (method: string, params: Fields, mayRepeat: boolean) => Promise<Fields>

export interface Request {
  readonly method: string
  readonly params: Fields
}

/** How far a call is. */
interface Held {
  readonly round: number
  /** Answers for the round. */
  readonly inputResponses?: Fields | undefined
  readonly requestState?: string | undefined
  /** Questions of the server, which wants the answers before the next round. */
  readonly inputRequests?: Fields | undefined
  readonly taskId?: string | undefined
  /** Keys of requests of the task that are answered, with the answers. */
  readonly answered?: Fields | undefined
}

const MOST_ROUNDS = 10
const LEAST_POLL_MS = 200
const MOST_POLL_MS = 60_000
const DEFAULT_POLL_MS = 1_000
/** Questions that may be open for one call. */
export const MOST_QUESTIONS = 20

/** Error that says in words why a call cannot go on. */
export class RoundError extends Error {}

/** The server works on a task with which nobody here goes on, or knows it no more: it has run, or not. */
export class LostTaskError extends Error {}

/** The server says that its task is over, without a result. */
class EndedTaskError extends RoundError {}

/** How a server is asked. */
interface Asking {
  readonly mayRepeat: boolean
  readonly ask: AskServer
  /** Checks whether a request that failed may be answered later: the server is away, or has a moment of its own. */
  passes(error: unknown): boolean
  /** Time in ms that a task has, without that in which people are asked. */
  readonly taskMs: number
}

/**
 * Makes a call of a tool, or another request, or goes on with that of an earlier process. Resolves with the result of
 * its last round.
 */
export async function inRounds(
  server: string,
  { method, params }: Request,
  asking: Asking,
  context: Context,
): Promise<Fields> {
  const { mayRepeat } = asking
  const { state, note, untimed } = notesOf(context)
  let held: Held = isFields(state) ? (state as unknown as Held) : { round: 0 }
  const ask = afterLogin(server, asking.ask, context, () => held)
  for (;;) {
    const { taskId } = held
    if (taskId !== undefined)
      return await untimed(() =>
        ofTask(server, { ...held, taskId }, { ...asking, ask, isLater: isFields(state) }, context),
      )
    if (held.inputRequests === undefined) {
      const { round, requestState, inputResponses } = held
      if (round > 0) await note({ round, requestState, inputResponses }, { mayHaveRun: true })
      const more = { ...(requestState !== undefined && { requestState }), ...(inputResponses && { inputResponses }) }
      const result = await ask(method, { ...params, ...more }, mayRepeat)
      const { resultType } = result
      if (resultType === 'task') held = { round, taskId: taskIdIn(result) }
      else if (resultType === 'input_required') held = nextOf(held, result)
      else return result
      await note(held)
      continue
    }
    const inputResponses = await answersTo(server, held.inputRequests, `${held.round}`, context)
    held = { round: held.round + 1, requestState: held.requestState, inputResponses }
  }
}

/**
 * Asks the server, after a person has logged in where one has to. A later process goes on with that question, and asks
 * again behind it, since nothing was done.
 */
function afterLogin(server: string, ask: AskServer, context: Context, heldNow: () => Held): AskServer {
  const { note, ask: askPerson } = notesOf(context)
  let logins = 0
  return async (method, params, mayRepeat) => {
    for (;;) {
      try {
        return await ask(method, params, mayRepeat)
      } catch (error) {
        if (!(error instanceof LoginError) || method === 'tasks/cancel' || logins === MOST_ROUNDS || !askPerson)
          throw error
        await note(heldNow())
        const known = new AbortController()
        const text = `${server} wants a person to log in. Open ${visible(error.url)}`
        const answer = askPerson(text, { choices: ['done', 'declined'], key: `login ${logins++}` }, known.signal)
        try {
          if ((await Promise.race([answer, error.done])) === 'declined')
            throw new RoundError('the person does not log in')
        } finally {
          known.abort()
          answer.catch(() => {})
        }
        if (method === 'tools/call') await note(heldNow(), { mayHaveRun: true })
      }
    }
  }
}

function nextOf({ round }: Held, { requestState, inputRequests }: Fields): Held {
  if (round === MOST_ROUNDS) throw new RoundError(`it asked for more in each of ${MOST_ROUNDS} rounds`)
  return {
    round,
    ...(typeof requestState === 'string' && { requestState }),
    inputRequests: isFields(inputRequests) ? inputRequests : {},
  }
}

function taskIdIn({ taskId }: Fields): string {
  if (typeof taskId === 'string' && taskId !== '') return taskId
  throw new RoundError(`its task has the id ${shown(taskId)}`)
}

/** Asks people all that a server wants to know. */
async function answersTo(server: string, requests: Fields, round: string, context: Context): Promise<Fields> {
  const all = Object.entries(requests)
  if (all.length > MOST_QUESTIONS)
    throw new RoundError(`it asks ${all.length} questions at once; at most ${MOST_QUESTIONS} are put to people`)
  const asked = all.map(async ([key, request]): Promise<[string, unknown]> => {
    const { method, params }: { method?: unknown; params?: unknown } = Object(request)
    if (method !== 'elicitation/create') throw new RoundError(`it asks for ${shown(method)}, which is not offered`)
    return [key, await elicited(server, Object(params) as Fields, context, `${round} ${key}`)]
  })
  return Object.fromEntries(await Promise.all(asked))
}

/** Asks a person what a server wants to know. A question whose time is up is cancelled: the server decides. */
export async function elicited(server: string, params: Fields, { ask }: Context, key?: string): Promise<Fields> {
  const { mode, message, url, requestedSchema } = params
  const words = `${server} asks: ${visible(String(message ?? ''))}`
  const { properties }: { properties?: unknown } = Object(requestedSchema)
  const isForm = isFields(properties) && Object.keys(properties).length > 0
  try {
    if (mode === 'url') return await opened(words, url, ask, key)
    if (isForm) {
      const answer = await ask(words, { form: requestedSchema as Fields, ...(key && { key }) })
      if (answer === 'no') return DECLINED
      return { action: 'accept', content: { ...defaultsIn(properties), ...(JSON.parse(answer) as Fields) } }
    }
    const answer = await ask(words, { choices: ['yes', 'no'], ...(key && { key }) })
    return answer === 'no' ? DECLINED : { action: 'accept', content: {} }
  } catch (error) {
    if (error instanceof RequestTimeoutError) return { action: 'cancel' }
    throw error
  }
}

/** Values of the fields that a person leaves out (SEP-1034). */
const defaultsIn = (properties: Fields): Fields =>
  Object.fromEntries(
    Object.entries(properties).flatMap(([name, field]) => {
      const { default: value }: Fields = Object(field)
      return value === undefined ? [] : [[name, value]]
    }),
  )

const DECLINED = { action: 'decline' }

/** The address is shown whole, and opened by nobody but the person. */
async function opened(words: string, url: unknown, ask: Context['ask'], key: string | undefined): Promise<Fields> {
  if (typeof url !== 'string' || !URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol))
    throw new RoundError(`it wants a person to open ${shown(url)}, which is no address of the web`)
  const answer = await ask(`${words} Open ${visible(url)}`, { choices: ['done', 'declined'], ...(key && { key }) })
  return answer === 'done' ? { action: 'accept' } : DECLINED
}

/**
 * Waits for the end of a task, which costs none of the tool's time, and answers what it asks in between. A server that
 * is away meanwhile is asked again, until nobody waits for the call any more.
 */
async function ofTask(
  server: string,
  { round, taskId, answered: before = {} }: Held & { readonly taskId: string },
  { ask, passes, taskMs, isLater }: Asking & { isLater: boolean },
  context: Context,
): Promise<Fields> {
  const { note } = notesOf(context)
  const { signal } = context
  let until = systemClock.monotonic() + taskMs
  const pause = async (ms: number) => {
    const leftMs = until - systemClock.monotonic()
    await systemClock.sleep(Math.min(ms, Math.max(leftMs, 0)), signal)
    if (leftMs <= ms) throw new RoundError(`it did not end within ${taskMs} ms (taskTimeoutMs)`)
  }
  const heard = async (method: string, params: Fields) => {
    for (let ms = LEAST_POLL_MS; ; ms = Math.min(ms * 2, MOST_POLL_MS)) {
      try {
        return await ask(method, params, true)
      } catch (error) {
        if (signal.aborted || !passes(error)) throw error
        await pause(ms)
      }
    }
  }
  let answered = before
  let unsent = isLater // the answers of an earlier process may not have come
  try {
    for (;;) {
      const task = await heard('tasks/get', { taskId })
      const { status, result, error, statusMessage, pollIntervalMs } = task
      if (status === 'completed') return Object(result) as Fields
      if (status === 'failed' || status === 'cancelled') {
        const why = [Object(error).message, statusMessage].find((each) => typeof each === 'string')
        throw new EndedTaskError(`its task ${status === 'failed' ? 'failed' : 'was cancelled'}${why ? `: ${why}` : ''}`)
      }
      const open = status === 'input_required' ? Object.entries(Object(task.inputRequests) as Fields) : []
      const asked = open.filter(([key]) => !Object.hasOwn(answered, key)) // it may still show what is answered
      const askedAt = systemClock.monotonic()
      const answers = await answersTo(server, Object.fromEntries(asked), 'task', context)
      until += systemClock.monotonic() - askedAt
      const inputResponses = unsent ? { ...answered, ...answers } : answers
      answered = { ...answered, ...answers }
      if (asked.length > 0) await note({ round, taskId, answered })
      if (open.length > 0 && Object.keys(inputResponses).length > 0) {
        await heard('tasks/update', { taskId, inputResponses })
        unsent = false
      }
      const wanted = typeof pollIntervalMs === 'number' ? pollIntervalMs : DEFAULT_POLL_MS
      await pause(Math.min(Math.max(wanted, LEAST_POLL_MS), MOST_POLL_MS))
    }
  } catch (error) {
    if (error instanceof EndedTaskError) throw error
    if (!signal.aborted || ENDS.has(Object(signal.reason).code))
      void ask('tasks/cancel', { taskId }, true).catch(() => {})
    throw new LostTaskError('', { cause: error })
  }
}

/** Codes of reasons for which nobody goes on with a call later. */
const ENDS = new Set(['CANCELLED', 'TOOL_TIMEOUT', 'RUN_ABORTED', 'RUN_TIMEOUT', 'TURN_TIMEOUT'])
