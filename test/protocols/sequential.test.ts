import t from 'tap'
import { type SequentialConfig, sequential } from '../../src/protocols/sequential.ts'
import { AgentFailedError, TaskRefusedError } from '../../src/shared/errors.ts'
import { FakeOrchestrator, type Line } from '../fixtures/fake-orchestrator.ts'
import { pluck } from '../kit/lists.ts'

async function play(cast: Record<string, Line>, options: Omit<SequentialConfig, 'strategy'> = {}) {
  const fake = new FakeOrchestrator(cast)
  const protocol = sequential.protocol({ strategy: 'sequential', ...options }, Object.keys(cast))
  return { fake, result: await fake.play(protocol) }
}

t.test('all agents work in the order of the team, and the last answer is the result', async (t) => {
  const { fake, result } = await play({ a: 'A', b: 'B', c: { content: 'C', structuredData: { n: 3 } } })
  t.same(fake.order, ['a', 'b', 'c'])
  t.same(result, { content: 'C', structuredData: { n: 3 } })
})

t.test('agentOrder is the order, with repeats', async (t) => {
  const { fake } = await play({ a: 'A', b: 'B' }, { agentOrder: ['b', 'a', 'b'] })
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
  const { fake } = await play({ a: 'A', b: 'B', c: 'C' })
  t.same(pluck(fake.asked, 'content'), ['query', 'A', 'B'])
})

t.test('structured data goes from each agent to the next', async (t) => {
  const { fake } = await play({ a: { content: 'A', structuredData: { rows: 3 } }, b: 'B', c: 'C' })
  t.same(
    fake.asked.map(({ options }) => options.structuredData),
    [undefined, { rows: 3 }, null],
  )
})

t.test('passFullContext gives the query and all answers, each under its agent', async (t) => {
  const { fake } = await play({ a: 'A', b: { structuredData: { n: 2 } }, c: 'C' }, { passFullContext: true })
  t.same(pluck(fake.asked, 'content'), ['query', 'query\n\n## a\n\nA', 'query\n\n## a\n\nA\n\n## b\n\n{"n":2}'])
})

t.test('a refusal fails the run', async (t) => {
  await t.rejects(play({ a: 'A', b: new TaskRefusedError('not mine'), c: 'C' }), {
    code: 'TASK_REFUSED',
    message: 'not mine',
  })
})

t.test('allowSkip leaves out an agent that refuses, and the next works on what was there before', async (t) => {
  const { fake, result } = await play({ a: 'A', b: new TaskRefusedError('not mine'), c: 'C' }, { allowSkip: true })
  t.equal(fake.asked[2]?.content, 'A')
  t.equal(result.content, 'C')
  t.match(fake.decisions, [{ question: /"b"/, reason: /not mine/ }])
})

t.test('allowSkip fails the run when everybody refuses', async (t) => {
  const cast = { a: new TaskRefusedError('not me'), b: new TaskRefusedError('nor me') }
  await t.rejects(play(cast, { allowSkip: true }), { code: 'TASK_REFUSED' })
})

t.test('any other failure fails the run, with allowSkip too', async (t) => {
  const cast = { a: 'A', b: new AgentFailedError('broken') }
  await t.rejects(play(cast, { allowSkip: true }), { code: 'AGENT_FAILED', message: 'broken' })
})

t.test('an answer marked final ends the run, and the trace says who was not asked', async (t) => {
  const final = { content: 'done', structuredData: { final: true } }
  const { fake, result } = await play({ a: 'A', b: final, c: 'C', d: 'D' })
  t.same(fake.order, ['a', 'b'])
  t.equal(result.content, 'done')
  t.match(fake.decisions, [{ choice: 'yes', reason: /"b".*not asked: c, d/ }])
})

t.test('only final: true is final', async (t) => {
  const { fake } = await play({ a: { structuredData: { final: 'true' } }, b: { structuredData: [true] }, c: 'C' })
  t.same(fake.order, ['a', 'b', 'c'])
})

t.test('earlyTermination: false goes on after a final answer', async (t) => {
  const { fake } = await play(
    { a: { content: 'A', structuredData: { final: true } }, b: 'B' },
    { earlyTermination: false },
  )
  t.same(fake.order, ['a', 'b'])
  t.same(fake.decisions, [])
})
