/**
 * Metrics of a team, read from the supervisor's state when somebody asks. Each team has its own, and nothing is global:
 * two teams in a process have two pages.
 */

import { addUsage } from '../../actors/definition/model.ts'
import type { Agent } from '../host/agent.ts'
import { isReady, sumOf } from '../host/directory.ts'
import type { Reader } from '../host/journal.ts'
import type { RunBook } from '../runs/runs.ts'
import { amountOf } from '../settings/money.ts'
import type { Supervisor } from '../supervision/host.ts'
import type { BudgetUse } from '../verbs/budgets.ts'
import { counter, gauge, histogram, type Metric } from './prometheus.ts'
import type { CallTallies, Tallies } from './tallies.ts'

const NOBODY = 'the agent is empty for those that belong to one run'

export function callMetrics({
  models,
  money,
  modelErrors,
  modelSwitches,
  modelTimes,
  tools,
  toolErrors,
  toolTimes,
}: CallTallies): Metric[] {
  const counts = (series: typeof tools) => series.samples(({ count }, labels) => [{ labels, value: count }])
  const times = (series: typeof toolTimes) => series.samples((each, labels) => each.samples(labels))
  const calls = models.samples((model, labels) => [{ labels, value: model.calls }])
  const tokens = models.samples(({ input, output }, labels) => [
    { labels: { ...labels, direction: 'input' }, value: input },
    { labels: { ...labels, direction: 'output' }, value: output },
  ])
  const duration = 'From the call of a model to its whole answer, attempts and pauses between them too.'
  const reasons = 'Calls of models without an answer, by the reason (error.modelFailure.reason).'
  return [
    counter('model_calls', `Calls of models, each with all its attempts; ${NOBODY}.`, calls),
    counter('model_tokens', `Tokens that models have read (input) and written (output); ${NOBODY}.`, tokens),
    counter(
      'model_money',
      "What calls of models have cost by the prices of the team, in their currency; the tenant is the run's.",
      money.samples((each, labels) => [{ labels, value: amountOf(each.sum) }]),
    ),
    counter('model_errors', reasons, counts(modelErrors)),
    counter(
      'model_switches',
      'Answers that another model of a list was asked for (models.<name>.anyOf).',
      counts(modelSwitches),
    ),
    histogram('model_call_duration', duration, times(modelTimes)),
    counter('tool_calls', `Calls of tools that have ended; ${NOBODY}.`, counts(tools)),
    counter('tool_errors', 'Calls of tools that have failed, by the code of the error.', counts(toolErrors)),
    histogram('tool_duration', 'From the start of a tool to its end.', times(toolTimes)),
  ]
}

type Samples = Metric['samples']

/** `slowTurns`: number of turns that are slow or stuck. `budgets`: use of the limits of the team and of its tenants. */
export function metricsOf(
  supervisor: Supervisor,
  runs: RunBook,
  tallies: Tallies,
  slowTurns: number,
  budgets: readonly BudgetUse[],
): Metric[] {
  supervisor.journal.tell()
  const agents = supervisor.directory.agents()
  return [
    ...messages(agents, supervisor, tallies),
    ...lives(agents, supervisor, tallies),
    ...ends(runs, tallies),
    limitWaits(supervisor),
    gauge(
      'turns_slow',
      'Turns under way that take longer than supervision.slowMs, or wait in a circle (team.turns()).',
      single(slowTurns),
    ),
    gauge('questions_open', 'Questions to people that nobody has answered yet.', single(openQuestions(supervisor))),
    ...callMetrics(tallies.calls),
    ...budgetMetrics(budgets),
    ...durableLog(supervisor),
    ...host(supervisor),
  ]
}

function budgetMetrics(budgets: readonly BudgetUse[]): Metric[] {
  const samples = (read: (use: BudgetUse) => number): Samples =>
    budgets.map((use) => {
      const { option, tenant, agent, unit } = use
      return { labels: { option, tenant: tenant ?? '', agent: agent ?? '', unit }, value: read(use) }
    })
  const used = 'Tokens, or money, that are used of a limit of the team or of a tenant, with those that calls may need.'
  return [
    gauge(
      'budget_used',
      used,
      samples(({ used, held }) => used + held),
    ),
    gauge(
      'budget_limit',
      'Height of that limit.',
      samples(({ limit }) => limit),
    ),
  ]
}

function messages(
  agents: readonly Agent[],
  { journal: { deadLetters }, parts }: Supervisor,
  tallies: Tallies,
): Metric[] {
  const ofAgents = perAgent(agents)
  const deaths: Samples = agents.flatMap((agent) => reasons(agent.name, tallies.of(agent).deadLetters))
  deaths.push(...reasons('', tallies.deadLettersOfNobody))
  return [
    ofAgents(counter, 'messages_accepted', 'Messages taken into the mailbox.', ({ mailbox }) => mailbox.accepted),
    ofAgents(counter, 'messages_handled', 'Messages whose turn has committed.', ({ mailbox }) => mailbox.handled),
    counter(
      'messages_dead_lettered',
      'Messages, or answers to the agent, that nobody will handle; the agent is empty where there is none of that name.',
      deaths,
    ),
    ofAgents(
      gauge,
      'messages_queued',
      'Messages that wait in the mailbox, or for room in it.',
      ({ mailbox }) => mailbox.waiting + mailbox.pending.length,
    ),
    ofAgents(
      gauge,
      'messages_in_flight',
      'Messages that the thread has and whose turn has not ended.',
      ({ mailbox }) => mailbox.underWay,
    ),
    counter(
      'chatty_pairs',
      'Pairs of agents that had 1,000 messages between them in one run, counted once for each run.',
      single(tallies.chattyPairs),
    ),
    gauge('dead_letters', 'Dead letters in the list.', single(deadLetters.length)),
    counter('dead_letters_forgotten', 'Dead letters that have left the full list.', single(deadLetters.forgotten)),
    gauge('stored_parts', 'Large images, sounds and files that are stored, each once.', single(parts.size)),
    gauge('stored_part_bytes', 'Bytes of these (maxStoredBytes).', single(parts.bytes)),
    histogram(
      'turn_duration',
      'From the start of a turn to its end, its waits among it; failed turns too.',
      agents.flatMap((agent) => tallies.of(agent).turns.samples({ agent: agent.name })),
    ),
  ]
}

function lives(agents: readonly Agent[], supervisor: Supervisor, tallies: Tallies): Metric[] {
  const { directory, passivation, places, spawner } = supervisor
  const ofAgents = perAgent(agents)
  const isolated = directory.living.flatMap(({ incarnation }) =>
    incarnation?.thread.isolated ? [incarnation.thread] : [],
  )
  const threads = new Set(isolated.map((thread) => thread.shared ?? thread)).size
  const loops = agents.flatMap(({ name, instances }) => {
    const all = instances.flatMap(({ incarnation }) => incarnation?.thread.eventLoop() ?? [])
    return all.length > 0 ? [{ name, active: sum(all, 'active'), idle: sum(all, 'idle') }] : []
  })
  return [
    ofAgents(gauge, 'agent_ready', '1 while the agent is ready for messages, else 0.', ({ instances }) =>
      Number(instances.some(isReady)),
    ),
    ofAgents(counter, 'agent_crashes', 'Crashes of threads of the agent.', (agent) => tallies.of(agent).crashes),
    ofAgents(counter, 'agent_restarts', 'Starts of a new thread after a crash.', (agent) =>
      sumOf(agent, ({ restarts }) => restarts),
    ),
    ofAgents(counter, 'stale_frames', 'What threads of the agent wrote after they had been given up.', (agent) =>
      sumOf(agent, ({ staleFrames }) => staleFrames),
    ),
    counter(
      'agent_event_loop_active_seconds',
      "Time that the loop of the agent's present thread worked.",
      loops.map(({ name, active }) => ({ labels: { agent: name }, value: active / 1_000 })),
    ),
    counter(
      'agent_event_loop_idle_seconds',
      "Time that the loop of the agent's present thread waited.",
      loops.map(({ name, idle }) => ({ labels: { agent: name }, value: idle / 1_000 })),
    ),
    gauge('threads', 'Threads of the team that are alive.', [
      { labels: { use: 'agent' }, value: threads },
      { labels: { use: 'spare' }, value: spawner.spares },
    ]),
    gauge(
      'agents_waiting_for_thread',
      'Agents with messages that wait for a thread (threads.max).',
      single(places.waiting),
    ),
    counter(
      'agents_passivated',
      'Threads that were ended because their agent had nothing to do.',
      single(passivation.count),
    ),
  ]
}

function ends(runs: RunBook, tallies: Tallies): Metric[] {
  return [
    gauge('runs', 'Runs under way, and runs that wait to begin.', labelled('state', runs.line.counts)),
    counter(
      'runs_ended',
      'Runs by their ending; refused: the team was overloaded and did not take them.',
      labelled('ending', { ...tallies.runs, refused: runs.line.refusals }),
    ),
    histogram(
      'run_duration',
      'From execute to the result, the wait before the start among it.',
      tallies.runTimes.samples({}),
    ),
  ]
}

function limitWaits({ limits }: Supervisor): Metric {
  const waiting = new Map<string, number>()
  for (const { option, trouble } of limits.waits()) if (!trouble) waiting.set(option, (waiting.get(option) ?? 0) + 1)
  return gauge(
    'limit_waits',
    'Runs, turns and calls that wait for a limit (team.waits()), by the option that sets it.',
    Array.from(waiting, ([option, value]) => ({ labels: { limit: option }, value })),
  )
}

const openQuestions = ({ runs }: Supervisor): number =>
  [...runs.values()].reduce((total, { questions }) => total + questions.size, 0)

/** Nothing has a value while there is no durable log, or it is not open. */
function durableLog({ journal: { figures } }: Supervisor): Metric[] {
  const value = (of: number | undefined): Samples => (of === undefined ? [] : single(of))
  const seconds = (ms: number | undefined) => value(ms === undefined ? ms : ms / 1_000)
  return [
    gauge('durable_log_bytes', 'Bytes of the durable log on the disk.', value(figures?.bytes)),
    gauge('durable_log_segments', 'Files of the durable log with records.', value(figures?.segments)),
    gauge('durable_log_runs', 'Runs in the durable log, open ones and finished ones.', value(figures?.runs)),
    gauge(
      'durable_log_compacted_timestamp_seconds',
      'When this process has last forgotten runs, or given up files of the durable log.',
      seconds(figures?.compactedAt),
    ),
    gauge(
      'durable_log_oldest_record_seconds',
      'Age of the oldest record of the durable log.',
      seconds(figures?.oldestMs),
    ),
  ]
}

function host(supervisor: Supervisor): Metric[] {
  const { rss, heapTotal, heapUsed, external, arrayBuffers } = process.memoryUsage()
  const { active, idle } = performance.eventLoopUtilization()
  const logs = [...supervisor.runs.values()].map(({ log }) => log)
  return [
    gauge('log_bytes', 'Bytes of the records that are kept.', single(logs.reduce((sum, { bytes }) => sum + bytes, 0))),
    gauge('log_runs', 'Runs whose records are kept, messages from outside among them.', single(logs.length)),
    counter('host_event_loop_active_seconds', "Time that the host's loop worked.", single(active / 1_000)),
    counter('host_event_loop_idle_seconds', "Time that the host's loop waited.", single(idle / 1_000)),
    gauge(
      'process_memory_bytes',
      'Memory: rss is of the whole process, the others are of the host without its threads.',
      labelled('kind', { rss, heap_total: heapTotal, heap_used: heapUsed, external, array_buffers: arrayBuffers }),
    ),
  ]
}

const sum = <Key extends string>(all: readonly Record<Key, number>[], key: Key): number =>
  all.reduce((total, one) => total + one[key], 0)

const single = (value: number): Samples => [{ labels: {}, value }]

const perAgent =
  (agents: readonly Agent[]) => (metric: typeof counter, name: string, help: string, value: (agent: Agent) => number) =>
    metric(
      name,
      help,
      agents.map((agent) => ({ labels: { agent: agent.name }, value: value(agent) })),
    )

const labelled = (label: string, values: Record<string, number>): Samples =>
  Object.entries(values).map(([name, value]) => ({ labels: { [label]: name }, value }))

const reasons = (agent: string, letters: ReadonlyMap<string, number>): Samples =>
  [...letters].map(([reason, value]) => ({ labels: { agent, reason }, value }))

export const usage = ({ directory, runs }: Supervisor): Reader => ({
  kinds: ['model.called'],
  next(batch) {
    for (const entry of batch) {
      if (entry.kind !== 'model.called') continue
      runs.get(entry.run)?.spent.add(entry)
      const agent = directory.byIndex[entry.index]
      if (agent?.name === entry.agent) agent.spent = addUsage(agent.spent, entry.usage)
    }
  },
})
