/** Handlers and scripts reach the verbs of the public contract by their context, and the names of their team. */
import t from 'tap'
import type { AgentContext, OrchestratorContext } from '../../src/actors/definition/context.ts'
import { Names, NO_RUN, type RunView } from '../../src/actors/turn/run-views.ts'
import { createTeam, defineAgent, defineTool } from '../../src/index.ts'
import { scriptedModel, testAgent } from '../../src/testing.ts'
import { namesOf } from '../fixtures/team/reachable-names.ts'
import { silent } from '../kit/team.ts'
import { echo, stage } from '../team/stage.ts'

// Handlers and scripts reach the verbs of the public contract by their context, and nothing of the turn behind it.

const fixture = (name: string) => new URL(`../fixtures/team/${name}.js`, import.meta.url)

// A name that is missing here, or is none, does not compile.
const OF_AGENTS = Object.keys({
  ...{ ask: 1, attempt: 1, blackboard: 1, broadcast: 1, complete: 1, data: 1, defineAgent: 1, delegate: 1, emit: 1 },
  ...{ escalate: 1, handoff: 1, log: 1, now: 1, publish: 1, random: 1, refuse: 1, report: 1, request: 1 },
  ...{ requestAll: 1, requestAny: 1, requestQuorum: 1, requestStream: 1, role: 1, run: 1, runId: 1, runState: 1 },
  ...{ send: 1, setRunState: 1, setState: 1, shared: 1, signal: 1, sleep: 1, spawn: 1, state: 1, step: 1 },
  ...{ subscribe: 1, sync: 1, think: 1, tool: 1, uuid: 1, watch: 1 },
} satisfies Record<keyof AgentContext, 1>)
const OF_SCRIPTS = Object.keys({
  ...{ agents: 1, candidates: 1, decide: 1, route: 1, synced: 1, vote: 1 },
} satisfies Record<Exclude<keyof OrchestratorContext, keyof AgentContext>, 1>)
const ofAgents = OF_AGENTS.sort()
const ofScripts = [...OF_AGENTS, ...OF_SCRIPTS].sort()

/** What the handlers of an agent see of their contexts, by handler. */
async function seenByHandlers(see: (context: object) => unknown): Promise<Record<string, unknown>> {
  const seen: Record<string, unknown> = {}
  const agent = testAgent(
    defineAgent({
      start(context) {
        seen.start = see(context)
      },
      receive: async (_message, context) => {
        seen.receive = see(context)
        await context.tool('look', {})
        await context.think('what?')
      },
      observe(_message, context) {
        seen.observe = see(context)
      },
      buildContext: (history, context) => {
        seen.buildContext = see(context)
        return [...history]
      },
    }),
    {
      tools: { look: () => '' },
      model: scriptedModel([{ reply: 'this' }]),
    },
  )
  await agent.request('look')
  await agent.observe({ content: 'look' })
  return seen
}

t.test('a handler reaches the verbs of the contract by its context, and nothing else', async (t) => {
  const seen = await seenByHandlers(namesOf)
  t.same(seen.receive, ofAgents)
  t.same(seen.observe, ofAgents)
  t.same(seen.buildContext, ofAgents)
  t.same(seen.start, ['data', 'log', 'role', 'setState', 'signal', 'state'])
})

t.test('the class of a context holds nothing that leads to a turn', async (t) => {
  const { receive } = await seenByHandlers((context) => Reflect.ownKeys(context.constructor))
  t.same(receive, ['length', 'name', 'prototype'])
})

t.test('what belongs to the turn behind a context is no function of it', async (t) => {
  const hidden = ['abort', 'acknowledge', 'breathe', 'call', 'close', 'draftOf', 'nextStep', 'read', 'thinkAloud']
  const { receive } = await seenByHandlers((context) =>
    hidden.map((name) => {
      try {
        Reflect.apply(Reflect.get(context, name), context, [new Error('by hand')])
      } catch (error) {
        return error instanceof TypeError
      }
      return name
    }),
  )
  t.same(
    receive,
    hidden.map(() => true),
  )
})

t.test('a tool of an agent reaches what a tool is given, and nothing else', async (t) => {
  let seen: unknown
  const input = { '~standard': { version: 1, vendor: 'test', validate: (value: unknown) => ({ value }) } } as const
  const jsonSchema = { input: () => ({ type: 'object' }), output: () => ({}) }
  const look = defineTool({
    name: 'look',
    description: 'Looks.',
    input: { '~standard': { ...input['~standard'], jsonSchema } },
    run(_input, context) {
      seen = namesOf(context)
    },
  })
  const agent = defineAgent({ receive: (_message, context) => context.tool(look, {}).then(() => '') })
  await stage(t, { agent: { code: agent, tools: [look] } }).execute('look')
  t.same(seen, ['agent', 'ask', 'caller', 'idempotencyKey', 'log', 'progress', 'runId', 'signal', 'tenant'])
})

t.test('a script in the host reaches its verbs by its context, and nothing else', async (t) => {
  const run = async (orchestrator: OrchestratorContext) => namesOf(orchestrator).join()
  const { finalOutput } = await stage(t, { a: echo }, { orchestration: { strategy: 'custom', run } }).execute('look')
  t.equal(finalOutput, ofScripts.join())
})

t.test('in a thread it is the same, for an agent and for a script', async (t) => {
  const agents = [{ name: 'agent', module: fixture('names-of-context') }]
  const logger = silent
  for (const [orchestration, names] of [
    [{ strategy: 'sequential' as const }, ofAgents],
    [{ strategy: 'custom' as const, module: fixture('names-of-script') }, ofScripts],
  ] as const) {
    const team = createTeam({ agents, orchestration, logger, threads: { warmSpares: 0 } })
    t.teardown(() => team.close())
    t.equal((await team.execute('look')).finalOutput, names.join())
  }
})

// The names that a thread knows: of the team, of runs, and of those who join later.

const run = (): RunView => ({ ...NO_RUN })
const team = () => new Names('$runtime\n$user\n$orchestrator\nann\n\nbob')

t.test('a name and its index lead to each other', async (t) => {
  const names = team()
  t.same(
    [0, 1, 2, 3, 5].map((index) => names.name(index)),
    ['$runtime', '$user', '$orchestrator', 'ann', 'bob'],
  )
  for (const again of [1, 2])
    t.same(
      ['ann', 'bob'].map((name) => names.indexOf(name, run())),
      [3, 5],
      `time ${again}`,
    )
  t.ok([0, 1, 2, 3, 5].every((index) => names.isKnown(index)))
})

t.test('what nobody has told this thread is left to the host', async (t) => {
  const names = team()
  for (const name of ['cid', '', 'an', 'nn\n', '$user', '$other']) t.equal(names.indexOf(name, run()), undefined, name)
  t.same([names.name(4), names.name(6)], ['#4', '#6'])
  t.notOk(names.isKnown(4), 'it was an agent of a run')
  t.notOk(names.isKnown(6))
})

t.test('who joins the team is known from then on, and counts as late', async (t) => {
  const names = team()
  names.learn('cid', 6, undefined)
  t.same([names.name(6), names.indexOf('cid', run()), names.isKnown(6)], ['cid', 6, true])
  t.ok(names.late.has('cid'))
  t.notOk(names.late.has('bob'))
  t.equal(names.name(5), 'bob')
})

t.test('an agent of a run is known by name in that run alone, before an agent of the team', async (t) => {
  const names = team()
  const [its, other] = [run(), run()]
  names.learn('bob', 4, its)
  t.same([names.indexOf('bob', its), names.indexOf('bob', other)], [4, 5])
  t.equal(names.name(4), 'bob')
  t.notOk(names.isKnown(4), 'the index belongs to another agent after the run')
})
