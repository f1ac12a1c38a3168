/** The built-in protocols on the real runtime: every option, crashes, cancellation, the same seed twice. */
import t from 'tap'
import { z } from 'zod'
import {
  type AgentDefinition,
  defineProtocol,
  type MultiAgentResult,
  type OrchestrationConfig,
  type Outcome,
} from '../../src/index.ts'
import { after, echo, refuses, says, stage, type Test, throws } from './stage.ts'

type Team = Record<string, AgentDefinition | { code: AgentDefinition; priority?: number; weight?: number | null }>

/** The result of one run, with as much time as it takes. */
async function play(t: Test, cast: Team, orchestration: OrchestrationConfig): Promise<MultiAgentResult> {
  const team = stage(t, cast, { orchestration })
  const pending = team.execute('q')
  await team.clock.advance(100_000)
  return pending
}

const asked = ({ messageHistory }: MultiAgentResult) =>
  messageHistory.flatMap(({ type, sender, recipient }) =>
    type === 'request' && sender === '$orchestrator' ? [recipient] : [],
  )
const heard = ({ messageHistory }: MultiAgentResult, agent: string) =>
  messageHistory.find(({ recipient, type }) => recipient === agent && type === 'request')
const choices = ({ orchestrationTrace }: MultiAgentResult) => orchestrationTrace.decisions.map(({ choice }) => choice)
const data = (structuredData: unknown, content?: string) =>
  says({ ...(content !== undefined && { content }), structuredData })

// ---- sequential

t.test('sequential: each agent works on what the one before it answered, in the order of the team', async (t) => {
  const result = await play(t, { a: echo, b: echo, c: echo }, { strategy: 'sequential' })
  t.same(asked(result), ['a', 'b', 'c'])
  t.equal(result.finalOutput, 'c: b: a: q')
})

t.test('sequential: agentOrder says who works when, and how often', async (t) => {
  const result = await play(
    t,
    { a: echo, b: echo, idle: throws() },
    { strategy: 'sequential', agentOrder: ['b', 'a', 'b'] },
  )
  t.same(asked(result), ['b', 'a', 'b'])
  t.equal(result.finalOutput, 'b: a: b: q')
})

t.test('sequential: data goes on with the words', async (t) => {
  const result = await play(t, { a: data({ n: 1 }, 'A'), b: echo }, { strategy: 'sequential' })
  t.match(heard(result, 'b'), { content: 'A', structuredData: { n: 1 } })
})

t.test('sequential: passFullContext gives each the query and every answer so far', async (t) => {
  const result = await play(
    t,
    { a: says('A'), b: says('B'), c: echo },
    { strategy: 'sequential', passFullContext: true },
  )
  t.equal(heard(result, 'c')?.content, 'q\n\n## a\n\nA\n\n## b\n\nB')
  t.equal(heard(result, 'a')?.content, 'q')
})

t.test('sequential: who refuses fails the run, or is skipped with allowSkip', async (t) => {
  const cast = { a: says('A'), b: refuses('no time'), c: echo }
  t.match(await play(t, cast, { strategy: 'sequential' }), { success: false, error: { code: 'TASK_REFUSED' } })
  const skipping = await play(t, cast, { strategy: 'sequential', allowSkip: true })
  t.match(skipping, { success: true, finalOutput: 'c: A', failures: [{ agent: 'b', error: { code: 'TASK_REFUSED' } }] })
  t.same(choices(skipping), ['yes'])
})

t.test('sequential: allowSkip is for refusals alone', async (t) => {
  const result = await play(t, { a: throws('broken'), b: echo }, { strategy: 'sequential', allowSkip: true })
  t.match(result, { success: false, error: { code: 'AGENT_FAILED' } })
})

t.test('sequential: an answer that is final ends the run, unless earlyTermination is off', async (t) => {
  const cast = { a: data({ final: true }, 'done'), b: echo }
  const early = await play(t, cast, { strategy: 'sequential' })
  t.same([early.finalOutput, asked(early)], ['done', ['a']])
  const whole = await play(t, cast, { strategy: 'sequential', earlyTermination: false })
  t.same([whole.finalOutput, asked(whole)], ['b: done', ['a', 'b']])
})

// ---- parallel

t.test('parallel: all work at the same time, their answers are merged in the order of the team', async (t) => {
  const result = await play(t, { a: after(20, 'A'), b: after(10, 'B') }, { strategy: 'parallel' })
  t.match(result, { finalOutput: '## a\n\nA\n\n## b\n\nB', executionTimeMs: 20 })
})

t.test('parallel: agents says who is asked', async (t) => {
  const result = await play(t, { a: throws(), b: says('B') }, { strategy: 'parallel', agents: ['b'] })
  t.match(result, { finalOutput: 'B', failures: [] })
})

t.test('parallel: maxConcurrent limits how many are asked at a time', async (t) => {
  const cast = { a: after(10), b: after(10), c: after(10) }
  t.equal((await play(t, cast, { strategy: 'parallel', maxConcurrent: 1 })).executionTimeMs, 30)
})

t.test('parallel: who is late is left out, and told to stop', async (t) => {
  const result = await play(t, { a: says('A'), b: after(50, 'B') }, { strategy: 'parallel', timeoutPerAgentMs: 10 })
  t.match(result, { success: true, finalOutput: '## a\n\nA', executionTimeMs: 10 })
  t.match(result.failures, [{ agent: 'b', error: { code: 'REQUEST_TIMEOUT', details: { waitedMs: 10 } } }])
})

t.test('parallel: requireAll fails the run if one fails', async (t) => {
  const result = await play(t, { a: says('A'), b: throws('broken') }, { strategy: 'parallel', requireAll: true })
  t.match(result, { success: false, error: { code: 'AGENT_FAILED', message: /broken/ } })
})

t.test('parallel: a run in which nobody answers fails, and says why of each', async (t) => {
  const result = await play(t, { a: throws('one'), b: refuses('two') }, { strategy: 'parallel' })
  t.match(result.error, {
    code: 'AGENT_FAILED',
    details: { failures: [{ agent: 'a' }, { agent: 'b', code: 'TASK_REFUSED' }] },
  })
})

t.test('parallel: waitFor takes the first, or the first few, and cancels the others', async (t) => {
  const cast = { a: after(30, 'A'), b: after(10, 'B'), c: after(20, 'C') }
  const first = await play(t, cast, { strategy: 'parallel', waitFor: 'first' })
  t.match(first, { finalOutput: 'B', executionTimeMs: 10, failures: [] })
  t.same(Object.values(first.taskCompletion).sort(), ['cancelled', 'cancelled', 'completed'])
  const two = await play(t, cast, { strategy: 'parallel', waitFor: 2 })
  t.match(two, { finalOutput: '## b\n\nB\n\n## c\n\nC', executionTimeMs: 20, failures: [] })
})

t.test('parallel: waitFor fails as soon as it is out of reach', async (t) => {
  const cast = { a: throws('one'), b: throws('two'), c: after(10_000) }
  const result = await play(t, cast, { strategy: 'parallel', waitFor: 2 })
  t.match(result, { success: false, executionTimeMs: 0, error: { details: { needed: 2, answered: 0 } } })
})

t.test('parallel: vote counts answers by their structure', async (t) => {
  const cast = { a: data({ x: 1, y: [2] }), b: says('other'), c: data({ y: [2], x: 1 }) }
  const result = await play(t, cast, { strategy: 'parallel', aggregationStrategy: 'vote' })
  t.equal(result.finalOutput, '{"x":1,"y":[2]}')
  t.same(choices(result), ['{"x":1,"y":[2]}'])
})

t.test(
  'parallel: a conflict is voted on, decided by priority, reconciled by the judge, or fails the run',
  async (t) => {
    const cast = { a: says('yes'), b: { code: says('no'), priority: 2 }, c: says('yes'), judge: says('perhaps') }
    const config = { strategy: 'parallel', aggregationStrategy: 'vote', judge: 'judge' } as const
    const outputs: Record<string, unknown> = {}
    for (const conflictResolution of ['vote', 'priority', 'synthesize', 'fail'] as const) {
      const { finalOutput, error } = await play(t, cast, { ...config, conflictResolution })
      outputs[conflictResolution] = finalOutput ?? error?.code
    }
    t.same(outputs, { vote: 'yes', priority: 'no', synthesize: 'perhaps', fail: 'CONSENSUS' })
  },
)

t.test('parallel: best is the answer that the judge names', async (t) => {
  const cast = { a: says('A'), b: data({ n: 2 }, 'B'), judge: says('I would take b.') }
  const result = await play(t, cast, { strategy: 'parallel', aggregationStrategy: 'best', judge: 'judge' })
  t.match(result, { finalOutput: 'B', success: true })
  t.same(asked(result), ['a', 'b', 'judge'])
  t.same(choices(result), ['b'])
  t.match(heard(result, 'judge')?.structuredData, {
    outputs: [
      { agent: 'a', content: 'A' },
      { agent: 'b', structuredData: { n: 2 } },
    ],
  })
})

t.test('parallel: a judge that names nobody fails the run', async (t) => {
  const cast = { a: says('A'), b: says('B'), judge: says('both are fine') }
  const result = await play(t, cast, { strategy: 'parallel', aggregationStrategy: 'best', judge: 'judge' })
  t.match(result.error, { code: 'REPLY_INVALID', details: { agent: 'judge', accepted: ['a', 'b'] } })
})

t.test('parallel: an aggregator makes one answer, an agent or a function, and sees who failed', async (t) => {
  const cast = { a: says('A'), b: throws('broken'), sum: echo }
  const config = { strategy: 'parallel', aggregationStrategy: 'custom', agents: ['a', 'b'] } as const
  const byAgent = await play(t, cast, { ...config, agents: ['a', 'b'], aggregator: 'sum' })
  t.match(byAgent.finalOutput, /^sum: q\n\n## a\n\nA\n\n## b\n\n\(no answer: .*broken/)
  const aggregator = (outcomes: Outcome[]) => outcomes.map(({ agent, ok }) => `${agent} ${ok}`).join(', ')
  t.equal((await play(t, cast, { ...config, agents: ['a', 'b'], aggregator })).finalOutput, 'a true, b false')
})

// ---- custom

t.test('custom: a closure has the whole team in sight, and its words are the answer', async (t) => {
  const result = await play(
    t,
    { a: { code: says('A'), priority: 3 }, b: says('B') },
    {
      strategy: 'custom',
      async run(orchestrator, query) {
        const roster = orchestrator.agents.map(({ name, priority, status }) => `${name} ${priority} ${status}`)
        const { content } = await orchestrator.request('a', query)
        return { content: [...roster, content].join(', '), structuredData: { n: 1 } }
      },
    },
  )
  t.equal(result.finalOutput, 'a 3 idle, b undefined idle, A')
})

t.test('custom: a closure that throws fails the run, with its own error where it has one', async (t) => {
  const boom = await play(t, { a: echo }, { strategy: 'custom', run: () => Promise.reject(new Error('boom')) })
  t.match(boom.error, { code: 'AGENT_FAILED', message: /protocol script failed: Error: boom/ })
  const passed = await play(
    t,
    { a: refuses('busy') },
    { strategy: 'custom', run: async (o) => (await o.request('a', 'q')).content },
  )
  t.match(passed.error, { code: 'TASK_REFUSED', details: { reason: 'busy' } })
})

t.test('custom: a closure that returns no answer fails the run', async (t) => {
  const result = await play(t, { a: echo }, { strategy: 'custom', name: 'mine', run: async () => 42 as never })
  t.match(result.error, { code: 'REPLY_INVALID', message: /Protocol "mine" returned 42/ })
})

t.test('custom: the data of its answer is what the output schema checks', async (t) => {
  const orchestration = {
    strategy: 'custom' as const,
    run: async () => ({ content: 'words', structuredData: { n: 1 } }),
  }
  const result = await stage(t, { a: echo }, { orchestration }).execute('q', { output: z.object({ n: z.number() }) })
  t.match(result, { success: true, finalOutput: 'words', data: { n: 1 } })
})

const relay = defineProtocol({
  name: 'relay',
  config: z.object({ laps: z.number().int().positive(), runners: z.array(z.string()).default(['a', 'b']) }),
  async run(orchestrator, query, { laps, runners }) {
    let baton = query
    for (let lap = 0; lap < laps; lap++)
      for (const runner of runners) baton = (await orchestrator.request(runner, baton)).content
    return baton
  },
})

t.test('custom: a defined protocol runs with its configuration, defaults filled in', async (t) => {
  const result = await play(t, { a: echo, b: echo }, relay({ laps: 2 } as never))
  t.equal(result.finalOutput, 'b: a: b: a: q')
})

t.test('custom: a configuration that misses its schema is refused when it is given', async (t) => {
  t.throws(() => relay({ laps: 0, runners: [] }), { code: 'CONFIGURATION', details: { path: 'config.laps' } })
})

// ---- all of them

const protocols: Record<string, OrchestrationConfig> = {
  sequential: { strategy: 'sequential' },
  'sequential with full context': { strategy: 'sequential', passFullContext: true },
  parallel: { strategy: 'parallel' },
  'parallel one by one': { strategy: 'parallel', maxConcurrent: 1 },
  'parallel with a vote': { strategy: 'parallel', aggregationStrategy: 'vote' },
  'parallel with a judge': { strategy: 'parallel', aggregationStrategy: 'best', judge: 'c' },
  'parallel with an aggregator': { strategy: 'parallel', aggregationStrategy: 'custom', aggregator: 'c' },
  custom: relay({ laps: 2, runners: ['a', 'b', 'c'] }),
}
const cast: Team = { a: after(10, 'A'), b: after(20, 'B'), c: after(10, 'a') }

for (const [title, orchestration] of Object.entries(protocols)) {
  t.test(`${title}: a crash of any agent in its turn does not change the result`, async (t) => {
    const { finalOutput, agentOutputs } = await play(t, cast, orchestration)
    for (const agent of ['a', 'b', 'c'] as const) {
      const team = stage(t, cast, { orchestration })
      team.events.subscribe((event) => {
        if (
          event.type === 'turn.started' &&
          event.agent === agent &&
          event.attempt === 1 &&
          team.health().agents[agent]?.restarts === 0
        )
          team.crash(agent)
      })
      const pending = team.execute('q')
      await team.clock.advance(100_000)
      const result = await pending
      t.equal(team.health().agents[agent]?.restarts, 1)
      t.same(
        { finalOutput: result.finalOutput, agentOutputs: result.agentOutputs },
        { finalOutput, agentOutputs },
        agent,
      )
      t.same(result.failures, [])
    }
  })

  t.test(`${title}: cancelled in the middle it ends at once, and leaves no agent at work`, async (t) => {
    const team = stage(t, cast, { orchestration })
    const run = team.launch('q')
    await team.clock.advance(15)
    await run.cancel('enough')
    t.match(await run.result, { success: false, executionTimeMs: 15, error: { code: 'RUN_ABORTED' } })
    await team.clock.advance(0)
    t.match(team.health().agents, {
      a: { status: 'idle', inFlight: 0, queued: 0 },
      b: { status: 'idle' },
      c: { status: 'idle' },
    })
    t.notOk(run.tasks.some(({ status }) => status === 'assigned' || status === 'in_progress'))
    const next = team.execute('q')
    await team.clock.advance(1_000)
    t.equal((await next).success, true)
  })

  t.test(`${title}: the same seed gives the same run, to the last event`, async (t) => {
    const [one, other] = await Promise.all(
      [1, 2].map(async () => {
        const team = stage(t, cast, { orchestration, seed: 7 })
        const pending = team.execute('q')
        await team.clock.advance(1_000)
        return JSON.parse(
          JSON.stringify([await pending, (await pending).orchestrationTrace, (await pending).messageHistory]),
        )
      }),
    )
    t.same(one, other)
  })
}
