/** Old runs with the code of today: by `rehearseRun` and `dramatis rehearse --from`. */
import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { z } from 'zod'
import { textOf } from '../../src/actors/definition/content.ts'
import {
  createTeam,
  defineAgent,
  defineTool,
  type ModelClient,
  type MultiAgentPatternOptions,
  type Run,
} from '../../src/index.ts'
import { type OldRunPlan, type OldRunRehearsal, rehearseRun, scriptedModel } from '../../src/testing.ts'
import { deskOf, first, type Script } from '../durability/desk-team.ts'
import { folderOf } from '../durability/log-folders.ts'
import type { Changed } from '../fixtures/old-runs/clerk.ts'
import { howMany } from '../how-many.ts'
import { gate, silent } from '../kit/team.ts'
import { clerks, effects, priced, sells, served, shop } from './clerk-team.ts'
import { logged, type Report, rehearsed } from './shop-logs.ts'

// `rehearseRun`: an old run with the code of today, and the answers that the world outside gave then.

/** Logs of a run of the shop, by the answer of the person. */
const played = new Map<string, Promise<string>>()

async function play(answer: string): Promise<string> {
  const log = join(folderOf(t), 'log')
  const team = shop(t, log)
  await served(team.launch('tea', { runId: 'one' }), answer, 2) // else one "no" ends the run before the other asks
  await team.close()
  return log
}

/** Gives the folder of a log with a run of the shop: it is played once, and copied for each test. */
async function sold(t: Test, answer = 'yes'): Promise<string> {
  if (!played.has(answer)) played.set(answer, play(answer))
  const log = join(folderOf(t), 'log')
  cpSync(await played.get(answer)!, log, { recursive: true })
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

t.test('what people said to a run while it worked is said again', async (t) => {
  const log = join(folderOf(t), 'log')
  let run: Run | undefined
  const picture = { type: 'image' as const, mediaType: 'image/png', data: 'data:image/png;base64,AAAA' }
  const says = (id: string) => run?.steer([{ type: 'text', text: `In ${id}.` }, picture], { id, by: { id: 'zoe' } })
  const options = (
    steer: (id: string) => Promise<unknown> | undefined = async () => {},
    answer = async (_nth: number) => 'nothing',
  ): MultiAgentPatternOptions => {
    let [calls, checks] = [0, 0]
    const model: ModelClient = {
      offline: true,
      async *complete() {
        yield { text: await answer(calls++) }
      },
    }
    const check = async () => void (checks++ === 0 && (await steer('yards')))
    return {
      agents: [
        { name: 'ann' },
        { name: 'cody', module: new URL('../fixtures/old-runs/listener.js', import.meta.url) },
        { name: 'eve' },
      ],
      orchestration: { strategy: 'sequential' },
      models: { default: model },
      guardrails: { output: [{ name: 'slow', check }] },
      logger: silent,
    }
  }
  const answer = async (nth: number) => {
    if (nth === 0) await says('metres')
    return `answer ${nth}`
  }
  const team = createTeam({ ...options(says, answer), stateManagement: { path: log } })
  run = team.launch('How long?', { runId: 'one' })
  const { finalOutput, messageHistory } = await run.result
  t.equal(finalOutput, 'answer 2', 'eve was asked again for what came behind her answer')
  await team.close()
  const { result, mismatches } = await rehearseRun(options(), { log, runId: 'one' })
  t.same(mismatches, [])
  t.equal(result.finalOutput, finalOutput)
  const saidBy = (name: string, history = result.messageHistory) =>
    history.filter(({ sender }) => sender === name).map(({ content }) => content)
  t.same(saidBy('cody'), ['In metres. text image'])
  for (const name of ['ann', 'cody', 'eve', '$user']) t.same(saidBy(name), saidBy(name, messageHistory))
})

t.test('runs of a thread that is handed on are the same, whoever had it, and whatever was cut or said', async (t) => {
  const log = join(folderOf(t), 'log')
  let run: Run | undefined
  const asked = gate()
  const client = (act: (text: string) => Promise<unknown> | undefined): ModelClient => ({
    offline: true,
    async *complete({ agent, messages }) {
      const text = textOf(messages.findLast(({ role }) => role === 'user')!.content)
      await act(text)
      if (agent === 'triage' && /invoice/.test(text))
        yield { toolCall: { id: `c${messages.length}`, name: 'handoff', input: '{"to":"billing","task":"Check it."}' } }
      else yield { text: `${agent} has read ${messages.length}` }
    },
  })
  const options = (act: Parameters<typeof client>[0] = () => undefined): MultiAgentPatternOptions => ({
    agents: [
      { name: 'triage', canHandoffTo: ['billing'] },
      { name: 'billing', canHandoffTo: ['triage'] },
    ],
    orchestration: { strategy: 'handoff', start: 'triage' },
    models: { default: client(act) },
    logger: silent,
  })
  const live = (text: string) => {
    if (/wait/.test(text)) asked.open()
    if (/wait/.test(text)) return new Promise(() => {})
    return /say/.test(text) && run?.steers.length === 0 ? run.steer('On my invoice.', { when: 'interrupt' }) : undefined
  }
  const team = createTeam({ ...options(live), stateManagement: { path: log } })
  const asks = async (runId: string, query: string, threadId: string) => {
    run = team.launch(query, { runId, threadId })
    if (query === 'wait') {
      await asked.opened
      await run.cancel('no more')
    }
    return (await run.result).speaker
  }
  t.equal(await asks('first', 'My invoice is wrong.', 'ann'), 'billing')
  t.equal(await asks('second', 'And now?', 'ann'), 'billing')
  await asks('cut', 'wait', 'bob')
  t.equal(await asks('behind the cut', 'hello again', 'bob'), 'triage')
  t.equal(await asks('said', 'say it', 'cid'), 'billing', 'words of a person have it handed on')
  await team.close()
  for (const runId of ['first', 'second', 'behind the cut', 'said']) {
    const { mismatches, result, before } = await rehearseRun(options(), { log, runId })
    t.same(mismatches, [], runId)
    t.equal(result.finalOutput, before.finalOutput)
  }
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

// `dramatis rehearse --from`: old runs as a check of the code of today.

t.test('all runs of a log are played, and are the same with the same code', async (t) => {
  const log = await logged(t, { one: 'yes', two: 'no', three: 'yes' })
  const { code, stdout, stderr } = await rehearsed(['--from', 'all', '--log', log])
  t.equal(stderr, '')
  t.equal(stdout, '3 runs\n\nsame        3\ndifferent   0\nnot played  0\n')
  t.equal(code, 0)
})

t.test('with changed code the differences of each run are told, and the exit code is 1', async (t) => {
  const log = await logged(t, { one: 'yes', two: 'no' })
  const { code, stdout } = await rehearsed(['--from', 'all', '--log', log], { lazy: true })
  t.equal(code, 1)
  t.match(stdout, /^2 runs\n\nsame {8}0\ndifferent {3}2\n/)
  t.match(stdout, /\none: 2 differences\n {2}then: finished: green tea for .*\n {2}now: {2}finished: green tea/)
  t.match(stdout, /\n {2}- what ann gives the tool "price" has changed in weight: it was 9, and is 0\n/)
  t.match(stdout, /\n {2}- ann no longer uses the tool "weigh"\n/)
  t.match(
    stdout,
    /\ntwo: 2 differences\n {2}then: failed: AGENT_FAILED: .*is not sold\n {2}now: {2}failed: AGENT_FAILED/,
  )
  t.match(stdout, /\nPlay the first of them alone:\n {2}npx dramatis rehearse \S+shop-team.js --from one --log \S+\n$/)
})

t.test('one run is shown with its diagram', async (t) => {
  const log = await logged(t, { one: 'yes', two: 'no' })
  const same = await rehearsed(['--from', 'two', '--log', log])
  t.match(same, { code: 0, stderr: /a run failed.*tea for two is not sold/ }) // what the team logs
  t.match(
    same.stdout,
    /^sequenceDiagram\n[\s\S]*\n\ntwo: the same as then\n {2}then: failed: .*\n {2}now: {2}failed: .*\n$/,
  )
  const other = await rehearsed(['--from', 'two', '--log', log], { ending: '!' })
  t.match(other, { code: 0 }, 'it never came to that')
  const changed = await rehearsed(['--from', 'one', '--log', log], { ending: '!' })
  t.match(changed, { code: 1, stdout: /the result of the run has changed in content: it was ".*", and is ".*!"/ })
})

// `dramatis rehearse --from`: which runs are played, and what is refused.

t.test('runs are selected by their ids, and by their status', async (t) => {
  const log = await logged(t, { one: 'yes', two: 'no', three: 'yes' })
  const ids = async (...args: string[]) => {
    const report: Report = JSON.parse((await rehearsed([...args, '--log', log, '--json'])).stdout)
    return report.results.map(({ runId }) => runId)
  }
  t.same(await ids('--from', 'three', '--from', 'one'), ['three', 'one'])
  t.same(await ids('--from', 'all', '--status', 'finished'), ['one', 'three'])
  t.match(await rehearsed(['--from', 'all', '--status', 'aborted', '--log', log]), {
    code: 0,
    stdout: '',
    stderr: 'No run of the log is aborted.\n',
  })
})

t.test('--json has everything that differs', async (t) => {
  const log = await logged(t, { one: 'yes' })
  const { code, stdout } = await rehearsed(['--from', 'one', '--log', log, '--json'], { step: 'greet' })
  t.equal(code, 1)
  const report: Report = JSON.parse(stdout)
  t.match(report, { runs: 1, same: 0, different: 1 })
  t.match(report.results[0], {
    runId: 'one',
    before: { status: 'finished' },
    now: { success: false, error: { code: 'STEP_MISMATCH' } },
    mismatches: [{ kind: 'step', how: 'new', agent: 'ann', name: 'greet' }],
    trace: { messageFlow: [] },
  })
})

t.test('a run that blocks its thread does not keep the others from being played', async (t) => {
  const log = await logged(t, { one: 'yes', loops: 'yes', two: 'yes' })
  const { code, stdout } = await rehearsed(['--from', 'all', '--log', log, '--seed-timeout', '2000'], {
    loopsAt: 'tea for loops',
  })
  t.equal(code, 1)
  t.match(stdout, /^3 runs\n\nsame {8}2\ndifferent {3}0\nnot played {2}1\n/)
  t.match(stdout, /\nloops: not played: AGENT_CRASHED: Run "loops" blocked its thread/)
})

t.test('options that do not go together are refused, and unknown runs and logs', async (t) => {
  const log = await logged(t, { one: 'yes' })
  const refused = async (args: readonly string[], stderr: RegExp) => t.match(await rehearsed(args), { code: 2, stderr })
  await refused(['--from', 'on', '--log', log], /UNKNOWN_RUN.*Did you mean "one"\?/)
  await refused(['--from', 'one'], /--from: which log\?/)
  await refused(['tea', '--from', 'one', '--log', log], /--from: an old run has its own query/)
  await refused(['--from', 'one', '--log', log, '--seeds', '3'], /--seeds: an old run is played once/)
  await refused(['--from', 'one', '--log', log, '--real-models'], /--real-models: an old run/)
  await refused(['--from', 'all', '--from', 'one', '--log', log], /"all" stands alone/)
  await refused(['--from', 'one', '--status', 'failed', '--log', log], /--status selects among --from all/)
  await refused(['tea', '--log', log], /--log: it is for old runs/)
  await refused(['--from', 'one', '--log', join(log, 'none')], /--log: .*cannot be read/)
  await refused([], /What is to be played\?/)
  const segment = join(log, readdirSync(log).find((name) => name.endsWith('.log'))!)
  const bytes = readFileSync(segment)
  bytes.fill(0xff, 8, 16) // in its header
  writeFileSync(segment, bytes)
  t.match(await rehearsed(['--from', 'all', '--log', log]), { code: 1, stdout: '', stderr: /LOG_CORRUPT/ })
})

// Old runs of all sorts come to the same with the same code: failures, deadlines, strategies with models.

const module = new URL('../fixtures/old-runs/worker.js', import.meta.url)

/** Runs each query of a team once, then once more from the log. Gives the answers. */
async function again(t: Test, options: MultiAgentPatternOptions, queries: readonly string[]): Promise<unknown[]> {
  const log = join(folderOf(t), 'log')
  const team = createTeam({ ...options, logger: silent, stateManagement: { path: log } })
  t.teardown(() => team.close())
  const answers: unknown[] = []
  for (const query of queries) {
    const result = await team.execute(query, { runId: query, threadId: 'same' })
    answers.push(result.success ? result.finalOutput : result.error.code)
  }
  await team.close()
  for (const [at, runId] of queries.entries()) {
    const { mismatches, result } = await rehearseRun({ ...options, logger: silent }, { log, runId })
    t.same(mismatches, [], runId)
    t.equal(result.success ? result.finalOutput : result.error.code, answers[at], runId)
  }
  return answers
}

t.test('steps within steps, caught errors, deadlines, crashes and new agents', async (t) => {
  process.env.WORKER_DIED = join(folderOf(t), 'died')
  const role = { module, env: ['WORKER_DIED'], trust: 'privileged' as const, data: module.href }
  const team: MultiAgentPatternOptions = {
    agents: [
      { name: 'ann', ...role },
      { name: 'bob', ...role },
    ],
    orchestration: {
      strategy: 'custom',
      name: 'work',
      run: async (desk, query) => (await desk.request('ann', query)).content,
    },
  }
  t.same(await again(t, team, ['outer', 'catches', 'late', 'makes', 'dies']), [
    'in',
    'RangeError: too far',
    'REQUEST_TIMEOUT',
    'in',
    'AGENT_CRASHED',
  ])
})

const strategies: MultiAgentPatternOptions['orchestration'][] = [
  { strategy: 'sequential' },
  { strategy: 'parallel' },
  { strategy: 'debate', debaters: ['ann', 'bob'], judge: 'cid' },
  { strategy: 'hierarchical', manager: 'ann', workers: ['bob', 'cid'] },
  { strategy: 'collaborate' },
  // one after the other: entries of the same moment have no order that a second run could have too
  { strategy: 'blackboard', interests: { ann: ['query'], bob: ['rehearsal.ann'], cid: ['rehearsal.bob'] } },
  { strategy: 'auction' },
  { strategy: 'consensus' },
]
for (const [at, orchestration] of strategies.entries()) {
  const queries = ['Should we sell tea?', 'And coffee?'].slice(0, at === 0 ? 2 : howMany(1, 2))
  const name = `${'strategy' in orchestration && orchestration.strategy}: ${queries.length} runs of one thread, with models`
  t.test(name, async (t) => {
    const agents = ['ann', 'bob', 'cid'].map((name) => ({
      name,
      systemPrompt: `You are ${name}.`,
      capabilities: [name],
    }))
    const enableBlackboard = 'strategy' in orchestration && orchestration.strategy === 'blackboard'
    const options: MultiAgentPatternOptions = { agents, orchestration, models: 'rehearsal', enableBlackboard }
    await again(t, options, queries)
  })
}
