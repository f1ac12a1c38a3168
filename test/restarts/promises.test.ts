/** What was promised to who asks, in a team whose process dies: retries, a new owner of a task, a place in the line of runs. */
import t from 'tap'
import type { DramatisError, MultiAgentPatternOptions } from '../../src/index.ts'
import { never } from '../kit/team.ts'
import { Lives } from './lives.ts'

type Script = Extract<MultiAgentPatternOptions['orchestration'], { strategy: 'custom'; run: unknown }>['run']
const custom = (run: Script) => ({ strategy: 'custom' as const, run })

t.test('a request that may be retried is retried in the next process', async (t) => {
  let begun = 0
  const lives = new Lives(
    {
      ann: () => {
        begun += 1
        return begun < 3 ? never : `answered at ${begun}`
      },
    },
    {
      orchestration: custom(async (script) => {
        const options = { timeoutMs: 10_000, retries: 1, idempotent: true }
        return (await script.request('ann', 'work', options)).content
      }),
    },
  )
  const before = await lives.next()
  before.launch('go', { runId: 'run' })
  await lives.clock.advance(5_000)
  const after = await lives.next()
  await lives.clock.advance(4_000)
  t.equal(begun, 2, 'once in each process')
  await lives.clock.advance(20_000)
  t.equal((await after.getRun('run')!.result).finalOutput, 'answered at 3')
})

t.test('a task that was given to another agent is that of the other one in the next process', async (t) => {
  let isThere = false
  const lives = new Lives(
    {
      worker: async (_message, context) => {
        const outcome = await context.escalate('too hard')
        return outcome.kind === 'reassigned' ? `${outcome.result.sender}: ${outcome.result.content}` : outcome.kind
      },
      lead: () => ({ content: 'no', structuredData: { decision: 'reassign', to: 'other' } }),
      other: () => (isThere ? 'done' : never),
    },
    {
      roles: { worker: { escalateTo: 'lead' } },
      orchestration: custom(async (script) => (await script.request('worker', 'dig')).content),
    },
  )
  const before = await lives.next()
  before.launch('go', { runId: 'run' })
  await lives.clock.advance(100)
  isThere = true
  const after = await lives.next()
  await lives.clock.advance(100)
  const run = after.getRun('run')!
  t.equal((await run.result).finalOutput, 'other: done')
  t.same(
    run.tasks.map(({ assignedTo, status }) => `${assignedTo} ${status}`),
    ['worker handed_off', 'other completed'],
  )
})

t.test('runs in line go on in their order, each with what it was launched with', async (t) => {
  const begun: string[] = []
  let isOpen = false
  const lives = new Lives(
    {
      ann: ({ content }, context) => {
        begun.push(`${content} ${context.run.metadata.ticket ?? 'none'}`)
        return isOpen ? content : never
      },
    },
    {
      maxConcurrentRuns: 1,
      orchestration: custom(async (script, query) => (await script.request('ann', query)).content),
    },
  )
  const before = await lives.next()
  for (const [query, priority] of [
    ['first', 0],
    ['low', 0],
    ['high', 5],
    ['also low', 0],
  ] as const)
    before.launch(query, { runId: query, priority, metadata: { ticket: `for ${query}` }, timeoutMs: 60_000 })
  await lives.clock.advance(100)
  t.same(begun.splice(0), ['first for first'])
  t.equal(before.getRun('high')!.status, 'queued')
  isOpen = true
  const after = await lives.next({ asleepMs: 600_000 })
  await lives.clock.advance(1_000)
  t.same(begun, ['first for first', 'high for high', 'low for low', 'also low for also low'])
  for (const id of ['first', 'high', 'low', 'also low'])
    t.match(await after.getRun(id)!.result, { success: true, finalOutput: id })
})

t.test('the time of a run in line goes on in the next process', async (t) => {
  const lives = new Lives(
    { ann: () => never },
    { maxConcurrentRuns: 1, orchestration: custom(async (script) => (await script.request('ann', '')).content) },
  )
  const before = await lives.next()
  before.launch('first', { runId: 'first', timeoutMs: 100_000 })
  before.launch('second', { runId: 'second', timeoutMs: 10_000 })
  await lives.clock.advance(6_000)
  void before.sendMessage({ recipient: 'ann', content: 'so the log has a time' })
  await lives.clock.advance(100)
  const after = await lives.next({ asleepMs: 60_000 })
  const code = after.getRun('second')!.result.then(({ error }) => (error as DramatisError | null)?.code)
  t.equal(after.getRun('second')!.status, 'queued')
  await lives.clock.advance(4_000)
  t.equal(await code, 'RUN_TIMEOUT')
})
