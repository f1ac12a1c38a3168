/**
 * Verbs that give a model's turn information on its team, which only the host has. Each call is a logged step of the
 * turn.
 */

import { LOOP_FOUND, MODEL_TURN, type Verb } from '../../actors/definition/role.ts'
import type { AgentTask, Executor } from '../../actors/definition/task.ts'
import type { Conversation, Heirs } from '../../actors/model/conversation.ts'
import { CHECK_OUTPUT } from '../../actors/model/last-speaker.ts'
import { LAST_SIGN } from '../../actors/model/tool-calls.ts'
import { AGENT_STATUS } from '../../actors/model/verb-tools.ts'
import type { ModelTurnView } from '../../actors/turn/model-agent.ts'
import { MessageRejectedError, shown } from '../../shared/errors.ts'
import type { Agent } from '../host/agent.ts'
import type { Core } from '../host/core.ts'
import { type Delegations, mayDelegate, mayTurnTo } from '../host/delegation.ts'
import { statusOf } from '../host/directory.ts'
import { RunOutput, type RunState } from '../host/run.ts'
import { LADDER, livelockAlarm } from '../log/records.ts'
import type { HostVerb } from './calls.ts'
import { progressOf, shortened } from './progress.ts'
import { isDone } from './task-board.ts'

/** `inCluster`: requests may have a key that is elsewhere. */
export function modelTurnVerbs(
  core: Core,
  delegations: Delegations,
  inCluster: boolean,
): [operation: Verb, verb: HostVerb][] {
  return [
    [
      CHECK_OUTPUT,
      async (args, { agent, run }) => {
        const { value, of } = Object(args) as { value?: unknown; of?: unknown }
        const { output: ofRole } = agent.settings
        const output = of === 'role' ? ofRole && new RunOutput(ofRole, run.id) : run.output
        return (await output?.issuesOf(value)) ?? null
      },
    ],
    [
      MODEL_TURN,
      async (_args, { agent, run, turn }): Promise<ModelTurnView> => ({
        colleagues: core.directory
          .agents(run)
          .filter((other) => mayTurnTo(agent, other))
          .map(({ settings: { info, playedByModel } }) => ({
            name: info.name,
            description: info.description,
            capabilities: info.capabilities,
            isModel: playedByModel,
          })),
        heirs: heirsOf(core.directory.agents(run).filter((other) => other !== agent)),
        known: (run.states.get(agent.index) as Conversation | undefined)?.turns.length ?? 0,
        nested: agent.holderOf(turn)?.mailbox.handed.get(turn)?.within !== undefined,
        ...(inCluster && { keyed: true }),
        ...(delegations.hasHandoffsLeft(run.handoffs) ? {} : { hasNoHandoffs: true }),
      }),
    ],
    [
      LOOP_FOUND,
      async (args, { agent, run }) => {
        const { step, evidence } = loopFrom(Object(args))
        core.journal.record(run, { kind: 'alarm', ...livelockAlarm(step, [agent.name], evidence) })
      },
    ],
    [
      AGENT_STATUS,
      async (args, { agent, run }) => {
        const others = core.directory.agents(run).filter((other) => other !== agent)
        if ((Object(args) as { executors?: unknown }).executors === true)
          return others.filter((other) => mayDelegate(agent, other)).map((other) => executor(run, other))
        return others.map((other) => ({ name: other.name, status: statusOf(other), ...tasksOf(run, other.name) }))
      },
    ],
  ]
}

const LAST_TASKS = 10

const latestTasks = (run: RunState, agent: string): AgentTask[] =>
  [...run.tasks.values()].filter(({ assignedTo }) => assignedTo === agent).slice(-LAST_TASKS)

/** Returns them in short; nothing if it has none. */
function tasksOf(run: RunState, agent: string): { tasks?: Pick<AgentTask, 'description' | 'status'>[] } {
  const own = latestTasks(run, agent)
  if (own.length === 0) return {}
  return { tasks: own.map(({ description, status }) => ({ description: shortened(description), status })) }
}

function executor(run: RunState, agent: Agent): Executor {
  const tasks = latestTasks(run, agent.name).map(({ id, description, status }) => {
    const progress = isDone(status) ? undefined : progressOf(agent, run, id)
    return { id, task: shortened(description), status, ...(progress && { progress }) }
  })
  return { executor: agent.name, status: statusOf(agent), tasks }
}

/** Reads the loop report of a thread: its model does the same again and again. */
function loopFrom({ step, signs }: { step?: unknown; signs?: unknown }) {
  const named = LADDER.find((each) => each === step)
  if (!named) throw new MessageRejectedError(`${LOOP_FOUND}: step is ${shown(step)}.`, { path: 'step' })
  if (!Array.isArray(signs))
    throw new MessageRejectedError(`${LOOP_FOUND}: signs are ${shown(signs)}.`, { path: 'signs' })
  return { step: named, evidence: signs.slice(-LAST_SIGN).map((sign) => String(sign).slice(0, LONGEST_SIGN)) }
}

const LONGEST_SIGN = 1_000

function heirsOf(agents: readonly Agent[]): Heirs {
  const inherits = agents.map(({ name, settings }) => [name, settings.contextStrategy?.inherit ?? 'none'] as const)
  return Object.fromEntries(inherits.filter(([, inherit]) => inherit !== 'none'))
}
