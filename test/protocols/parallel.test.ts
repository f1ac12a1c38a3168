/** The strategies parallel and sequential. */
import t from 'tap'
import type { Outcome } from '../../src/actors/definition/context.ts'
import { type OrchestrationConfig, protocolFrom } from '../../src/protocols/index.ts'
import { type SequentialConfig, sequential } from '../../src/protocols/sequential.ts'
import type { ParallelConfig } from '../../src/protocols.ts'
import { AgentFailedError, RunTimeoutError, TaskRefusedError } from '../../src/shared/errors.ts'
import { FakeOrchestrator, type Line, type Part } from '../fixtures/fake-orchestrator.ts'
import { pluck } from '../kit/lists.ts'

type Cast = Record<string, Line | Part['says'] | Part>

async function play(cast: Cast, config: ParallelConfig = { strategy: 'parallel' }) {
  const fake = new FakeOrchestrator(cast)
  const result = await fake.play(protocolFrom(config, Object.keys(cast)))
  return { fake, ...result }
}

const broken = (why = 'broken') => new AgentFailedError(why)
const parallel = (options: Omit<ParallelConfig, 'strategy' | 'aggregationStrategy'>): ParallelConfig => ({
  strategy: 'parallel',
  ...options,
})
const vote = (options: Omit<ParallelConfig, 'strategy' | 'aggregationStrategy'> = {}): ParallelConfig => ({
  strategy: 'parallel',
  aggregationStrategy: 'vote',
  ...options,
})

t.test(
  'all agents get the query, and their answers are merged under their names in the order of the team',
  async (t) => {
    const { fake, content } = await play({ a: { content: 'A', afterMs: 9 }, b: 'B' })
    t.same(
      fake.asked.map((asked) => [asked.to, asked.content]),
      [
        ['a', 'query'],
        ['b', 'query'],
      ],
    )
    t.equal(content, '## a\n\nA\n\n## b\n\nB')
  },
)

t.test('agents says who is asked, and the order of the answers', async (t) => {
  const { fake, content } = await play({ a: 'A', b: 'B', c: 'C' }, parallel({ agents: ['c', 'a'] }))
  t.same(fake.order, ['c', 'a'])
  t.equal(content, '## c\n\nC\n\n## a\n\nA')
})

t.test('an answer of data alone is merged as JSON', async (t) => {
  t.equal((await play({ a: 'A', b: { structuredData: { n: 1 } } })).content, '## a\n\nA\n\n## b\n\n{"n":1}')
})

t.test('the only agent answers for itself', async (t) => {
  const { content, structuredData } = await play({ a: { content: 'A', structuredData: 1 } })
  t.same({ content, structuredData }, { content: 'A', structuredData: 1 })
})

const six: Cast = Object.fromEntries(['a', 'b', 'c', 'd', 'e', 'f'].map((name) => [name, name]))

t.test('maxConcurrent bounds how many work at a time; without it all do', async (t) => {
  t.equal((await play(six)).fake.peak, 6)
  t.equal((await play(six, parallel({ maxConcurrent: 2 }))).fake.peak, 2)
})

t.test('maxConcurrent holds while the first answers are awaited', async (t) => {
  const { fake } = await play({ ...six, a: broken(), b: broken() }, parallel({ maxConcurrent: 2, waitFor: 3 }))
  t.equal(fake.peak, 2)
  t.same(fake.order, ['a', 'b', 'c', 'd', 'e', 'f'])
})

t.test('a late agent is left out after timeoutPerAgentMs', async (t) => {
  const cast: Cast = { a: 'A', b: { content: 'B', afterMs: 200 }, c: 'C' }
  t.equal((await play(cast, parallel({ timeoutPerAgentMs: 100 }))).content, '## a\n\nA\n\n## c\n\nC')
  t.equal((await play(cast, parallel({ timeoutPerAgentMs: 300 }))).content, '## a\n\nA\n\n## b\n\nB\n\n## c\n\nC')
})

t.test('timeoutPerAgentMs is 60,000, for the first answers too', async (t) => {
  for (const waitFor of ['all', 'first'] as const) {
    const { fake } = await play({ a: 'A' }, parallel({ waitFor }))
    t.equal(fake.asked[0]?.options.timeoutMs, 60_000, waitFor)
  }
})

t.test('a failed agent is left out', async (t) => {
  t.equal((await play({ a: broken(), b: 'B', c: 'C' })).content, '## b\n\nB\n\n## c\n\nC')
})

t.test('requireAll: one failure fails the run with its error', async (t) => {
  const cast = { a: 'A', b: new TaskRefusedError('not mine'), c: broken() }
  await t.rejects(play(cast, parallel({ requireAll: true })), { code: 'TASK_REFUSED', message: 'not mine' })
  t.match(await play({ a: 'A', b: 'B' }, parallel({ requireAll: true })), { content: /B/ })
})

t.test('when nobody answers the run fails and names every failure', async (t) => {
  const failed = play({ a: broken('no data'), b: new TaskRefusedError('not mine') })
  await t.rejects(failed, {
    code: 'AGENT_FAILED',
    message: '1 of 2 agents had to answer, 0 did. "a": AGENT_FAILED: no data; "b": TASK_REFUSED: not mine',
    details: {
      failures: [
        { agent: 'a', code: 'AGENT_FAILED' },
        { agent: 'b', code: 'TASK_REFUSED' },
      ],
    },
  })
})

t.test('when the only agent fails, its error is the run’s', async (t) => {
  await t.rejects(play({ a: new TaskRefusedError('not mine') }), { code: 'TASK_REFUSED', message: 'not mine' })
})

t.test('waitFor first takes the first answer and cancels the others', async (t) => {
  const cast: Cast = { a: { content: 'A', afterMs: 50 }, b: broken(), c: { content: 'C', afterMs: 10 } }
  const { fake, content } = await play(cast, parallel({ waitFor: 'first' }))
  await new Promise(setImmediate)
  t.equal(content, 'C')
  t.same(fake.cancelled, ['a'])
})

t.test('waitFor 2 takes two answers, in the order of the team, and cancels the others', async (t) => {
  const cast: Cast = {
    a: { content: 'A', afterMs: 20 },
    b: { content: 'B', afterMs: 90 },
    c: { content: 'C', afterMs: 10 },
  }
  const { fake, content } = await play(cast, parallel({ waitFor: 2 }))
  await new Promise(setImmediate)
  t.equal(content, '## a\n\nA\n\n## c\n\nC')
  t.same(fake.cancelled, ['b'])
})

t.test('waitFor 2 fails as soon as two answers are out of reach', async (t) => {
  const cast: Cast = { a: broken('one'), b: broken('two'), c: { content: 'C', afterMs: 90 } }
  const fake = new FakeOrchestrator(cast)
  const failed = fake.play(protocolFrom(parallel({ waitFor: 2 }), Object.keys(cast)))
  await t.rejects(failed, {
    message: /^2 of 3 agents had to answer, 0 did\. "a": AGENT_FAILED: one; "b": AGENT_FAILED: two/,
  })
  await new Promise(setImmediate)
  t.same(fake.cancelled, ['c'])
})

t.test('waitFor 2 fails with one answer, whatever else is there', async (t) => {
  const failed = play({ a: 'A', b: broken('one'), c: broken('two') }, parallel({ waitFor: 2 }))
  await t.rejects(failed, { message: /^2 of 3 agents had to answer, 1 did\./, details: { answered: 1, needed: 2 } })
})

t.test('waitFor 2 asks nobody in a team that has become too small', async (t) => {
  const protocol = protocolFrom(parallel({ waitFor: 2 }), ['a', 'b'])
  const fake = new FakeOrchestrator({ a: 'A' })
  await t.rejects(fake.play(protocol), { message: /^2 of 1 agents had to answer/ })
  t.same(fake.order, [])
})

t.test('the end of the run is no failure of its agents', async (t) => {
  for (const waitFor of ['all', 1] as const) {
    const ended = new RunTimeoutError('too long')
    const fake: FakeOrchestrator = new FakeOrchestrator({
      a: () => {
        fake.run.abort(ended)
        return broken('torn down')
      },
    })
    const protocol = protocolFrom(parallel({ waitFor }), ['a'])
    await t.rejects(fake.play(protocol), ended)
  }
})

t.test('vote: equal answers are no conflict, whatever the order of their keys', async (t) => {
  const cast = { a: { structuredData: { x: 1, y: 2 } }, b: { structuredData: { y: 2, x: 1 } } }
  const { fake, content, structuredData } = await play(cast, vote({ conflictResolution: 'fail' }))
  t.same(
    { content, structuredData, decisions: fake.decisions },
    { content: '{"x":1,"y":2}', structuredData: { x: 1, y: 2 }, decisions: [] },
  )
})

t.test('vote: structured data counts, words where there is none', async (t) => {
  const cast = { a: { content: 'I say', structuredData: 4 }, b: 'words', c: { content: 'It is', structuredData: 4 } }
  const { fake, content, structuredData } = await play(cast, vote())
  t.same({ content, structuredData }, { content: 'I say', structuredData: 4 })
  t.match(fake.decisions, [{ choice: '4', reason: 'The most votes, from a, c.' }])
})

t.test('vote: the weights of the roles count', async (t) => {
  const cast: Cast = { a: 'no', b: { says: 'yes', weight: 3 }, c: 'no' }
  t.equal((await play(cast, vote())).content, 'yes')
})

t.test('vote: a tie goes to the first answer of the team, and the trace says so', async (t) => {
  const { fake, content } = await play({ a: { content: 'A', afterMs: 9 }, b: 'B' }, vote())
  t.equal(content, 'A')
  t.match(fake.decisions, [{ choice: 'A', reason: /^A tie: .*, from a\.$/ }])
})

t.test('synthesize: the judge makes one answer of those that differ', async (t) => {
  const { fake, content } = await play(
    { a: 'A', b: 'B', judge: 'AB' },
    vote({ conflictResolution: 'synthesize', judge: 'judge' }),
  )
  t.equal(content, 'AB')
  t.same(fake.order, ['a', 'b', 'judge'])
  t.match(fake.asked[2]?.content, /query[\s\S]*## a\n\nA\n\n## b\n\nB/)
  t.match(fake.decisions, [{ choice: 'judge' }])
})

t.test('synthesize: the judge is not asked when all agree', async (t) => {
  const { fake } = await play(
    { a: 'A', b: 'A', judge: '?' },
    vote({ conflictResolution: 'synthesize', judge: 'judge' }),
  )
  t.same(fake.order, ['a', 'b'])
})

t.test('priority: the highest priority decides, the first of equals', async (t) => {
  const cast: Cast = { a: 'A', b: { says: 'B', priority: 2 }, c: { says: 'C', priority: 2 } }
  const { fake, content } = await play(cast, vote({ conflictResolution: 'priority' }))
  t.equal(content, 'B')
  t.match(fake.decisions, [{ choice: 'b', reason: /priority, 2/ }])
})

t.test('fail: answers that differ fail the run, and the error has them in its details', async (t) => {
  const failed = play({ a: 'A', b: { structuredData: { n: 1 } } }, vote({ conflictResolution: 'fail' }))
  await t.rejects(failed, {
    code: 'CONSENSUS',
    message: /^The answers of "a", "b" differ/,
    details: {
      answers: [
        { agent: 'a', value: 'A' },
        { agent: 'b', value: { n: 1 } },
      ],
    },
  })
})

const best: ParallelConfig = { strategy: 'parallel', aggregationStrategy: 'best', judge: 'judge' }

t.test('best: the judge gets all answers and names one, in its words', async (t) => {
  const { fake, content } = await play(
    { a: 'A', b: { content: 'B', structuredData: 2 }, judge: 'That of b, by far.' },
    best,
  )
  t.equal(content, 'B')
  t.match(fake.asked[2], {
    to: 'judge',
    content: /query[\s\S]*## a\n\nA\n\n## b\n\nB/,
    options: {
      structuredData: {
        outputs: [
          { agent: 'a', ok: true, content: 'A' },
          { agent: 'b', structuredData: 2 },
        ],
      },
    },
  })
  t.match(fake.decisions, [{ choice: 'b', reason: /"judge"/ }])
})

t.test('best: without a judge it is the one role that is not among agents', async (t) => {
  const config: ParallelConfig = { strategy: 'parallel', aggregationStrategy: 'best', agents: ['a', 'b'] }
  const { fake, content } = await play({ chair: 'b', a: 'A', b: 'B' }, config)
  t.equal(content, 'B')
  t.same(fake.order, ['a', 'b', 'chair'])
  for (const others of [[], ['chair', 'clerk']])
    t.throws(() => protocolFrom(config, ['a', 'b', ...others]), {
      code: 'CONFIGURATION',
      details: { path: 'orchestration.judge' },
    })
})

t.test('best: the name in structuredData.best goes before the words', async (t) => {
  const judge = { content: 'not a', structuredData: { best: 'b' } }
  t.equal((await play({ a: 'A', b: 'B', judge }, best)).content, 'B')
})

t.test('best: a judge that names nobody, or several, fails the run', async (t) => {
  for (const judge of ['neither', 'a or b', 'abba', { structuredData: { best: 'z' } }]) {
    const failed = play({ a: 'A', b: 'B', judge }, best)
    await t.rejects(failed, { code: 'REPLY_INVALID', message: /"judge" did not choose.*one of a, b/ })
  }
})

t.test('best: of one answer there is nothing to choose', async (t) => {
  const { fake, content } = await play({ a: broken(), b: 'B', judge: '?' }, best)
  t.equal(content, 'B')
  t.same(fake.order, ['a', 'b'])
})

t.test('best: a judge in the list of agents answers too', async (t) => {
  const judge = (content: string) => (content === 'query' ? 'J' : 'judge')
  const { fake, content } = await play({ a: 'A', judge }, { ...best, agents: ['a', 'judge'] })
  t.equal(content, 'J')
  t.same(fake.order, ['a', 'judge', 'judge'])
})

t.test('custom: the aggregator gets every outcome as text and as data, and has the last word', async (t) => {
  const cast: Cast = {
    a: { content: 'A', structuredData: 1 },
    b: broken('no data'),
    sum: { content: 'S', structuredData: 2 },
  }
  const config: ParallelConfig = { strategy: 'parallel', aggregationStrategy: 'custom', aggregator: 'sum' }
  const { fake, content, structuredData } = await play(cast, config)
  t.same({ content, structuredData }, { content: 'S', structuredData: 2 })
  t.same(fake.order, ['a', 'b', 'sum'])
  t.equal(fake.asked[2]?.content, 'query\n\n## a\n\nA\n\n## b\n\n(no answer: no data)')
  t.same(fake.asked[2]?.options.structuredData, {
    outputs: [
      { agent: 'a', ok: true, content: 'A', structuredData: 1, error: null },
      {
        agent: 'b',
        ok: false,
        content: null,
        structuredData: null,
        error: { code: 'AGENT_FAILED', message: 'no data' },
      },
    ],
  })
})

t.test('custom: without an aggregator it is the one role that is not among agents', async (t) => {
  const cast: Cast = { sum: 'S', a: 'A', b: 'B' }
  const config: ParallelConfig = { strategy: 'parallel', aggregationStrategy: 'custom', agents: ['a', 'b'] }
  const { fake, content } = await play(cast, config)
  t.equal(content, 'S')
  t.same(fake.order, ['a', 'b', 'sum'])
  const judged = await play({ ...cast, chair: 'C' }, { ...config, judge: 'chair' })
  t.equal(judged.content, 'S')
  for (const others of [{}, { sum: 'S', tot: 'T' }])
    t.throws(() => protocolFrom(config, ['a', 'b', ...Object.keys(others)]), {
      code: 'CONFIGURATION',
      details: { path: 'orchestration.aggregator' },
    })
})

t.test('custom: a function gets the outcomes and the orchestrator', async (t) => {
  let seen: Outcome[] = []
  const config: OrchestrationConfig = {
    strategy: 'parallel',
    aggregationStrategy: 'custom',
    aggregator(outcomes, orchestrator) {
      seen = outcomes
      return `${outcomes.filter(({ ok }) => ok).length} of ${orchestrator.agents.length}`
    },
  }
  const cast: Cast = { a: 'A', b: broken() }
  const result = await new FakeOrchestrator(cast).play(protocolFrom(config, ['a', 'b']))
  t.equal(result.content, '1 of 2')
  t.match(seen, [
    { agent: 'a', ok: true, message: { content: 'A' } },
    { agent: 'b', ok: false },
  ])
})

t.test('custom: a function that returns no text fails the run', async (t) => {
  const config: ParallelConfig = {
    strategy: 'parallel',
    aggregationStrategy: 'custom',
    aggregator: () => JSON.parse('{"n":1}'),
  }
  await t.rejects(play({ a: 'A' }, config), { code: 'REPLY_INVALID', message: /returned an object/ })
})

async function sequentialPlay(cast: Record<string, Line>, options: Omit<SequentialConfig, 'strategy'> = {}) {
  const fake = new FakeOrchestrator(cast)
  const protocol = sequential.protocol({ strategy: 'sequential', ...options }, Object.keys(cast))
  return { fake, result: await fake.play(protocol) }
}

t.test('all agents work in the order of the team, and the last answer is the result', async (t) => {
  const { fake, result } = await sequentialPlay({ a: 'A', b: 'B', c: { content: 'C', structuredData: { n: 3 } } })
  t.same(fake.order, ['a', 'b', 'c'])
  t.same(result, { content: 'C', structuredData: { n: 3 } })
})

t.test('agentOrder is the order, with repeats', async (t) => {
  const { fake } = await sequentialPlay({ a: 'A', b: 'B' }, { agentOrder: ['b', 'a', 'b'] })
  t.same(fake.order, ['b', 'a', 'b'])
})

t.test('a list that is changed after it was checked changes nothing', async (t) => {
  const agentOrder = ['a']
  const protocol = sequential.protocol({ strategy: 'sequential', agentOrder }, ['a'])
  agentOrder.push('nobody')
  const fake = new FakeOrchestrator({ a: 'A' })
  await fake.play(protocol)
  t.same(fake.order, ['a'])
})

t.test('an agent gets the answer before it alone', async (t) => {
  const { fake } = await sequentialPlay({ a: 'A', b: 'B', c: 'C' })
  t.same(pluck(fake.asked, 'content'), ['query', 'A', 'B'])
})

t.test('structured data goes from each agent to the next', async (t) => {
  const { fake } = await sequentialPlay({ a: { content: 'A', structuredData: { rows: 3 } }, b: 'B', c: 'C' })
  t.same(
    fake.asked.map(({ options }) => options.structuredData),
    [undefined, { rows: 3 }, null],
  )
})

t.test('passFullContext gives the query and all answers, each under its agent', async (t) => {
  const { fake } = await sequentialPlay({ a: 'A', b: { structuredData: { n: 2 } }, c: 'C' }, { passFullContext: true })
  t.same(pluck(fake.asked, 'content'), ['query', 'query\n\n## a\n\nA', 'query\n\n## a\n\nA\n\n## b\n\n{"n":2}'])
})

t.test('a refusal fails the run', async (t) => {
  await t.rejects(sequentialPlay({ a: 'A', b: new TaskRefusedError('not mine'), c: 'C' }), {
    code: 'TASK_REFUSED',
    message: 'not mine',
  })
})

t.test('allowSkip leaves out an agent that refuses, and the next works on what was there before', async (t) => {
  const { fake, result } = await sequentialPlay(
    { a: 'A', b: new TaskRefusedError('not mine'), c: 'C' },
    { allowSkip: true },
  )
  t.equal(fake.asked[2]?.content, 'A')
  t.equal(result.content, 'C')
  t.match(fake.decisions, [{ question: /"b"/, reason: /not mine/ }])
})

t.test('allowSkip fails the run when everybody refuses', async (t) => {
  const cast = { a: new TaskRefusedError('not me'), b: new TaskRefusedError('nor me') }
  await t.rejects(sequentialPlay(cast, { allowSkip: true }), { code: 'TASK_REFUSED' })
})

t.test('any other failure fails the run, with allowSkip too', async (t) => {
  const cast = { a: 'A', b: new AgentFailedError('broken') }
  await t.rejects(sequentialPlay(cast, { allowSkip: true }), { code: 'AGENT_FAILED', message: 'broken' })
})

t.test('an answer marked final ends the run, and the trace says who was not asked', async (t) => {
  const final = { content: 'done', structuredData: { final: true } }
  const { fake, result } = await sequentialPlay({ a: 'A', b: final, c: 'C', d: 'D' })
  t.same(fake.order, ['a', 'b'])
  t.equal(result.content, 'done')
  t.match(fake.decisions, [{ choice: 'yes', reason: /"b".*not asked: c, d/ }])
})

t.test('only final: true is final', async (t) => {
  const { fake } = await sequentialPlay({
    a: { structuredData: { final: 'true' } },
    b: { structuredData: [true] },
    c: 'C',
  })
  t.same(fake.order, ['a', 'b', 'c'])
})

t.test('earlyTermination: false goes on after a final answer', async (t) => {
  const { fake } = await sequentialPlay(
    { a: { content: 'A', structuredData: { final: true } }, b: 'B' },
    { earlyTermination: false },
  )
  t.same(fake.order, ['a', 'b'])
  t.same(fake.decisions, [])
})
