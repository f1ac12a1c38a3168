/** Runs of an earlier process that do not go on by themselves: they are interrupted until they are resumed. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import t from 'tap'
import * as z from 'zod'
import { pluck, where } from '../kit/lists.ts'
import { deskAgent, deskOf, first, type Script } from './desk-team.ts'
import { folderOf } from './log-folders.ts'

const script: Script = async (desk, query) => {
  const steps = (await desk.request('ann', 'steps of')).content
  return `${query} ${steps} ${(await desk.request('bob', 'ask really')).content}`
}

/** The folder of a log in which a run "one" waits for a person. */
async function leftBehind(t: Test, more: Parameters<typeof deskOf>[3] = {}): Promise<string> {
  const path = join(folderOf(t), 'log')
  const before = deskOf(t, path, script, more)
  await first(before.launch('go', { runId: 'one' }).events(), 'question')
  await before.sendMessage({ recipient: 'bob', content: 'steps sent' }) // bob may have done some of it by the close
  await before.close()
  return path
}

const effects = (path: string) =>
  readFileSync(join(path, '..', 'effects'), 'utf8')
    .split('\n')
    .filter(Boolean)

/** Its steps may be done again, so each may stand there twice if the close came amid them. */
const sent = (path: string) => [...new Set(effects(path).filter((each) => each.startsWith('sent-')))].sort()

const byHand = (path: string) => ({ stateManagement: { path, resume: 'manual' as const } })

/** Answers the question of a run when it comes. */
async function answer(team: ReturnType<typeof deskOf>, text: string): Promise<void> {
  const run = team.getRun('one')!
  await run.answer((await first(run.events(), 'question')).questionId, text)
}

t.test('with resume: manual nothing of a run goes on before it is resumed, and all of it is there', async (t) => {
  const path = await leftBehind(t)
  const done = effects(path)
  const team = deskOf(t, path, script, byHand(path))
  await team.start()
  t.match(await team.listRuns(), [{ id: 'one', query: 'go', status: 'interrupted' }])
  const run = team.getRun('one')!
  t.same(pluck(where(run.messageHistory, 'type', 'request'), 'content'), ['go', 'steps of', 'ask really'])
  t.match(
    await team.getAgent('bob')!.run('count'),
    /^[01]: /,
    'bob has not its question again, nor what was sent to it',
  )
  t.same([team.questions(), effects(path)], [[], done])
  await team.close()
  t.equal(run.status, 'interrupted')
  t.match(await run.result, { success: false, error: { code: 'RUN_ABORTED' } }, 'whoever waits for it is told')

  const next = deskOf(t, path, script)
  await next.start()
  await answer(next, 'no')
  t.match(await next.getRun('one')!.result, { finalOutput: 'go 4444 no' }, 'the next process goes on')
})

t.test('a resumed run gives its result, which the schema checks', async (t) => {
  const path = await leftBehind(t)
  const team = deskOf(t, path, script, byHand(path))
  const resumed = team.resume('one', { output: z.string().transform((text) => ({ text })) })
  await team.flush()
  const joined = team.resume('one', { output: z.string().transform((text) => text.length) })
  await answer(team, 'yes')
  t.match(await resumed, { success: true, finalOutput: 'go 4444 yes', data: { text: 'go 4444 yes' } })
  t.equal(effects(path).filter((each) => each.startsWith('of-')).length, 4, 'no step was done twice')
  t.match(await joined, { success: true, data: 11 }, 'a run that goes on already is joined')
  t.match(await team.resume('one'), { success: true, finalOutput: 'go 4444 yes' }, 'one that has ended has its result')
  const wrong = await team.resume('one', { output: z.string().max(3) })
  t.match(wrong, { success: false, error: { code: 'REPLY_INVALID' } })
})

t.test('the trace of a run that goes on has what happened to agents before, and the crash counts once', async (t) => {
  const dies: Script = async (desk, query) => {
    await desk.request('ann', 'die soon')
    return script(desk, query)
  }
  const path = join(folderOf(t), 'log')
  const before = deskOf(t, path, dies)
  await first(before.launch('go', { runId: 'one' }).events(), 'question')
  await before.close()

  const team = deskOf(t, path, dies)
  await team.start()
  await answer(team, 'yes')
  const result = await team.getRun('one')!.result
  const { orchestrationTrace: trace } = result
  const crashes = trace.events.filter(({ eventType }) => eventType === 'agent.crashed')
  t.match(crashes, [{ agent: 'ann', details: { epoch: 1 } }])
  t.equal(crashes.length, 1)
  const cutOff = trace.agentActivations.filter(({ agent }) => agent === 'ann')
  t.equal(cutOff.length, 3, 'its turn that was cut off is one of its three')
  await team.close()

  const last = deskOf(t, path, dies)
  const past = await last.execute('go', { runId: 'one' })
  t.same(past.orchestrationTrace, trace, 'the trace of a run that has ended is the same in each later process')
})

t.test('what cannot be resumed is named', async (t) => {
  const path = await leftBehind(t)
  const team = deskOf(t, path, script, byHand(path))
  await t.rejects(team.resume('two'), { code: 'UNKNOWN_RUN', details: { runId: 'two' } })
  await t.rejects(team.resume(''), { code: 'CONFIGURATION', details: { path: 'runId' } })
  const wrong: object = { priority: 1 }
  await t.rejects(team.resume('one', wrong), { code: 'CONFIGURATION', details: { path: 'priority' } })
  await team.close()
  await t.rejects(team.resume('one'), { code: 'TEAM_CLOSED' })
  await t.rejects(team.resumePending(), { code: 'TEAM_CLOSED' })
})

t.test('who runs an interrupted run again goes on with it', async (t) => {
  const path = await leftBehind(t)
  const early = deskOf(t, path, script, byHand(path))
  const before = early.launch('go', { runId: 'one' }) // before the log is read
  await first(before.events(), 'question')
  await early.close()

  const team = deskOf(t, path, script, byHand(path))
  await team.start()
  t.throws(() => team.launch('another', { runId: 'one' }), { code: 'CONFIGURATION' })
  const result = team.execute('go', { runId: 'one' })
  await answer(team, 'yes')
  t.match(await result, { success: true, finalOutput: 'go 4444 yes' })
})

const asks: Script = async (desk, query) => ({ content: query, structuredData: { said: await desk.ask('Really?') } })
const said = z.object({ said: z.string() })
const again = (schema: z.ZodType = said) => ({ runId: 'one', output: schema })

for (const when of [
  'before the log is read',
  'while the run goes on',
  'when it has ended',
  'when a process has ended it',
])
  t.test(`who runs a run of an earlier process again has its data by the schema, ${when}`, async (t) => {
    const path = join(folderOf(t), 'log')
    const before = deskOf(t, path, asks)
    await first(before.launch('go', again()).events(), 'question')
    await before.close()
    let team = deskOf(t, path, asks)
    const early = when.startsWith('before') ? team.launch('go', again()) : undefined
    await team.start()
    const late = when.startsWith('while') ? team.launch('go', again()) : undefined
    await answer(team, 'yes')
    await team.getRun('one')!.result
    if (when.startsWith('when a process')) {
      await team.close()
      team = deskOf(t, path, asks)
    }
    const run = early ?? late ?? team.launch('go', again())
    t.match(await run.result, { finalOutput: 'go', data: { said: 'yes' } })
    t.match(await first(run.events(), 'run.finished'), { result: { data: { said: 'yes' } } })
    t.match(await team.execute('go', again()), { data: { said: 'yes' } })
  })

t.test(
  'an answer that was there already and misses the schema is an error for who gave it, and for nobody else',
  async (t) => {
    const path = join(folderOf(t), 'log')
    const before = deskOf(t, path, asks)
    await first(before.launch('go', { runId: 'one' }).events(), 'question')
    await answer(before, 'yes')
    await before.getRun('one')!.result
    const missed = await before.execute('go', again(z.object({ said: z.number() })))
    t.match(missed, { success: false, error: { code: 'REPLY_INVALID' } })
    t.match(await before.execute('go', again()), { data: { said: 'yes' } })
    t.match(await before.getRun('one')!.result, { success: true })
  },
)

t.test('resumePending goes on with all runs, and with what messages from outside have caused', async (t) => {
  const path = await leftBehind(t)
  const team = deskOf(t, path, script, byHand(path))
  const runs = await team.resumePending()
  t.same(pluck(runs, 'id'), ['one'])
  await answer(team, 'yes')
  t.match(await runs[0]!.result, { finalOutput: 'go 4444 yes' })
  await team.close({ drainMs: 60_000 })
  t.same(sent(path), ['sent-0', 'sent-1', 'sent-2', 'sent-3'])
})

t.test('a question does not hold a closing team: the next process asks on', async (t) => {
  const path = join(folderOf(t), 'log')
  const before = deskOf(t, path, script)
  const run = before.launch('go', { runId: 'one' })
  await first(run.events(), 'question')
  await before.close({ drainMs: 2 ** 31 - 1 })
  t.match([run.status, await run.result], ['interrupted', { error: { code: 'RUN_ABORTED' } }])
  const after = deskOf(t, path, script)
  await after.start()
  await answer(after, 'yes')
  t.match(await after.getRun('one')!.result, { finalOutput: 'go 4444 yes' })
  await after.close()
})

t.test('an interrupted run that is cancelled has an end', async (t) => {
  const path = await leftBehind(t)
  const team = deskOf(t, path, script, byHand(path))
  await team.start()
  await team.getRun('one')!.cancel('not wanted')
  t.equal(team.getRun('one')!.status, 'aborted')
  await team.close()

  const next = deskOf(t, path, script)
  t.match(await next.execute('go', { runId: 'one' }), { success: false, error: { code: 'RUN_ABORTED' } })
})

t.test('the signal of a caller who resumes a run aborts it', async (t) => {
  const path = await leftBehind(t)
  const team = deskOf(t, path, script, byHand(path))
  const given = new AbortController()
  const resumed = team.resume('one', { signal: given.signal })
  await team.flush()
  await first(team.getRun('one')!.events(), 'question')
  given.abort(new Error('too late'))
  t.match(await resumed, { success: false, error: { code: 'RUN_ABORTED', details: { reason: 'too late' } } })
})

t.test('a run that has work for a missing agent stays interrupted until that agent is added', async (t) => {
  const path = await leftBehind(t)
  const wrong = deskOf(t, path, script, { agents: [deskAgent('ann')] })
  const launched = wrong.launch('go', { runId: 'one' })
  const missing = { code: 'UNKNOWN_AGENT', details: { agent: 'bob', runId: 'one', missing: ['bob'] } }
  t.match(await launched.result, { success: false, error: missing })
  t.equal(launched.status, 'interrupted')
  t.match(await wrong.resume('one'), { success: false, error: missing }, 'it says so as long as it is so')
  t.same(wrong.deadLetters.list(), [])
  await wrong.close()

  const team = deskOf(t, path, script, { agents: [deskAgent('new'), deskAgent('ann')] })
  await team.start()
  await team.addAgent(deskAgent('bob'))
  const runs = await team.resumePending()
  await answer(team, 'yes')
  t.match(await runs[0]!.result, { success: true, finalOutput: 'go 4444 yes' })
  await team.close({ drainMs: 60_000 })
  t.same(sent(path), ['sent-0', 'sent-1', 'sent-2', 'sent-3'])
})
