/**
 * Runs whose code has changed since an earlier process began them. Before a changed turn does anything anew, its run is
 * interrupted, or goes on if that is wanted.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as later } from 'node:timers/promises'
import type { Test } from 'tap'
import t from 'tap'
import { NO_SUB_TASK } from '../../src/mailbox/sub-task.ts'
import { type Scheduler, systemClock } from '../../src/shared/clock.ts'
import { deskAgent, deskOf, first, type Script } from './desk-team.ts'
import { folderOf } from './log-folders.ts'

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
