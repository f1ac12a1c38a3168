/**
 * Chooses the agent for a task, for protocol scripts. Each choice is a logged step of its script, and is in the trace.
 * Bids of an auction are read in `actors/model/decisions.ts`.
 */

import type { Verb } from '../../actors/definition/role.ts'
import {
  type Candidate,
  type CandidateOptions,
  type RouteOptions,
  TASK_ROUTINGS,
  type TaskRouting,
} from '../../actors/definition/task.ts'
import { NOBODY, questionOf, type Routed, type RoutedTask } from '../../actors/turn/delegate.ts'
import { type Check, listOf, oneOf, rule, shape, text } from '../../shared/checks.ts'
import type { Agent } from '../host/agent.ts'
import type { Core } from '../host/core.ts'
import { SIGNS, type Standing, standingOf } from '../host/delegation.ts'
import { statusOf } from '../host/directory.ts'
import type { RunState } from '../host/run.ts'
import type { HostVerb } from './calls.ts'

/** Returns the tokens that an agent may still use in a run. */
export type TokensLeft = (run: RunState, agent: Agent) => number

interface Able {
  readonly agent: Agent
  readonly load: number
  readonly standing: Extract<Standing, { able: true }>
}

/**
 * Choices by load whose messages are still on their way, as of so many messages that the agent had accepted. Without
 * them all that is chosen at one moment would go to the same agent.
 */
interface Expected {
  readonly accepted: number
  readonly runs: RunState[]
}

interface Choice {
  readonly able: Able | undefined
  readonly why: string
}

interface Question {
  readonly task: RoutedTask
  readonly options: RouteOptions
}

export class TaskRouter {
  readonly #core: Core
  readonly #by: TaskRouting
  readonly #left: TokensLeft
  /** Order of the round robin, by agent name: the agent that got a task last has the highest number. */
  readonly #turns = new Map<string, number>()
  readonly #expected = new WeakMap<Agent, Expected>()

  /** `by` is the routing if the script gives none. */
  constructor(core: Core, by: TaskRouting, left: TokensLeft) {
    this.#core = core
    this.#by = by
    this.#left = left
  }

  get verbs(): [operation: Verb, verb: HostVerb][] {
    return [
      ['route', async (args, { run }) => this.#route(checked(checkRoute, args), run)],
      ['candidates', async (args, { run }) => this.#candidates(checked(checkCandidates, args), run)],
    ]
  }

  #route({ task, options }: Question, run: RunState): Routed {
    const by = options.by ?? this.#by
    if (by === 'auction') return { bidders: this.#candidates({ task, options }, run) }
    const { able, why } = this.#choose(by, task, options, run)
    const agent = able?.agent.name ?? null
    this.#core.journal.record(run, {
      kind: 'decision',
      question: questionOf(task),
      choice: agent ?? NOBODY,
      reason: `${by}: ${why}.`,
    })
    return { agent }
  }

  #candidates({ task, options }: Question, run: RunState): Candidate[] {
    const { able } = this.#look(task, options, run)
    return able.map(({ agent, load, standing }) => ({ agent: agent.name, fit: standing.fit, load }))
  }

  #choose(by: TaskRouting, task: RoutedTask, options: RouteOptions, run: RunState): Choice {
    if (by === 'explicit') return this.#assigned(task, options, run)
    const { able, others } = this.#look(task, options, run)
    if (able.length === 0) return { able: undefined, why: others || 'there is nobody to choose from' }
    const found = by === 'round_robin' ? this.#inTurn(able) : by === 'load_balance' ? idlest(able) : match(able)
    if (by === 'round_robin' && found.able) this.#tookTurn(found.able.agent)
    if (by === 'load_balance' && found.able) this.#expectedOf(found.able.agent).runs.push(run)
    return found
  }

  #assigned({ assignedTo }: RoutedTask, { among }: RouteOptions, run: RunState): Choice {
    const asked = among?.map((name) => this.#core.directory.requirePresent(name, run))
    if (assignedTo === null) return { able: undefined, why: 'the task is assigned to nobody' }
    const agent = this.#core.directory.requirePresent(assignedTo, run)
    if (asked && !asked.includes(agent)) return { able: undefined, why: `"${assignedTo}" is not among those asked for` }
    const obstacle = obstacleOf(agent)
    if (obstacle) return { able: undefined, why: `"${agent.name}" ${obstacle}` }
    const standing = { able: true, sign: 'nothing', fit: 1, why: '' } as const
    return { able: { agent, load: this.#loadOf(agent), standing }, why: 'the task is assigned to it' }
  }

  /** Returns the agents that can get the task, and why the others cannot. */
  #look(task: RoutedTask, { among, inputTypes = [], outputTypes = [] }: RouteOptions, run: RunState) {
    const agents = among
      ? new Set(among.map((name) => this.#core.directory.requirePresent(name, run)))
      : this.#core.directory.agents(run)
    const able: Able[] = []
    const others: string[] = []
    for (const agent of agents) {
      const { capabilities = [], maxTokens = Number.POSITIVE_INFINITY } = agent.settings.info
      const left = Math.min(maxTokens, this.#left(run, agent))
      const obstacle = obstacleOf(agent)
      const standing = obstacle
        ? { able: false as const, why: obstacle }
        : standingOf({ capabilities, tools: toolsOf(agent), left }, { ...task, inputTypes, outputTypes })
      if (standing.able) able.push({ agent, load: this.#loadOf(agent), standing })
      else others.push(`"${agent.name}": ${standing.why}`)
    }
    return { able, others: others.join('; ') }
  }

  #inTurn(able: readonly Able[]): Choice {
    const turnOf = ({ agent }: Able) => this.#turns.get(agent.name) ?? 0
    return { able: least(able, turnOf), why: 'its turn is longest ago' }
  }

  #tookTurn({ name }: Agent): void {
    this.#turns.set(name, Math.max(0, ...this.#turns.values()) + 1)
  }

  #loadOf(agent: Agent): number {
    const { waiting, pending, underWay } = agent.mailbox
    return waiting + pending.length + underWay + this.#expectedOf(agent).runs.length
  }

  /** Each message that has arrived since takes out the oldest choice. */
  #expectedOf(agent: Agent): Expected {
    const { accepted } = agent.mailbox
    const before = this.#expected.get(agent) ?? { accepted, runs: [] }
    const runs = before.runs.slice(Math.max(0, accepted - before.accepted)).filter((run) => !run.ended.aborted)
    const expected = { accepted, runs }
    this.#expected.set(agent, expected)
    return expected
  }
}

/**
 * Chooses by what the task names: required capabilities, then those in its text, then tools, then types. Of several
 * agents takes the surest (the best fit).
 */
function match(able: readonly Able[]): Choice {
  const strongest = Math.min(...able.map(rankOf))
  if (strongest === SIGNS.nothing)
    return { able: undefined, why: 'the task names no capability and no tool of anybody' }
  const signed = able.filter((one) => rankOf(one) === strongest)
  const found = least(signed, ({ standing }) => -standing.fit)
  return { able: found, why: found?.standing.why ?? '' }
}

/**
 * Chooses the agent with the least to do, among those that the task names, or else among all. Of several takes the one
 * with the highest priority.
 */
function idlest(able: readonly Able[]): Choice {
  const named = able.filter((one) => rankOf(one) < SIGNS.nothing)
  const pool = named.length > 0 ? named : able
  const load = Math.min(...pool.map((one) => one.load))
  const idle = pool.filter((one) => one.load === load)
  const found = least(idle, ({ agent }) => -(agent.settings.info.priority ?? 0))
  return { able: found, why: `it has ${load} messages to handle, the fewest of ${pool.length}` }
}

const rankOf = ({ standing }: Able): number => SIGNS[standing.sign]

function least(able: readonly Able[], figure: (one: Able) => number): Able | undefined {
  const lowest = Math.min(...able.map(figure))
  return able.find((one) => figure(one) === lowest)
}

function obstacleOf(agent: Agent): string | undefined {
  if (agent.settings.info.canBeDelegatedTo === false) return 'takes no tasks (canBeDelegatedTo: false)'
  const status = statusOf(agent)
  return status === 'stopped' || status === 'failed' ? `is ${status}` : undefined
}

/** Returns the names of an agent's tools and skills. Tools in modules are known once its thread has loaded them. */
const toolsOf = ({ settings, tools }: Agent): readonly string[] => [
  ...(tools ?? settings.tools.inline.map(({ tool }) => tool.name)),
  ...settings.tools.skills,
]

const isName = (value: unknown) => typeof value === 'string' && value !== ''

const checkTask = shape<RoutedTask>(
  {
    text,
    assignedTo: rule('the name of an agent, or null', (value) => value === null || isName(value)),
    requiredCapabilities: listOf(text),
  },
  'text',
  'assignedTo',
  'requiredCapabilities',
)
const candidateOptions = {
  among: listOf(rule('the name of an agent', isName)),
  inputTypes: listOf(text),
  outputTypes: listOf(text),
}
const question = (options: Check) => shape<Question>({ task: checkTask, options }, 'task', 'options')
const checkRoute = question(shape<RouteOptions>({ by: oneOf(...TASK_ROUTINGS), ...candidateOptions }))
const checkCandidates = question(shape<CandidateOptions>(candidateOptions))

/** Checks arguments from a thread. */
function checked(check: Check, args: unknown): Question {
  check(args, '')
  return args as Question
}
