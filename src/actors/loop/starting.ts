/** Starts an agent before its first message: checks and restores its state, validates its data, runs its start hook. */
import {
  ConfigurationError,
  type DramatisError,
  describe,
  MessageRejectedError,
  StartFailedError,
} from '../../errors.ts'
import { type AgentHandlers, initialStateOf } from '../definition/definition.ts'
import { checkBySchema } from '../definition/schema.ts'
import { NO_SLOT } from '../transport/parking.ts'
import { deepFreeze, firstState, NO_RUN } from '../transport/run-views.ts'
import { Turn, type TurnNeeds } from '../turn/turn.ts'

/** The agent loop, as far as the start needs it. `startAgent` sets `data` and `state`. */
export interface Starting extends TurnNeeds {
  data: unknown
  state: object
}

/**
 * Prepares the agent's state and data, then runs its start hook. Returns the state as JSON if the host does not have it
 * yet.
 *
 * @param option path of the role in the team's options, for error texts
 * @param state state that an earlier thread of this agent left, as JSON
 */
export async function startAgent(
  loop: Starting,
  handlers: AgentHandlers,
  option: string,
  state: string | undefined,
): Promise<string | undefined> {
  const { name } = loop.role
  const { initialRunState, data, start } = handlers
  loop.stateRules.check(handlers)
  const initial = firstState(initialStateOf(handlers, loop.role), 'initialState', name)
  if (typeof initialRunState !== 'function') firstState(initialRunState, 'initialRunState', name)
  loop.state = state === undefined ? initial : deepFreeze(JSON.parse(state) as object)
  loop.data = data ? await dataOf(loop, data, `${option}.data`) : loop.role.data
  if (start) await runStart(loop, start)
  const now = JSON.stringify(loop.state)
  return now === state ? undefined : now
}

const dataOf = ({ role }: Starting, schema: NonNullable<AgentHandlers['data']>, path: string): Promise<unknown> =>
  checkBySchema(
    schema,
    role.data,
    (issues) =>
      new MessageRejectedError(`${path}: the data of agent "${role.name}" misses its schema: ${issues}`, {
        path,
        issues,
      }),
  )

async function runStart(loop: Starting, start: NonNullable<AgentHandlers['start']>): Promise<void> {
  const turn = new Turn(loop, {
    turn: 0,
    run: 0,
    view: NO_RUN,
    id: [0, 0, 0, 0],
    message: undefined,
    attempt: 1,
    caller: 0,
    correlation: 0,
    streams: false,
    type: 'request',
    startedAt: loop.now(),
    replay: undefined,
    slot: NO_SLOT,
    nested: false,
  })
  const { role, data, log, signal } = turn // the start hook has no run, so it gets no verbs that need one
  const context = {
    role,
    data,
    log,
    signal,
    get state() {
      return turn.state
    },
    setState: (recipe: (draft: object) => void) => turn.setState(recipe),
  }
  try {
    await start(context)
    loop.state = turn.state
  } finally {
    turn.close()
  }
}

/**
 * Converts an error of the start. Errors in the code or its data become a ConfigurationError. Anything else that
 * `start` throws becomes a StartFailedError.
 */
export function startFailure(agent: string, error: unknown): DramatisError {
  if (error instanceof ConfigurationError) return error
  if (error instanceof MessageRejectedError)
    return new ConfigurationError(error.message, { agent, ...error.details }, error)
  return new StartFailedError(`Agent "${agent}" failed while it started: ${describe(error)}`, { agent }, error)
}
