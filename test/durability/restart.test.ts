/** A team that goes on with the log of an earlier one. The earlier one is closed, or its process is killed in kills.test.ts. */
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import * as z from 'zod'
import { createTeam, defineTool } from '../../src/index.ts'
import { modelServer } from '../fixtures/model-server.ts'
import { pluck, where } from '../kit/lists.ts'
import { deskOf, first, module, type Script } from './desk-team.ts'
import { folderOf } from './log-folders.ts'
import { MemoryDisk, MemoryStore } from './memory-store.ts'

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
