/** `team.listRuns`: what it says of each run, in which order, and in pages. */
import t from 'tap'
import { scriptedModel, testTeam } from '../../src/testing.ts'
import { after, echo, says, stage, throws } from './stage.ts'

t.test('the list says when a run ended, with which error, in which thread, and what it has used', async (t) => {
  const team = stage(t, { a: echo })
  await team.clock.advance(5)
  await team.execute('well', { threadId: 'talk' })
  const usage = { inputTokens: 0, outputTokens: 0, totalTokens: 0, calls: 0 }
  const now = team.clock.now()
  t.match(await team.listRuns(), [
    { query: 'well', status: 'finished', endedAt: now, errorCode: null, threadId: 'talk', usage },
  ])
  const failing = stage(t, { a: throws('no') })
  await failing.execute('badly')
  t.match(await failing.listRuns(), [{ status: 'failed', errorCode: 'AGENT_FAILED', threadId: null }])
})

t.test('a run under way has no end, and a cancelled one the error of its end', async (t) => {
  const team = stage(t, { a: after(1_000) })
  const run = team.launch('q')
  await team.clock.advance(10)
  t.match(await team.listRuns(), [{ status: 'running', endedAt: null, errorCode: null }])
  await run.cancel()
  t.match(await team.listRuns(), [{ status: 'aborted', endedAt: team.clock.now(), errorCode: 'RUN_ABORTED' }])
})

t.test('the tokens of a run are those that its models have used', async (t) => {
  const team = testTeam(
    { agents: [{ name: 'a', systemPrompt: 'Answer.' }], orchestration: { strategy: 'sequential' } },
    { model: scriptedModel([{ reply: 'yes' }]) },
  )
  t.teardown(() => team.close())
  const result = await team.execute('q')
  t.match(await team.listRuns(), [{ usage: result.totalTokenUsage }])
  t.ok(result.totalTokenUsage.totalTokens > 0)
})

t.test('the run that started last is first, and pages follow each other', async (t) => {
  const team = stage(t, { a: says('yes') })
  for (let n = 0; n < 7; n++) {
    await team.execute(`query ${n}`, { runId: `run ${n}`, threadId: n % 2 ? 'odd' : 'even' })
    if (n % 3 === 0) await team.clock.advance(1) // some begin at the same time
  }
  const ids = (await team.listRuns()).map(({ id }) => id)
  t.same(
    ids,
    [6, 5, 4, 3, 2, 1, 0].map((n) => `run ${n}`),
  )
  const pages: string[][] = []
  for (let before: string | undefined; ; ) {
    const page = await team.listRuns({ limit: 3, ...(before !== undefined && { before }) })
    if (page.length === 0) break
    pages.push(page.map(({ id }) => id))
    before = page.at(-1)?.id
  }
  t.same(pages, [ids.slice(0, 3), ids.slice(3, 6), ids.slice(6)])
  t.match(await team.listRuns({ threadId: 'odd', limit: 2 }), [{ id: 'run 5' }, { id: 'run 3' }])
  t.match(await team.listRuns({ threadId: 'odd', before: 'run 4' }), [{ id: 'run 3' }, { id: 'run 1' }])
})

t.test('a wrong filter is refused, and so is a page after a run that is not there', async (t) => {
  const team = stage(t, { a: says('yes') })
  const refusals: [unknown, string][] = [
    [{ status: 'done' }, 'status'],
    [{ limit: 0 }, 'limit'],
    [{ limit: 1.5 }, 'limit'],
    [{ befor: 'x' }, 'befor'],
    [{ threadId: 5 }, 'threadId'],
    [{ before: 5 }, 'before'],
  ]
  for (const [filter, path] of refusals)
    await t.rejects(team.listRuns(filter as object), { code: 'CONFIGURATION', details: { path } })
  await t.rejects(team.listRuns({ before: 'gone' }), { code: 'UNKNOWN_RUN', details: { runId: 'gone' } })
})
