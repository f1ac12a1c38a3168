/** Logs of earlier versions of the package, and of other code. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as later } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { gunzipSync, gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import * as z from 'zod'
import { createTeam, defineTool, type MultiAgentPatternOptions, type Run } from '../../src/index.ts'
import { NO_SUB_TASK } from '../../src/mailbox/sub-task.ts'
import { type Scheduler, systemClock } from '../../src/shared/clock.ts'
import { modelServer } from '../fixtures/model-server.ts'
import { deskAgent, deskOf, first, type Script } from './desk-team.ts'
import { folderOf, segmentsOf } from './log-folders.ts'

// A log of each format that there was is checked in, with runs that had ended, one that waited for a person and one
// that had not begun: a later version goes on with it. A new format gets a file of its own beside the old ones:
//
// WRITE_LOG=format-2-runs node dist/test/durability/old-logs.test.js

const LOGS = fileURLToPath(new URL('../../../test/fixtures/durability', import.meta.url))
const module = new URL('../fixtures/durability/old-log-agent.js', import.meta.url)

async function teamOn(t: Test, path: string) {
  const server = await modelServer(t)
  server.always(({ prompt }) => `You said ${prompt}`)
  let weighed = 0
  const weigh = defineTool({
    name: 'weigh',
    description: 'Weighs a thing.',
    input: z.object({ what: z.string() }),
    run: ({ what }) => {
      weighed += 1
      return what.length
    },
  })
  const options: MultiAgentPatternOptions = {
    agents: ['ann', 'bob', 'cid', 'dot'].map((name) => ({ name, module })),
    tools: [weigh],
    syncPoints: [{ name: 'noon', requiredAgents: ['ann', 'bob'], timeoutMs: 60_000 }],
    models: { default: { model: 'gpt-4o', baseURL: server.baseURL, apiKey: 'none' } },
    logger: { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} },
    maxConcurrentRuns: 2,
    stateManagement: { path },
    orchestration: {
      strategy: 'custom',
      name: 'an old day',
      async run(script, query) {
        const ask = async (to: string, content: string) => (await script.request(to, content)).content
        if (query === 'fail') return ask('cid', 'fail it')
        if (query === 'short') return ask('cid', 'step short')
        if (query === 'talk') return ask('dot', 'talk much') // since format 2: prompts that differ from those before
        const said = [await ask('ann', 'step one'), await ask('bob', 'publish page'), await ask('ann', 'pass on')]
        said.push(await ask('cid', 'give it'), await ask('cid', 'count up'), await ask('cid', 'model hello'))
        said.push(await ask('cid', 'tool box'), ...(await Promise.all([ask('ann', 'meet x'), ask('bob', 'meet x')])))
        await script.send('bob', 'note')
        said.push(await ask('cid', 'ask really'), await ask('ann', 'publish page'), await ask('cid', 'count up'))
        return [...said, await ask('bob', 'heard')].join(' | ')
      },
    },
  }
  const team = createTeam(options)
  t.teardown(() => team.close())
  return { team, server, weighed: () => weighed }
}

const END =
  'one was done | version 1 | passed was done | given was done | 1 | You said hello | 3 | ann+bob | ann+bob | yes | version 2 | 2 | publish page,step passed,step given,meet x,note'

async function questionOf(run: Run<unknown>): Promise<string> {
  for await (const event of run.events()) if (event.type === 'question') return event.questionId
  throw new Error('no question came')
}

async function write(t: Test, name: string): Promise<void> {
  const path = join(folderOf(t), 'log')
  const { team } = await teamOn(t, path)
  await team.execute('short', { runId: 'ended' })
  await team.execute('fail', { runId: 'failed' })
  await questionOf(team.launch('talk', { runId: 'talks' }))
  const run = team.launch('whole', { runId: 'open' })
  team.launch('short', { runId: 'waiting', metadata: { ticket: '7' } })
  await questionOf(run)
  await team.flush()
  await team.close()
  const files = segmentsOf(path).map((segment) => [segment, readFileSync(join(path, segment)).toString('base64')])
  const text = gzipSync(JSON.stringify(files)).toString('base64')
  writeFileSync(join(LOGS, `${name}.base64`), `${text.replace(/.{1,120}/g, '$&\n')}`)
}

function unpack(t: Test, name: string): string {
  const path = join(folderOf(t), 'log')
  mkdirSync(path)
  const text = gunzipSync(Buffer.from(readFileSync(join(LOGS, name), 'utf8'), 'base64')).toString()
  const files: [name: string, content: string][] = JSON.parse(text)
  for (const [segment, content] of files) writeFileSync(join(path, segment), Buffer.from(content, 'base64'))
  return path
}

const { WRITE_LOG } = process.env
if (WRITE_LOG) await write(t, WRITE_LOG)

for (const name of readdirSync(LOGS).filter((name) => /^format-\d+-runs\.base64$/.test(name)))
  t.test(`the runs of ${name} go on in this version`, async (t) => {
    const { team, server, weighed } = await teamOn(t, unpack(t, name))
    await team.start()
    t.match(await team.getRun('ended')!.result, { success: true, finalOutput: 'short was done' })
    t.match(await team.getRun('failed')!.result, { success: false, error: { code: 'AGENT_FAILED' } })
    const talks = team.getRun('talks')
    if (talks) {
      await talks.answer(await questionOf(talks), 'yes')
      t.match(await talks.result, { success: true, finalOutput: /^yes: \d+$/ })
      t.equal(server.calls.length, 1, 'what it was told before is not asked for again')
      t.equal(server.calls[0]!.body.messages.length, 7)
      server.forget()
    }
    const run = team.getRun('open')!
    const [question] = team.questions()
    t.match(question, { runId: 'open', agent: 'cid', text: 'really?', choices: ['yes', 'no'] })
    t.equal((await team.getBlackboard('open')!.getHistory('page')).length, 1)
    await run.answer(question!.questionId, 'yes')
    const { finalOutput, error } = await run.result
    t.equal(finalOutput, END, error?.message ?? 'it ends as it would have')
    t.match(await team.getRun('waiting')!.result, { success: true, finalOutput: 'short was done' })
    t.same([server.calls.length, weighed()], [0, 0], 'nothing is done again')
  })

// Runs whose code has changed since an earlier process began them. Before a changed turn does anything anew, its run
// is
// interrupted, or goes on if that is wanted.

/** What the first process had done when it ended: four requests, of which the last is open. */
const original: Script = async (desk) => {
  const a = (await desk.request('ann', 'once a')).content
  const b = (await desk.request('ann', 'once bb')).content
  const c = (await desk.request('ann', 'once ccc')).content
  const answer = (await desk.request('bob', 'ask really')).content
  return `${a}${b}${c} ${answer}`
}

/** The folder of the log of a run "one" that waits for a person. */
async function leftBehind(t: Test, script: Script): Promise<string> {
  const path = join(folderOf(t), 'log')
  const before = deskOf(t, path, script)
  await first(before.launch('go', { runId: 'one' }).events(), 'question')
  await before.close()
  return path
}

const effects = (path: string) =>
  readFileSync(join(path, '..', 'effects'), 'utf8')
    .split('\n')
    .filter(Boolean)

interface Change {
  script: Script
  /** What the changed script comes to, as the error has it. */
  step: string
  /** What it did not ask for again. */
  missed: string[]
  /** Its result if it goes on all the same. */
  output: string
  /** Steps that were done in all. */
  done: string[]
}

const changes: Record<string, Change> = {
  'a step in front': {
    script: async (desk) => {
      const first = (await desk.request('ann', 'once new')).content
      return `${first} ${(await original(desk, '')) as string}`
    },
    step: 'request to ann',
    missed: ['request to ann', 'request to ann', 'request to ann', 'request to bob'],
    output: '3 123 yes',
    done: ['a', 'bb', 'ccc', 'new'],
  },
  'a step in the middle, with another input': {
    script: async (desk) => {
      const a = (await desk.request('ann', 'once a')).content
      const b = (await desk.request('ann', 'once changed')).content
      const c = (await desk.request('ann', 'once ccc')).content
      return `${a}${b}${c} ${(await desk.request('bob', 'ask really')).content}`
    },
    step: 'request to ann',
    missed: ['request to ann', 'request to ann', 'request to bob'],
    output: '173 yes',
    done: ['a', 'bb', 'ccc', 'changed'],
  },
  'a step that is not there any more': {
    script: async (desk) => {
      const a = (await desk.request('ann', 'once a')).content
      const c = (await desk.request('ann', 'once ccc')).content
      return `${a}${c} ${(await desk.request('bob', 'ask really')).content}`
    },
    step: 'its end',
    missed: ['request to ann'],
    output: '13 yes',
    done: ['a', 'bb', 'ccc'],
  },
  'an error where the log goes on': {
    script: async (desk) => {
      await desk.request('ann', 'once a')
      throw new Error('a typo')
    },
    step: 'its failure: Error: a typo',
    missed: ['request to ann', 'request to ann', 'request to bob'],
    output: '',
    done: ['a', 'bb', 'ccc'],
  },
}

for (const [name, { script, step, missed, output, done }] of Object.entries(changes)) {
  t.test(`a run is interrupted when its script has changed: ${name}`, async (t) => {
    const path = await leftBehind(t, original)
    const changed = deskOf(t, path, script)
    await changed.start()
    const run = changed.getRun('one')!
    const answered = first(run.events(), 'question').then(({ questionId }) => run.answer(questionId, 'yes'))
    if (step === 'its end') await answered // only then it comes to its end
    const result = await run.result
    t.match(result, {
      success: false,
      error: { code: 'STEP_MISMATCH', details: { runId: 'one', step, missed, scriptChanged: true } },
    })
    t.equal(run.status, 'interrupted')
    t.same(effects(path), ['a', 'bb', 'ccc'], 'nothing was done')
    await changed.getAgent('ann')!.run('count') // the others go on
    if (step !== 'its end') await answered
    await changed.close()

    const same = deskOf(t, path, original)
    await same.start()
    t.match(await same.getRun('one')!.result, { success: true, finalOutput: '123 yes' }, 'the old code goes on')
  })

  t.test(`a changed run goes on if that is wanted: ${name}`, async (t) => {
    const path = await leftBehind(t, original)
    const changed = deskOf(t, path, script)
    await changed.start()
    const { questionId } = await first(changed.getRun('one')!.events(), 'question')
    await changed.getRun('one')!.answer(questionId, 'yes')
    await changed.getRun('one')!.result
    const result = await changed.resume('one', { onMismatch: 'continue' })
    t.equal(result.success, output !== '')
    if (result.success) t.equal(result.finalOutput, output)
    t.same(effects(path).sort(), done, 'what is the same was not done again')
  })
}

t.test('a change behind the place where the old process ended is no mismatch', async (t) => {
  const path = await leftBehind(t, original)
  const team = deskOf(t, path, async (desk) => {
    const before = (await original(desk, '')) as string
    return `${before}, ${(await desk.request('ann', 'once later')).content}`
  })
  await team.start()
  const run = team.getRun('one')!
  await run.answer((await first(run.events(), 'question')).questionId, 'no')
  t.match(await run.result, { success: true, finalOutput: '123 no, 5' })
})

t.test('what was open when the old process ended can have changed too', async (t) => {
  const path = await leftBehind(t, original)
  const team = deskOf(t, path, async (desk) => {
    for (const step of ['a', 'bb', 'ccc']) await desk.request('ann', `once ${step}`)
    return (await desk.request('bob', 'once other')).content
  })
  await team.start()
  const details = { step: 'request to bob', missed: ['request to bob'] }
  t.match(await team.getRun('one')!.result, { error: { code: 'STEP_MISMATCH', details } })
  t.notOk(effects(path).includes('other'))
})

t.test('parallel steps in another order are the same', async (t) => {
  const all =
    (order: number[]): Script =>
    async (desk) => {
      const branches = [
        async () => `${(await desk.request('ann', 'once a')).content}${(await desk.request('ann', 'once bb')).content}`,
        async () => (await desk.request('bob', 'ask really')).content,
        async () =>
          `${(await desk.request('cid', 'once ccc')).content}${(await desk.request('cid', 'once dddd')).content}`,
      ]
      const said = new Map<number, Promise<string>>()
      for (const at of order) said.set(at, branches[at]!())
      return (await Promise.all([0, 1, 2].map((at) => said.get(at)))).join(' ')
    }
  const agents = ['ann', 'bob', 'cid'].map((name) => deskAgent(name))
  for (const order of [
    [2, 1, 0],
    [1, 0, 2],
    [2, 0, 1],
  ]) {
    const path = join(folderOf(t), 'log')
    const before = deskOf(t, path, all([0, 1, 2]), { agents })
    const left = before.launch('go', { runId: 'one' })
    for await (const _ of left.events())
      if (left.status === 'waiting' && left.tasks.filter(({ status }) => status === 'completed').length === 4) break
    await before.close()
    const team = deskOf(t, path, all(order), { agents })
    await team.start()
    const run = team.getRun('one')!
    await run.answer((await first(run.events(), 'question')).questionId, 'yes')
    t.match(await run.result, { success: true, finalOutput: '12 yes 34' }, order.join())
    t.same(effects(path).sort(), ['a', 'bb', 'ccc', 'dddd'])
    await team.close()
  }
})

t.test('a script in a thread is held back too', async (t) => {
  const path = join(folderOf(t), 'log')
  const module = new URL('../fixtures/durability/desk-script.js', import.meta.url)
  const steps = ['ann once a', 'bob ask really', 'ann once bb']
  const orchestration = (of: string[]) => ({ strategy: 'custom' as const, module, config: { steps: of } })
  const before = deskOf(t, path, original, { orchestration: orchestration(steps) })
  await first(before.launch('go', { runId: 'one' }).events(), 'question')
  await before.close()

  const changed = deskOf(t, path, original, { orchestration: orchestration(['bob once new', ...steps]) })
  await changed.start()
  const details = { step: 'request to bob', missed: ['request to ann', 'request to bob'] }
  t.match(await changed.getRun('one')!.result, { error: { code: 'STEP_MISMATCH', details } })
  t.same(effects(path), ['a'])
  const resumed = changed.resume('one', { onMismatch: 'continue' })
  const { questionId } = await first(changed.getRun('one')!.events(), 'question')
  await changed.getRun('one')!.answer(questionId, 'yes')
  t.match(await resumed, { success: true, finalOutput: '3 1 yes 2' })
  t.same(effects(path), ['a', 'new', 'bb'])
})

t.test('the handler of an agent that has changed is held back, and its run goes on when it is resumed', async (t) => {
  const path = await leftBehind(t, original)
  const module = new URL('../fixtures/durability/changed-desk-agent.js', import.meta.url)
  const agents = [deskAgent('ann'), { ...deskAgent('bob'), module }]
  const changed = deskOf(t, path, original, { agents })
  const others = changed.launch('another', { runId: 'two' })
  await changed.start()
  const error = { code: 'STEP_MISMATCH', details: { agent: 'bob', step: 'step before', missed: ['ask'] } }
  t.match(await changed.getRun('one')!.result, { success: false, error })
  t.same(
    effects(path).filter((each) => each === 'before'),
    [],
  )
  const { questionId } = await first(others.events(), 'question') // bob has it in the other run
  await others.answer(questionId, 'no')
  t.match(await others.result, { success: true, finalOutput: '123 no' })

  const resumed = changed.resume('one', { onMismatch: 'continue' })
  const asked = await first(changed.getRun('one')!.events(), 'question')
  await changed.getRun('one')!.answer(asked.questionId, 'yes')
  t.match(await resumed, { success: true, finalOutput: '123 yes' })
})

/** Timers of ten seconds and more never come: what waits for one would wait for ever. */
const impatient: Scheduler = {
  ...systemClock,
  timer: (ms, task) => (ms < 10_000 ? systemClock.timer(ms, task) : { cancel: () => {} }),
}

t.test('a changed run goes on at once, also in a team in which nothing else is under way', async (t) => {
  const path = await leftBehind(t, original)
  const { script, output } = changes['a step that is not there any more']!
  const changed = deskOf(t, path, script, { clock: impatient })
  await changed.start()
  const run = changed.getRun('one')!
  await run.answer((await first(run.events(), 'question')).questionId, 'yes')
  await run.result
  await changed.flush()
  await later(200) // until the host has nothing to look at
  t.match(await changed.resume('one', { onMismatch: 'continue' }), { success: true, finalOutput: output })
})

t.test('stateManagement.onMismatch: continue lets all changed runs go on', async (t) => {
  const path = await leftBehind(t, original)
  const { script, output } = changes['a step in front']!
  const team = deskOf(t, path, script, { stateManagement: { path, onMismatch: 'continue' } })
  await team.start()
  const run = team.getRun('one')!
  await run.answer((await first(run.events(), 'question')).questionId, 'yes')
  t.match(await run.result, { success: true, finalOutput: output })
})

t.test('a run that its changed script has interrupted can be cancelled', async (t) => {
  const path = await leftBehind(t, original)
  const team = deskOf(t, path, changes['a step in front']!.script)
  await team.start()
  await team.getRun('one')!.result
  await team.getRun('one')!.cancel('not wanted')
  t.match(await team.getRun('one')!.result, { success: false, error: { code: 'RUN_ABORTED' } })
  t.equal(team.getRun('one')!.status, 'aborted')
  await team.close({ drainMs: 60_000 })
  const next = deskOf(t, path, original)
  await next.start()
  t.same(await next.listRuns({ status: 'interrupted' }), [])
})

t.test('a run goes on that began before requests said that they are no sub-tasks', async (t) => {
  const asking =
    (mark: object): Script =>
    async (desk) => {
      const metadata = { shelf: 1, ...mark, row: 2 }
      const a = (await desk.request('ann', 'once a', { metadata })).content
      return `${a} ${(await desk.request('bob', 'ask really', { metadata })).content}`
    }
  const path = await leftBehind(t, asking({}))
  const after = deskOf(t, path, asking(NO_SUB_TASK))
  await after.start()
  const run = after.getRun('one')!
  const { questionId } = await first(run.events(), 'question')
  await run.answer(questionId, 'yes')
  t.match(await run.result, { success: true, finalOutput: '1 yes' })
  t.same(effects(path), ['a'])
  await after.close()
})
