/** The page of what a team can do: the types here have no member that it does not name. */
import t from 'tap'
import type { AgentInstance, Run, Team } from '../../src/index.ts'
import { read } from './page.ts'

/** Does not compile when a member is missing. */
type Members<T> = Record<Extract<keyof T, string>, true>

const team: Members<Team> = {
  addAgent: true,
  answer: true,
  beginThread: true,
  broadcast: true,
  budgets: true,
  canDelegate: true,
  close: true,
  currency: true,
  deadLetters: true,
  delegateTask: true,
  digestOf: true,
  events: true,
  execute: true,
  flush: true,
  getAgent: true,
  getAgentStatus: true,
  getBlackboard: true,
  getDelegationGraph: true,
  getMessageHistory: true,
  getRun: true,
  getTaskStatus: true,
  health: true,
  isForgotten: true,
  judgement: true,
  launch: true,
  listAgents: true,
  listRuns: true,
  logName: true,
  logPath: true,
  metrics: true,
  orchestration: true,
  questions: true,
  reload: true,
  reloadAgent: true,
  removeAgent: true,
  replay: true,
  restartAgent: true,
  resume: true,
  resumePending: true,
  runLimits: true,
  sendMessage: true,
  start: true,
  stream: true,
  thread: true,
  turns: true,
  waitCycles: true,
  waits: true,
  watch: true,
}

const run: Members<Run> = {
  answer: true,
  blackboard: true,
  board: true,
  cancel: true,
  events: true,
  id: true,
  messageHistory: true,
  metadata: true,
  money: true,
  query: true,
  questions: true,
  result: true,
  speaker: true,
  startedAt: true,
  status: true,
  steer: true,
  steers: true,
  stream: true,
  tasks: true,
  tenant: true,
  text: true,
  trace: true,
  usage: true,
  usageByAgent: true,
}

const agent: Members<AgentInstance> = {
  config: true,
  getContext: true,
  getContextSummary: true,
  getMessageHistory: true,
  getProgress: true,
  getTokenUsage: true,
  name: true,
  receiveMessage: true,
  role: true,
  run: true,
  status: true,
  workspace: true,
}

t.test('docs/reference/team.md has each member of a team, a run and an agent', async (t) => {
  const [, ...parts] = read('docs/reference/team.md').split(/^## /m)
  for (const [heading, members] of [
    ['A team', team],
    ['A run', run],
    ['An agent', agent],
  ] as const) {
    const part = parts.find((each) => each.startsWith(`${heading}\n`)) ?? ''
    t.same(
      Object.keys(members).filter((name) => !part.includes(`\`${name}\``)),
      [],
      heading,
    )
  }
})
