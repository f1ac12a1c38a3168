/** A team that goes on with the log of an earlier one: runs that wait, runs that do not go on, words to a run. */
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import * as z from 'zod'
import {
  createTeam,
  defineTool,
  type Guardrail,
  ModelError,
  type MultiAgentPatternOptions,
  type Run,
  type RuntimeEvent,
} from '../../src/index.ts'
import { modelServer } from '../fixtures/model-server.ts'
import { pluck, where } from '../kit/lists.ts'
import { gate, silent } from '../kit/team.ts'
import { type Answer, FakeModel } from '../models/fake-model.ts'
import { deskAgent, deskOf, first, module, type Script } from './desk-team.ts'
import { folderOf } from './log-folders.ts'
import { MemoryDisk, MemoryStore } from './memory-store.ts'

// A team that goes on with the log of an earlier one. The earlier one is closed, or its process is killed in
// kills.test.ts.

t.test('a run that a closed team has left is interrupted, and the next team ends it', async (t) => {
  const path = join(folderOf(t), 'log')
  const script: Script = async (desk) => {
    const steps = (await desk.request('ann', 'steps of')).content
    return `${steps} ${(await desk.request('bob', 'ask really')).content} ${(await desk.request('ann', 'count')).content}`
  }
  const before = deskOf(t, path, script)
  const left = before.launch('go', { runId: 'one', metadata: { ticket: '7' } })
  const asked = await first(left.events(), 'question')
  await before.close()
  t.match(await left.result, { success: false, error: { code: 'RUN_ABORTED' } })
  t.equal(left.status, 'interrupted')

  const after = deskOf(t, path, script)
  await after.start()
  const run = after.getRun('one')!
  t.equal(run.query, 'go')
  const again = await first(run.events(), 'question')
  t.equal(run.status, 'waiting')
  t.equal(again.questionId, asked.questionId, 'the question has its old id')
  const { questionId, at } = asked
  const about = { runId: 'one', questionId, agent: 'bob', kind: 'ask', text: 'really?', choices: ['yes', 'no'] }
  const open = { ...about, askedAt: at, answerBy: null }
  t.same([after.questions(), after.questions('another')], [[open], []])
  await run.answer(asked.questionId, 'yes')
  t.match(await run.result, { success: true, finalOutput: '4444 yes 1: steps of' })
  t.equal(readFileSync(join(path, '..', 'effects'), 'utf8').split('\n').length, 5, 'each step was done once')
  t.same(pluck(where(run.messageHistory, 'type', 'request'), 'content'), ['go', 'steps of', 'ask really', 'count'])
  await after.close()

  const last = deskOf(t, path, script)
  const joined = await last.execute('go', { runId: 'one' })
  t.match(joined, { success: true, finalOutput: '4444 yes 1: steps of' }, 'a run that is over is not run again')
  t.same(joined.messageHistory, (await run.result).messageHistory)
  await t.rejects(last.execute('another', { runId: 'one' }), { code: 'CONFIGURATION', details: { path: 'runId' } })
})

t.test('what was launched before the log was read joins the run that it has, or is refused', async (t) => {
  const path = join(folderOf(t), 'log')
  const before = deskOf(t, path, async (desk, query) => `${query} ${(await desk.request('ann', 'ask really')).content}`)
  await first(before.launch('go', { runId: 'one' }).events(), 'question')
  await before.close()

  const after = deskOf(t, path, async (desk, query) => `${query} ${(await desk.request('ann', 'ask really')).content}`)
  const [same, other] = [after.launch('go', { runId: 'one' }), after.launch('new', { runId: 'two' })]
  await after.flush()
  const { questionId } = await first(same.events(), 'question')
  await same.answer(questionId, 'no')
  t.match(await same.result, { success: true, finalOutput: 'go no' })
  const question = await first(other.events(), 'question')
  await other.answer(question.questionId, 'yes')
  t.match(await other.result, { success: true, finalOutput: 'new yes' })
  await after.close()

  const last = deskOf(t, path, async () => 'never')
  const clash = last.launch('something else', { runId: 'two' })
  await t.rejects(clash.result, { code: 'CONFIGURATION', details: { path: 'runId' } })
  t.match(await last.execute('new', { runId: 'two' }), { finalOutput: 'new yes' })
})

t.test('a model call whose answer stands in the log is not made again', async (t) => {
  const path = join(folderOf(t), 'log')
  const server = await modelServer(t)
  server.always(({ prompt }) => `You said ${prompt}`)
  const models = { default: { model: 'gpt-4o', baseURL: server.baseURL, apiKey: 'none' } }
  const script: Script = async (desk) => {
    const { text } = await desk.complete({ messages: [{ role: 'user', content: 'hello' }] })
    return `${text}. ${(await desk.request('ann', 'ask really')).content}`
  }
  const before = deskOf(t, path, script, { models, budget: { perRun: { tokens: 100_000 } } })
  const left = before.launch('go', { runId: 'one' })
  await first(left.events(), 'question')
  const { usage } = left
  await before.close()

  const after = deskOf(t, path, script, { models, budget: { perRun: { tokens: 100_000 } } })
  await after.start()
  const run = after.getRun('one')!
  await run.answer((await first(run.events(), 'question')).questionId, 'yes')
  t.match(await run.result, { success: true, finalOutput: 'You said hello. yes' })
  t.equal(server.calls.length, 1)
  t.same(run.usage, usage, 'what was paid is known')
})

t.test('a model goes on with its conversation', async (t) => {
  const path = join(folderOf(t), 'log')
  const server = await modelServer(t)
  server.always(({ prompt }) => `You said ${prompt}`)
  const options = {
    models: { default: { model: 'gpt-4o', baseURL: server.baseURL, apiKey: 'none' } },
    agents: [
      { name: 'ann', module, env: ['DESK_EFFECTS'] },
      { name: 'model', systemPrompt: 'Talk.' },
    ],
  }
  const script: Script = async (desk) => {
    await desk.request('model', 'first')
    await desk.request('ann', 'ask really')
    return (await desk.request('model', 'second')).content
  }
  const before = deskOf(t, path, script, options)
  const left = before.launch('go', { runId: 'one', threadId: 'talk' })
  await first(left.events(), 'question')
  await before.close()

  const after = deskOf(t, path, script, options)
  await after.start()
  const run = after.getRun('one')!
  await run.answer((await first(run.events(), 'question')).questionId, 'yes')
  t.match(await run.result, { success: true, finalOutput: 'You said second' })
  const said = () =>
    server.calls
      .at(-1)!
      .body.messages.map(({ content }) => content)
      .filter((text) => text !== 'Talk.')
  t.same(said(), ['first', 'You said first', 'second'])
  await after.close()

  const last = deskOf(t, path, async (desk) => (await desk.request('model', 'third')).content, options)
  t.match(await last.execute('again', { threadId: 'talk' }), { success: true, finalOutput: 'You said third' })
  t.match(
    said().slice(0, 4),
    ['first', 'You said first', 'second', 'You said second'],
    'also in a later run of its thread',
  )
})

t.test('the blackboard of a run, its tasks, and messages that nobody waits for are there again', async (t) => {
  const path = join(folderOf(t), 'log')
  const script: Script = async (desk) => {
    await desk.request('ann', 'publish page')
    await desk.request('bob', 'publish page')
    await desk.request('ann', 'ask really')
    return (await desk.request('bob', 'publish page')).content
  }
  const before = deskOf(t, path, script)
  const left = before.launch('go', { runId: 'one' })
  await first(left.events(), 'question')
  await before.sendMessage({ recipient: 'ann', content: 'steps sent' })
  await before.close()

  const after = deskOf(t, path, script)
  await after.start()
  const run = after.getRun('one')!
  t.same(
    run.tasks.map(({ description, status }) => [description, status]),
    [
      ['publish page', 'completed'],
      ['publish page', 'completed'],
      ['ask really', 'in_progress'],
    ],
  )
  await run.answer((await first(run.events(), 'question')).questionId, 'yes')
  t.match(await run.result, { success: true, finalOutput: 'version 3' })
  t.same(pluck(run.tasks, 'status'), ['completed', 'completed', 'completed', 'completed'])
  await after.close({ drainMs: 60_000 })
  // Its steps are idempotent: the first process may have begun with them when it was closed.
  const effects = readFileSync(join(path, '..', 'effects'), 'utf8')
    .split('\n')
    .filter(Boolean)
  t.same([...new Set(effects)], ['sent-0', 'sent-1', 'sent-2', 'sent-3'], 'an accepted message was handled')
})

t.test('a tool of the host that may not run twice has an unknown outcome; an idempotent one runs again', async (t) => {
  for (const idempotent of [false, true]) {
    const folder = folderOf(t)
    const path = join(folder, 'log')
    const calls = join(folder, 'calls')
    const begun = { tell: () => {} }
    const tool = (hangs: boolean) =>
      defineTool({
        name: 'pay',
        description: 'Pays.',
        input: z.object({}),
        idempotent,
        run: async () => {
          appendFileSync(calls, 'paid\n')
          begun.tell()
          return hangs ? new Promise<string>(() => {}) : 'paid'
        },
      })
    const script: Script = async (desk) => {
      try {
        return String(await desk.tool('pay', {}))
      } catch (error) {
        return (error as { code: string }).code
      }
    }
    const before = deskOf(t, path, script, { tools: [tool(true)] })
    const hasBegun = new Promise<void>((resolve) => {
      begun.tell = resolve
    })
    before.launch('go', { runId: 'one' })
    await hasBegun
    await before.close()

    const after = deskOf(t, path, script, { tools: [tool(false)] })
    await after.start()
    const { finalOutput } = await after.getRun('one')!.result
    t.equal(finalOutput, idempotent ? 'paid' : 'OUTCOME_UNKNOWN')
    t.equal(readFileSync(calls, 'utf8'), idempotent ? 'paid\npaid\n' : 'paid\n')
    await after.close()
  }
})

t.test('one team at a time has a log; the other one is told who has it', async (t) => {
  const path = join(folderOf(t), 'log')
  const first = deskOf(t, path, async () => 'done')
  await first.start()
  const second = deskOf(t, path, async () => 'done')
  await t.rejects(second.start(), { code: 'LOG_HELD', details: { pid: process.pid } })
  t.match(await second.execute('go'), { success: false, error: { code: 'LOG_HELD' } })
  await t.rejects(second.flush(), { code: 'LOG_HELD' })
  await first.close()
  t.match(await second.execute('go'), { success: true, finalOutput: 'done' }, 'it can be tried again')
})

t.test('a team whose log another process took interrupts its runs and takes no more', async (t) => {
  const path = join(folderOf(t), 'log')
  const script: Script = async (desk) => (await desk.request('ann', 'ask really')).content
  const team = deskOf(t, path, script, { stateManagement: { path, durability: 'commit' } })
  const run = team.launch('go', { runId: 'one' })
  const { questionId } = await first(run.events(), 'question')
  writeFileSync(join(path, 'owner'), JSON.stringify({ incarnation: 99, pid: 1, host: 'elsewhere' }))
  await t.rejects(run.answer(questionId, 'yes'), { code: 'LOG_LOST' })
  t.match(await run.result, { success: false, error: { code: 'LOG_LOST' } })
  t.equal(run.status, 'interrupted')
  t.throws(() => team.launch('more'), { code: 'LOG_LOST' })
  await t.rejects(team.flush(), { code: 'LOG_LOST' })
  await team.close()
})

t.test('an agent that is new in the program, or gone from it, does not disturb the others', async (t) => {
  const path = join(folderOf(t), 'log')
  const script: Script = async (desk) => (await desk.request('bob', 'ask really')).content
  const before = deskOf(t, path, script)
  await first(before.launch('go', { runId: 'one' }).events(), 'question')
  await before.close()

  const agents = ['new', 'bob'].map((name) => ({ name, module, env: ['DESK_EFFECTS'] }))
  const after = deskOf(t, path, script, { agents })
  await after.start()
  const run = after.getRun('one')!
  await run.answer((await first(run.events(), 'question')).questionId, 'no')
  t.match(await run.result, { success: true, finalOutput: 'no' })
  t.match(await after.getAgent('new')!.run('count'), '0: ')
})

t.test('a wrong option is named', async (t) => {
  const cases: [given: unknown, path: string][] = [
    [{}, 'stateManagement.path'],
    [{ path: '' }, 'stateManagement.path'],
    [{ path: 7 }, 'stateManagement.path'],
    [{ path: '/tmp/x', durability: 'never' }, 'stateManagement.durability'],
    [{ path: '/tmp/x', syncMs: -1 }, 'stateManagement.syncMs'],
    [{ path: '/tmp/x', waitForLogMs: false }, 'stateManagement.waitForLogMs'],
    [{ path: '/tmp/x', resume: 'never' }, 'stateManagement.resume'],
    [{ path: '/tmp/x', onMismatch: 'ignore' }, 'stateManagement.onMismatch'],
    [{ path: '/tmp/x', fast: true }, 'stateManagement.fast'],
    [{ path: '/tmp/x', keep: { runs: -1 } }, 'stateManagement.keep.runs'],
    [{ path: '/tmp/x', keep: { days: '30' } }, 'stateManagement.keep.days'],
    [{ path: '/tmp/x', keep: { gigabytes: 1 } }, 'stateManagement.keep.gigabytes'],
    [{ store: {} }, 'stateManagement.store'],
    [{ path: '/tmp/x', store: new MemoryStore(new MemoryDisk()) }, 'stateManagement.store'],
    ['/tmp/x', 'stateManagement'],
  ]
  for (const [given, path] of cases)
    t.throws(
      () =>
        createTeam({
          agents: [{ name: 'ann', module }],
          stateManagement: given as { path: string },
          orchestration: { strategy: 'sequential' },
        }),
      { code: 'CONFIGURATION', details: { path } },
      JSON.stringify(given),
    )
})

// Runs of an earlier process that do not go on by themselves: they are interrupted until they are resumed.

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

// What a later process says of the runs of earlier ones: the same ids of events, and the same list.

const idsAndListScript: Script = async (desk, query) => {
  if (query === 'fails') throw new Error('no')
  if (query === 'ask') return (await desk.request('bob', 'ask really')).content
  return (await desk.request('ann', 'steps of')).content
}

const LONG = 'long '.repeat(100)

t.test('ids of events and the entries of the list are the same in the next process', async (t) => {
  const path = join(folderOf(t), 'log')
  const before = deskOf(t, path, idsAndListScript)
  t.equal(before.logName, undefined, 'the log is not open yet')
  const early = first(before.launch('ask', { runId: 'open' }).events({ after: 'other.5' }), 'reset')
  await first(before.getRun('open')!.events(), 'question')
  t.match(await early, { seq: -1, runId: 'open' }, 'whoever comes before the log is open is told, too')
  const name = before.logName
  t.type(name, 'string')
  await before.execute(LONG, { runId: 'one', threadId: 'talk' })
  await before.execute('fails', { runId: 'two' })
  const events: RuntimeEvent<unknown>[] = []
  for await (const event of before.getRun('one')!.events()) events.push(event)
  const listed = await before.listRuns()
  await before.close()

  const next = deskOf(t, path, idsAndListScript)
  await next.start()
  t.equal(next.logName, name)
  const after = events[Math.floor(events.length / 2)]!.seq
  const late: RuntimeEvent<unknown>[] = []
  for await (const event of next.getRun('one')!.events({ after: `${name}.${after}` })) late.push(event)
  t.same(
    late.map(({ seq, type }) => [seq, type]),
    events.filter(({ seq }) => seq > after).map(({ seq, type }) => [seq, type]),
  )
  const again = await next.listRuns()
  t.match(pluck(again, 'id'), ['two', 'one', 'open'])
  t.same(again.slice(0, 2), listed.slice(0, 2))
  t.match(again[0], { status: 'failed', errorCode: 'AGENT_FAILED', threadId: null })
  t.match(again[1], { status: 'finished', errorCode: null, threadId: 'talk', query: LONG })
  t.match(await next.listRuns({ limit: 1, before: 'two' }), [{ id: 'one', query: LONG }])
})

// A deadlock that closes in a later process is found there, also one over the answers of several.

const deadlockModule = new URL('../fixtures/durability/circle.js', import.meta.url)
const agents = ['ann', 'bob', 'cid'].map((name) => ({ name, module: deadlockModule }))
const deadlockScript: Script = async (desk, query) => (await desk.request('ann', query)).content

for (const [query, ends] of [
  ['all bob cid', { finalOutput: 'AGENT_FAILED,ok' }],
  ['quorum bob cid', { error: { message: /deadlock/i } }],
] as const)
  t.test(`a circle over "${query}" that closes in the next process is broken`, async (t) => {
    const path = join(folderOf(t), 'log')
    const before = deskOf(t, path, deadlockScript, { agents })
    await first(before.launch(query, { runId: 'one' }).events(), 'question')
    await before.close()
    const team = deskOf(t, path, deadlockScript, { agents })
    await team.start()
    const run = team.getRun('one')!
    await run.answer((await first(run.events(), 'question')).questionId, 'yes')
    t.match(await run.result, ends)
    t.ok(run.trace.events.some(({ eventType }) => /deadlock/.test(eventType)))
  })

// Words to a run over a restart: they are read by the next process, and known when the run has ended long ago.

function teamOn(t: Test, disk: MemoryDisk, model: FakeModel, options: Partial<MultiAgentPatternOptions> = {}) {
  const team = createTeam({
    agents: [{ name: 'ann' }],
    orchestration: { strategy: 'sequential' },
    models: { default: Object.assign(model, { offline: true }) },
    stateManagement: { store: new MemoryStore(disk) },
    logger: silent,
    ...options,
  })
  t.teardown(() => team.close())
  return team
}

t.test('what was said before a restart is read behind it, once', async (t) => {
  const disk = new MemoryDisk()
  const asked = gate()
  const never = new FakeModel(() => {
    asked.open()
    return new Promise(() => {})
  })
  const before = teamOn(t, disk, never)
  const run = before.launch('How long?', { runId: 'one' })
  await asked.opened
  const { at, settled } = await run.steer('In metres.', { id: 'a' })
  await Promise.all([t.rejects(settled, { message: /is interrupted/ }), before.close()])

  const model = new FakeModel(() => 'one metre')
  const after = teamOn(t, disk, model)
  await after.start()
  const goesOn = after.getRun('one')!
  t.equal((await goesOn.steer('In metres.', { id: 'a' })).at, at, 'they are known')
  t.match(await goesOn.result, { success: true, finalOutput: 'one metre' })
  t.equal(model.requests.length, 1)
  t.same(
    model.requests[0]!.messages.slice(1).map(({ content }) => content),
    ['How long?', 'In metres.'],
  )
  t.not(model.requests[0]!.idempotencyKey, never.requests[0]!.idempotencyKey, 'the prompt is another one')
  t.match(goesOn.steers, [{ id: 'a', readBy: ['ann'], settled: 'read' }])
  await after.close()

  const later = teamOn(t, disk, model)
  await later.start()
  const ended = later.getRun('one')!
  const receipt = await ended.steer('In metres.', { id: 'a' })
  t.equal(receipt.at, at)
  t.equal(await receipt.settled, 'read')
  await t.rejects(ended.steer('In feet.'), { code: 'RUN_ENDED' })
  t.equal(model.requests.length, 1)
})

/** What the agent says in the next process, what is checked there, the answer of the run, and what became of the words. */
const AGAIN: [what: string, next: Answer, checks: Guardrail<string>['check'], answer: string, settled: string][] = [
  ['an answer', '1 metre', () => {}, '1 metre', 'read'],
  ['a failure', [new ModelError('Broken.', { reason: 'auth' })], () => {}, '3 feet', 'unread'],
  ['a refusal', '1 metre', (text) => (text === '1 metre' ? { refuse: 'No.' } : undefined), '3 feet', 'unread'],
]

for (const [what, next, check, finalOutput, settled] of AGAIN)
  t.test(`an agent that is asked again for words is so in the next process, and in a later log: ${what}`, async (t) => {
    const disk = new MemoryDisk()
    const asked = gate()
    const never = new FakeModel((_request, nth) => {
      if (nth === 0) return '3 feet'
      asked.open()
      return new Promise(() => {})
    })
    let run: Run | undefined
    const said = async () => void (await run!.steer('In metres.', { id: 'a' }))
    const before = teamOn(t, disk, never, { guardrails: { output: [{ name: 'own', check: said }] } })
    run = before.launch('How long?', { runId: 'one' })
    await asked.opened
    await before.close()

    const model = new FakeModel(() => next)
    const after = teamOn(t, disk, model, { guardrails: { output: [{ name: 'own', check }] } })
    await after.start()
    const goesOn = after.getRun('one')!
    t.match(await goesOn.result, { success: true, finalOutput, speaker: 'ann' })
    t.equal(model.requests.length, 1)
    t.equal(model.requests[0]!.messages.at(-1)!.content, 'In metres.')
    const receipt = { id: 'a', readBy: settled === 'read' ? ['ann'] : [], settled }
    t.match(goesOn.steers, [receipt])
    await after.close()

    const later = teamOn(t, disk, model)
    await later.start()
    const ended = later.getRun('one')!
    t.match(await ended.result, { success: true, finalOutput, speaker: 'ann' })
    t.match(ended.steers, [receipt])
  })
