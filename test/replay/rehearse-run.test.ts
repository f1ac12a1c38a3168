/** `rehearseRun`: an old run with the code of today, and the answers that the world outside gave then. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import t from 'tap'
import { z } from 'zod'
import { createTeam, defineAgent, defineTool, type MultiAgentPatternOptions, type Run } from '../../src/index.ts'
import { type OldRunPlan, type OldRunRehearsal, rehearseRun, scriptedModel } from '../../src/testing.ts'
import { deskOf, first, type Script } from '../durability/desk-team.ts'
import { folderOf } from '../durability/log-folders.ts'
import type { Changed } from '../fixtures/old-runs/clerk.ts'
import { clerks, effects, priced, sells, served, shop } from './clerk-team.ts'

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

/** Plays a run of the shop, and gives the folder of its log. */
async function sold(t: Test, answer = 'yes', options = clerks()): Promise<string> {
  const log = join(folderOf(t), 'log')
  const team = shop(t, log, options)
  await served(team.launch('tea', { runId: 'one' }), answer, 2) // else one "no" ends the run before the other asks
  await team.close()
  return log
}

const withChanged = (log: string, changed: Changed, plan: Partial<OldRunPlan> = {}) =>
  rehearseRun(clerks(sells, changed), { log, runId: 'one', ...plan })

const inShort = ({ mismatches }: OldRunRehearsal) =>
  mismatches.map(({ how, kind, agent, name }) => [how, kind, agent, name].filter((part) => part !== '').join(' '))

t.test('a run is played again without asking anybody, and comes to the same', async (t) => {
  const log = join(folderOf(t), 'log')
  const team = shop(t, log)
  const result = await served(team.launch('tea', { runId: 'one', metadata: { shop: 'north' } }))
  await team.close()
  const before = [effects(), priced.times]
  const rehearsal = await rehearseRun(clerks(), { log, runId: 'one' })
  t.same(rehearsal.mismatches, [])
  t.equal(rehearsal.result.finalOutput, 'green tea for {"euros":90} and black coffee for {"euros":120}')
  t.same(rehearsal.before, { status: 'finished', error: null, finalOutput: result.finalOutput })
  t.same(rehearsal.result.totalTokenUsage, result.totalTokenUsage)
  t.same([effects(), priced.times], before)
})

t.test('a run that was asked with pictures is asked with them again, also with large ones', async (t) => {
  const log = join(folderOf(t), 'log')
  const options: MultiAgentPatternOptions = {
    agents: [{ name: 'ann', module: new URL('../fixtures/old-runs/looker.js', import.meta.url) }],
    logger: silent,
    orchestration: { strategy: 'sequential' },
  }
  const team = createTeam({ ...options, stateManagement: { path: log } })
  const picture = (bytes: number) => ({
    type: 'image' as const,
    mediaType: 'image/png',
    data: `data:image/png;base64,${Buffer.alloc(bytes, 7).toString('base64')}`,
  })
  const query = [{ type: 'text' as const, text: 'Look' }, picture(30), picture(120_000)]
  const result = await team.execute(query, { runId: 'one' })
  t.equal(result.finalOutput, 'Look,62,160022')
  await team.close()
  const rehearsal = await rehearseRun(options, { log, runId: 'one' })
  t.same(rehearsal.mismatches, [])
  t.equal(rehearsal.result.finalOutput, result.finalOutput)
})

t.test('it gives the same each time', async (t) => {
  const log = await sold(t)
  const plays = [await withChanged(log, { prompt: 'Sell' }), await withChanged(log, { prompt: 'Sell' })]
  const [one, other] = plays.map(({ before, mismatches, result }) => ({
    ...{ before, mismatches, output: result.finalOutput, trace: result.orchestrationTrace },
    history: result.messageHistory,
  }))
  t.same(one, other)
  t.not(one!.mismatches.length, 0)
})

t.test('a changed prompt is told with its place, and the run goes on with the old answer', async (t) => {
  const log = await sold(t)
  const rehearsal = await withChanged(log, { prompt: 'Please offer' })
  t.same(inShort(rehearsal), ['changed model ann default'])
  t.match(rehearsal.mismatches[0], {
    path: 'messages[0].content',
    before: /^Offer tea of ann/,
    now: /^Please offer tea of ann/,
    sentence: /^what ann gives the model "default" has changed in messages\[0\].content: it was "Offer tea/,
  })
  t.equal(rehearsal.result.success, true)
})

t.test('what is not asked for again, and what follows from it, is told', async (t) => {
  const log = await sold(t)
  const rehearsal = await withChanged(log, { lazy: true })
  t.same(inShort(rehearsal), ['changed tool ann price', 'missing tool ann weigh'])
  t.match(rehearsal.mismatches[0], { path: 'weight', before: 9, now: 0 })
})

t.test('a step that the old run did not do fails, unless the caller answers it', async (t) => {
  const log = await sold(t)
  const alone = await withChanged(log, { step: 'greet' })
  t.same(inShort(alone), [
    'new step ann greet',
    'changed answer ann $orchestrator',
    'changed result $orchestrator $user',
  ])
  t.match(alone.result, { success: false })
  t.match(JSON.stringify(alone.result.error), 'STEP_MISMATCH')

  const asked: unknown[] = []
  const answered = await withChanged(
    log,
    {
      step: 'greet',
    },
    {
      answer(about) {
        asked.push(about)
        return 'hello'
      },
    },
  )
  t.same(asked, [{ agent: 'ann', kind: 'step', name: 'greet', input: null }])
  t.same(inShort(answered), ['new step ann greet'])
  t.equal(answered.result.success, true)
})

t.test('another answer of an agent is told, and another result of the run', async (t) => {
  const log = await sold(t)
  const rehearsal = await withChanged(log, { ending: '!' })
  t.same(inShort(rehearsal), ['changed answer ann $orchestrator', 'changed result $orchestrator $user'])
  t.match(rehearsal.mismatches[0], { path: 'content', now: /90}!$/ })
})

t.test('a run that failed fails again in the same way, and shows when it does no more', async (t) => {
  const log = await sold(t, 'no')
  const same = await rehearseRun(clerks(), { log, runId: 'one' })
  t.match(same.before, { status: 'failed', error: { code: 'AGENT_FAILED', message: /is not sold/ } })
  t.same(same.mismatches, [])
  t.match(same.result, { success: false, error: { code: 'AGENT_FAILED' } })

  const careful: Script = async (desk, query) => {
    try {
      return await sells(desk, query)
    } catch {
      return 'nothing is sold'
    }
  }
  const fixed = await rehearseRun(clerks(careful), { log, runId: 'one' })
  t.match(fixed.result, { success: true, finalOutput: 'nothing is sold' })
  t.same(inShort(fixed), ['changed result $orchestrator $user'])
})

t.test('a changed script is told by the messages that it sends', async (t) => {
  const log = await sold(t)
  const more: Script = async (desk, query) => {
    const offers = await sells(desk, query)
    return `${offers}${(await desk.request('bob', 'anything else?')).content}`
  }
  const longer = await rehearseRun(clerks(more), { log, runId: 'one' })
  t.equal(inShort(longer)[0], 'new message bob $orchestrator')
  t.match(longer.mismatches[0]?.sentence, /that the old run did not have: "anything else\?"/)

  const less: Script = async (desk, query) => (await desk.request('ann', `${query} of ann`)).content
  t.same(inShort(await rehearseRun(clerks(less), { log, runId: 'one' })), [
    'changed result $orchestrator $user',
    'missing message bob $orchestrator',
  ])
})

t.test('code of today that is busy without end is stopped, and told', async (t) => {
  const log = await sold(t)
  const endless: Script = async (desk) => {
    for (;;) await desk.sleep(0)
  }
  const rehearsal = await rehearseRun(clerks(endless), { log, runId: 'one' })
  t.match(rehearsal.mismatches.at(-1), { kind: 'result', sentence: /busy without end/ })
  t.equal(rehearsal.result.success, false)
})

t.test('an agent that was removed is named', async (t) => {
  const log = await sold(t)
  const { agents, ...rest } = clerks()
  const rehearsal = await rehearseRun({ ...rest, agents: agents.slice(0, 1) }, { log, runId: 'one' })
  t.ok(inShort(rehearsal).includes('missing agent bob'), inShort(rehearsal).join())
  t.match(rehearsal.result, { success: false })
})

t.test('a log of another team is played, and all differences are told', async (t) => {
  const log = await sold(t)
  const alone: MultiAgentPatternOptions = {
    agents: [{ name: 'greeter' }],
    orchestration: { strategy: 'sequential' },
  }
  const greeter = defineAgent({ receive: (message) => `hello, ${message.content}` })
  const rehearsal = await rehearseRun(alone, { log, runId: 'one', modules: { greeter } })
  t.match(rehearsal.result, { success: true, finalOutput: 'hello, tea' })
  t.same(inShort(rehearsal).sort(), [
    'changed result $orchestrator $user',
    'missing agent ann',
    'missing agent bob',
    'new message greeter $orchestrator',
  ])
})

t.test('agents begin with what earlier runs have left in them', async (t) => {
  const log = join(folderOf(t), 'log')
  const reply = { reply: 'tea' }
  const team = shop(t, log, clerks(), [reply, reply, reply, reply])
  for (const runId of ['zero', 'one']) await served(team.launch('tea', { runId }))
  await team.close()
  t.same((await rehearseRun(clerks(), { log, runId: 'zero' })).mismatches, [])
  t.same((await rehearseRun(clerks(), { log, runId: 'one' })).mismatches, [])
})

t.test('a run that is open is played as far as its log goes', async (t) => {
  const log = join(folderOf(t), 'log')
  const team = shop(t, log)
  const run = team.launch('tea', { runId: 'one' })
  await first(run.events(), 'question')
  await team.flush()
  const rehearsal = await rehearseRun(clerks(), { log, runId: 'one' })
  t.same(rehearsal.before.status, 'unfinished')
  t.same(rehearsal.mismatches, [])
  t.match(rehearsal.result.error, { code: 'RUN_ABORTED', message: /the log has no more of the run/ })
  t.same(inShort(await withChanged(log, { prompt: 'Sell' })), ['changed model ann default'])
  t.equal((await served(run)).success, true)
})

t.test('a run that waited for a person over a restart is played without the time between', async (t) => {
  const log = join(folderOf(t), 'log')
  const options = { ...clerks(), globalTimeoutMs: 60_000 }
  const before = shop(t, log, options)
  await bothAsk(before.launch('tea', { runId: 'one' }))
  await before.close()
  const after = shop(t, log, options)
  await after.start()
  t.equal((await served(after.getRun('one')!)).success, true)
  await after.close()
  const rehearsal = await rehearseRun(options, { log, runId: 'one' })
  t.same(rehearsal.mismatches, [])
  t.equal(rehearsal.result.success, true)
})

/** Waits until both agents ask a person. */
async function bothAsk(run: Run<unknown>): Promise<void> {
  let asked = 0
  for await (const _ of run.events({ types: ['question'] })) {
    asked += 1
    if (asked === 2) return
  }
}

t.test('a run that its caller aborted ends where it was aborted', async (t) => {
  const log = join(folderOf(t), 'log')
  const team = shop(t, log)
  const run = team.launch('tea', { runId: 'one' })
  await first(run.events(), 'question')
  await run.cancel('it took too long')
  await team.close()
  const rehearsal = await rehearseRun(clerks(), { log, runId: 'one' })
  t.equal(rehearsal.before.status, 'aborted')
  t.same(rehearsal.mismatches, [])
})

t.test('messages from outside come again, and so do tasks, sync points and handoffs', async (t) => {
  const log = join(folderOf(t), 'log')
  const many: Script = async (desk) => {
    for (const task of ['steps page', 'once page', 'give', 'pass']) await desk.request('ann', task)
    await Promise.all(['ann', 'bob'].map((agent) => desk.request(agent, 'meet')))
    const [asked] = [await desk.request('bob', 'ask sure')]
    return asked.content
  }
  const more = { syncPoints: [{ name: 'noon', requiredAgents: ['ann', 'bob'], timeoutMs: 60_000 }] }
  const team = deskOf(t, log, many, more)
  const run = team.launch('go', { runId: 'one' })
  const { questionId } = await first(run.events(), 'question')
  await team.sendMessage({ recipient: 'ann', content: 'remember me', runId: 'one', requiresResponse: true })
  await run.answer(questionId, 'yes')
  const { messageHistory } = await run.result
  await team.close()
  const { default: desk } = await import('../fixtures/durability/desk-agent.ts')
  const options: MultiAgentPatternOptions = {
    agents: [{ name: 'ann' }, { name: 'bob' }],
    orchestration: { strategy: 'custom', name: 'a desk', run: many },
    ...more,
  }
  const rehearsal = await rehearseRun(options, { log, runId: 'one', modules: { ann: desk, bob: desk } })
  t.same(inShort(rehearsal), [])
  t.equal(rehearsal.result.messageHistory.length, messageHistory.length)
})

t.test('a run is played with its schema, given again or from the log', async (t) => {
  const log = join(folderOf(t), 'log')
  const output = z.object({ euros: z.number() })
  const options: MultiAgentPatternOptions = {
    agents: [{ name: 'teller', systemPrompt: 'Tell the price.' }],
    orchestration: { strategy: 'sequential' },
  }
  const team = shop(t, log, options, [{ reply: { euros: 3 } }])
  t.match(await team.execute('tea?', { runId: 'one', output }), { data: { euros: 3 } })
  await team.close()
  for (const given of [{ output }, {}]) {
    const { mismatches, result } = await rehearseRun(options, { log, runId: 'one', ...given })
    t.same(mismatches, [])
    t.same(result.data, { euros: 3 })
  }
})

t.test('an unknown run, a damaged log and a wrong plan are refused', async (t) => {
  const log = await sold(t)
  await t.rejects(rehearseRun(clerks(), { log, runId: 'on' }), { code: 'UNKNOWN_RUN', message: /Did you mean "one"/ })
  await t.rejects(rehearseRun(clerks(), { log: join(log, 'none'), runId: 'one' }), {
    code: 'CONFIGURATION',
    message: /^log: .*cannot be read/,
  })
  const wrong = { log, runId: 'one', run: 'one' } as OldRunPlan
  await t.rejects(rehearseRun(clerks(), wrong), { message: /there is no "run"; there are log, runId/ })
  await t.rejects(rehearseRun(clerks(), { log, runId: '' }), { message: /^runId: / })
  const file = join(log, readdirSync(log).find((name) => name.endsWith('.log'))!)
  const bytes = readFileSync(file)
  bytes.fill(0xff, 8, 16) // in the header of the segment
  writeFileSync(file, bytes)
  await t.rejects(rehearseRun(clerks(), { log, runId: 'one' }), { code: 'LOG_CORRUPT' })
})

t.test('approvals are answered as the person did then, with the input that the person gave', async (t) => {
  const paid: unknown[] = []
  const pay = defineTool({
    name: 'pay',
    description: 'Pays.',
    input: z.object({ euros: z.number() }),
    approval: true,
    run: (input) => void paid.push(input),
  })
  const options: MultiAgentPatternOptions = {
    agents: [{ name: 'ann', systemPrompt: 'Pay.', tools: [pay] }],
    logger: { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} },
    orchestration: { strategy: 'sequential' },
    models: {
      default: scriptedModel([
        { toolCall: { name: 'pay', input: { euros: 1 } } },
        { toolCall: { name: 'pay', input: { euros: 2 } } },
        { reply: 'done' },
      ]),
    },
  }
  const log = join(folderOf(t), 'log')
  const team = createTeam({ ...options, stateManagement: { path: log } })
  const run = team.launch('go', { runId: 'one' })
  for await (const event of run.events({ types: ['question', 'run.finished'] })) {
    if (event.type !== 'question') continue
    const isFirst = JSON.stringify(event.input) === '{"euros":1}'
    await run.answer(event.questionId, isFirst ? { approved: true, input: { euros: 10 } } : 'no')
  }
  await run.result
  await team.close()
  const rehearsal = await rehearseRun(options, { log, runId: 'one' })
  t.same(rehearsal.mismatches, [])
  t.equal(rehearsal.result.finalOutput, 'done')
  t.same(paid, [{ euros: 10 }])
})
