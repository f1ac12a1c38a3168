/** The blackboard protocol when agents fail, crash or collide, and when the run is cancelled. */
import t from 'tap'
import type { OrchestratorContext } from '../../src/actors/definition/context.ts'
import { protocolFrom } from '../../src/protocols/index.ts'
import { RunAbortedError } from '../../src/shared/errors.ts'
import { after, refuses, stage, throws } from '../team/stage.ts'
import { interests, play, silent, survey, writes } from './contributors.ts'

t.test('who fails or refuses is listed in failures, and the others go on', async (t) => {
  const result = await play(t, { a: throws('broken'), b: refuses('not mine'), c: writes('x', 'solution') })
  t.match(result, { success: true, finalOutput: 'x!' })
  const later = await play(t, { a: throws('broken'), b: refuses('not mine'), c: writes('x') }, { maxRounds: 2 })
  t.match(later, { success: true, finalOutput: '- x (fact by c): x!' })
  t.same(later.failures.map(({ agent, error }) => `${agent} ${error.code}`).sort(), [
    'a AGENT_FAILED',
    'a AGENT_FAILED',
    'b TASK_REFUSED',
    'b TASK_REFUSED',
  ])
})

t.test('a run in which all fail before anybody wrote fails, and says why of each', async (t) => {
  const result = await play(t, { a: throws('one'), b: refuses('two') })
  t.match(result.error, {
    code: 'AGENT_FAILED',
    details: { failures: [{ agent: 'a' }, { agent: 'b', code: 'TASK_REFUSED' }] },
  })
})

t.test('a crash of any agent in its turn changes neither the result nor the entries', async (t) => {
  for (const agent of Object.keys(survey)) {
    const team = stage(t, survey, { orchestration: { strategy: 'blackboard', interests } })
    team.events.subscribe((event) => {
      const isAtWork =
        agent === 'collector' // after it has written one of its entries
          ? event.type === 'blackboard' && event.entry.key === 'data.rain'
          : event.type === 'turn.started' && event.agent === agent && event.attempt === 1
      if (isAtWork && team.health().agents[agent]?.restarts === 0) team.crash(agent)
    })
    const run = team.launch('q')
    await team.clock.advance(100_000)
    t.match(await run.result, { finalOutput: 'data.rain has 2 and data.wind has 3', failures: [] })
    t.equal(team.health().agents[agent]?.restarts, 1, agent)
    for (const key of ['data.rain', 'data.wind', 'finding.rain', 'finding.wind', 'report'])
      t.equal((await run.blackboard?.getHistory(key))?.length, 1, `${agent}: ${key}`)
  }
})

t.test('cancelled in the middle it ends at once, and leaves no agent at work', async (t) => {
  for (const [agents, quietMs] of [
    [['a'], 1_000], // while it waits for quiet
    [['a', 'b'], 0], // while an agent is at work
  ] as const) {
    const orchestration = { strategy: 'blackboard' as const, agents: [...agents], quietMs }
    const team = stage(t, { a: writes('x'), b: after(20) }, { orchestration })
    const run = team.launch('q')
    await team.clock.advance(10)
    await run.cancel('enough')
    t.match(await run.result, { success: false, executionTimeMs: 10, error: { code: 'RUN_ABORTED' }, failures: [] })
    await team.clock.advance(0)
    t.match(team.health().agents, { a: { status: 'idle', inFlight: 0 }, b: { status: 'idle', inFlight: 0 } })
    t.same((await run.result).orchestrationTrace.decisions, [])
    const next = team.execute('q')
    await team.clock.advance(10_000)
    t.equal((await next).success, true)
  }
})

/** A script's context in which one agent writes that and answers, and the board tells nobody of it. */
function silentBoard(written: object[], run = new AbortController()) {
  const decided: string[] = []
  const entries: object[] = []
  const verbs = {
    agents: [{ name: 'a' }],
    signal: run.signal,
    decide: (_question: string, choice: string) => void decided.push(choice),
    request: async () => {
      if (run.signal.reason) throw run.signal.reason
      entries.push(...written)
      return { content: 'done', structuredData: null }
    },
    blackboard: { query: async () => entries, subscribe: async () => () => {}, write: async () => {} },
  }
  const context: OrchestratorContext = Object.assign(Object.create(null), verbs)
  return { decided, play: () => script(context) }
}

async function script(context: OrchestratorContext): Promise<unknown> {
  const protocol = protocolFrom({ strategy: 'blackboard' }, ['a'])
  return 'run' in protocol ? protocol.run(context, 'q') : undefined
}

t.test('an entry counts although the answer of its author has overtaken the news of it', async (t) => {
  const solution = {
    key: 'x',
    value: 'X',
    author: 'a',
    entryType: 'solution',
    confidence: 1,
    supersedes: null,
    version: 1,
  }
  t.equal(await silentBoard([solution]).play(), 'X')
})

t.test('after the end of its run the script decides nothing more', async (t) => {
  const run = new AbortController()
  run.abort(new RunAbortedError('over', {}))
  const { decided, play } = silentBoard([], run)
  await t.rejects(play(), { code: 'RUN_ABORTED' })
  t.same(decided, [])
})

t.test('the same seed gives the same run, to the last event', async (t) => {
  const [one, other] = await Promise.all(
    [1, 2].map(async () => {
      const result = await play(t, survey, { interests }, { seed: 7 })
      return JSON.parse(JSON.stringify([result, result.orchestrationTrace, result.messageHistory]))
    }),
  )
  t.same(one, other)
})

t.test('no letter is dead after a run, and none of its turns is open', async (t) => {
  const team = stage(t, survey, { orchestration: { strategy: 'blackboard', interests } })
  const pending = team.execute('q')
  await team.clock.advance(100_000)
  await pending
  t.same(team.deadLetters.list(), [])
})

t.test('a team without a blackboard cannot work by this strategy', async (t) => {
  t.throws(() => stage(t, { a: silent }, { enableBlackboard: false, orchestration: { strategy: 'blackboard' } }), {
    code: 'CONFIGURATION',
    details: { path: 'enableBlackboard', got: 'false', accepted: 'true or { scope }' },
  })
})
