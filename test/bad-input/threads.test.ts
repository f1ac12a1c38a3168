/** What only a thread of its own can do wrong, and what has to survive the way through one. */
import t from 'tap'
import * as dramatis from '../../src/index.ts'
import {
  AgentCrashedError,
  AgentFailedError,
  type AgentRole,
  createTeam,
  DramatisError,
  TaskRefusedError,
  TurnTimeoutError,
  UnknownAgentError,
} from '../../src/index.ts'
import { refusalOf, type Test } from './helpers.ts'

const module = new URL('../fixtures/bad-input/agent.js', import.meta.url)

function threads(t: Test, role: Partial<AgentRole> = {}) {
  const lines: { agent?: string; text: string }[] = []
  const note = (fields: object, text: string) => void lines.push({ ...fields, text })
  const silent = () => {}
  const team = createTeam({
    agents: [
      { name: 'ann', module, ...role },
      { name: 'bob', module },
    ],
    orchestration: { strategy: 'sequential', agentOrder: ['ann'] },
    threads: { warmSpares: 0 },
    supervision: { backoff: { baseMs: 0, capMs: 0 } },
    logger: { debug: silent, info: silent, warn: note, error: note },
  })
  t.teardown(() => team.close())
  return {
    team,
    lines,
    async failure(query: string): Promise<DramatisError> {
      const result = await team.execute(query)
      if (result.success) throw new Error(`it succeeded with "${result.finalOutput}"`)
      return result.error
    },
    answer: async (query: string) => (await team.execute(query)).finalOutput,
  }
}

t.test('an error of the library that a thread throws is of its class in the host, with its details', async (t) => {
  const { failure, answer } = threads(t)
  const error = await failure('throw a refusal')
  t.ok(error instanceof TaskRefusedError && error instanceof DramatisError && error instanceof Error)
  t.match(error, { name: 'TaskRefusedError', code: 'TASK_REFUSED', message: 'I am busy.', details: { until: 'noon' } })
  t.equal(await answer('hi'), 'hi, turn 1', 'the failed turn left no state')
})

t.test('what else it throws is its failure, with a stack into its source', async (t) => {
  const { failure, answer } = threads(t)
  const error = await failure('throw')
  t.ok(error instanceof AgentFailedError)
  t.equal(error.message, 'Agent "ann" failed in its turn for a request from "$orchestrator": Error: no paper')
  t.same(error.details, { agent: 'ann', cause: 'Error: no paper' })
  t.match((error.cause as Error).stack, /^Error: no paper\n.*fixtures\/bad-input\/agent\.js:\d+/s)
  t.match((await failure('throw a string')).message, /: no paper$/)
  const unknown = await failure('throw what was never answered')
  t.match(unknown, { code: 'AGENT_FAILED', details: { agent: 'ann', cause: { code: 'UNKNOWN_AGENT' } } })
  t.equal(await answer('hi'), 'hi, turn 1')
})

t.test("in a thread, errors are instances of what its module imports from 'dramatis'", async (t) => {
  const { team, answer } = threads(t)
  t.equal(await answer('ask bob in vain'), 'true,true,true')
  t.equal(await answer('ask nobody'), 'true')
  t.match(team.deadLetters.list(), [{ reason: 'unknown_agent', message: { sender: 'ann', recipient: 'nobody' } }])
  t.ok(team.deadLetters.list()[0]?.errors[0] instanceof UnknownAgentError)
})

t.test("a thread's 'dramatis' has every name that the host's has, so that any import links", async (t) => {
  const { team } = threads(t)
  const result = await team.execute('exports')
  t.same(result.agentOutputs.ann?.[0]?.structuredData, Object.keys(dramatis).sort())
})

t.test('what belongs to the host says so in a thread', async (t) => {
  const { team } = threads(t)
  const result = await team.execute('host functions')
  const names = ['createTeam', 'defineTeam', 'loadTeam', 'MultiAgentPattern', 'sequenceDiagram']
  t.same(
    result.agentOutputs.ann?.[0]?.structuredData,
    names.map((name) => `CONFIGURATION ${name}`),
  )
})

t.test('a handler that calls process.exit costs its thread; its message is tried again, then poison', async (t) => {
  const { team, failure, answer } = threads(t)
  t.equal(await answer('exit once'), 'attempt 2')
  const error = await failure('exit')
  t.ok(error instanceof AgentCrashedError)
  t.match(error.message, /^Agent "ann" died 2 times on this message, in the same way; .*exit code 3 \(process\.exit/)
  t.match(error.details, { agent: 'ann', attempts: 2, deaths: [{ epoch: 2 }, { epoch: 3 }] })
  t.match(team.deadLetters.list(), [{ reason: 'poison', message: { recipient: 'ann', content: 'exit' } }])
  t.equal(await answer('hi'), 'hi, turn 2', 'state is kept over deaths')
})

t.test('an error outside of any turn costs the thread too, and the message that was under way', async (t) => {
  for (const [query, says] of [
    ['throw later', /Error: too late/],
    ['reject', /nobody hears this/],
  ] as const) {
    const { team, failure, answer } = threads(t)
    const error = await failure(query)
    t.equal(error.code, 'AGENT_CRASHED')
    t.match(error.message, says)
    t.match(team.deadLetters.list(), [{ reason: 'poison', message: { content: query } }])
    t.equal(await answer('hi'), 'hi, turn 1')
  }
})

t.test('a handler that never settles ends with TURN_TIMEOUT, and costs its thread after the grace', async (t) => {
  const { team, failure, answer } = threads(t, { limits: { turnTimeoutMs: 1_000 }, supervision: { stopGraceMs: 50 } })
  const error = await failure('never')
  t.ok(error instanceof TurnTimeoutError)
  t.match(error, { details: { agent: 'ann', turnTimeoutMs: 1_000 } })
  t.match(error.message, /^A turn of agent "ann" did not end within 1000 ms\. Raise limits\.turnTimeoutMs, or look at/)
  t.equal(await answer('hi'), 'hi, turn 1')
  t.equal(team.health().agents.ann?.restarts, 1)
  t.match(team.deadLetters.list(), [{ reason: 'cancelled', message: { content: 'never' } }])
})

t.test('one that heeds its signal keeps its thread', async (t) => {
  const { team, failure, answer } = threads(t, { limits: { turnTimeoutMs: 1_000 } })
  t.equal((await failure('until told')).code, 'TURN_TIMEOUT')
  t.equal(await answer('hi'), 'hi, turn 1')
  t.equal(team.health().agents.ann?.restarts, 0)
})

t.test('what an agent posts to its parent port by itself reaches nobody, and is reported', async (t) => {
  const { team, lines, answer } = threads(t)
  t.equal(await answer('post'), 'posted')
  t.equal(await answer('ring'), 'rang', 'the bell alone is harmless')
  t.equal(await answer('hi'), 'hi, turn 3')
  t.match(lines, [
    { agent: 'ann', text: /posted to its parent port; .*use context\.send/ },
    { agent: 'ann', text: /posted to its parent port/ },
  ])
  t.equal(team.health().agents.ann?.restarts, 0)
})

t.test('verbs that a handler does not await cost nothing', async (t) => {
  const { team, answer } = threads(t)
  t.equal(await answer('let go'), 'let go')
  t.equal(await answer('hi'), 'hi, turn 2')
  t.equal(team.health().agents.ann?.restarts, 0)
})

t.test('an answer of several MiB arrives', async (t) => {
  const { answer } = threads(t)
  t.equal((await answer('large'))?.length, 3_000_000)
})

t.test('aborting a run ends the turn under way in a thread', async (t) => {
  const { team, answer } = threads(t)
  const controller = new AbortController()
  const run = team.launch('until told', { signal: controller.signal })
  for await (const event of run.events()) if (event.type === 'turn.started' && event.agent === 'ann') break
  controller.abort(new Error('changed my mind'))
  t.match(await run.result, { success: false, error: { code: 'RUN_ABORTED', message: /changed my mind/ } })
  t.equal(await answer('hi'), 'hi, turn 1')
  t.equal(team.health().agents.ann?.restarts, 0)
})

t.test('close ends 50 runs on threads with RUN_ABORTED', async (t) => {
  const { team } = threads(t)
  await team.start()
  const runs = Array.from({ length: 50 }, () => team.launch('until told'))
  for await (const event of runs[0]!.events()) if (event.type === 'turn.started' && event.agent === 'ann') break
  await team.close()
  for (const { result } of runs) t.match(await result, { success: false, error: { code: 'RUN_ABORTED' } })
  t.match(await refusalOf(team.execute('hi')), { code: 'TEAM_CLOSED' })
})
