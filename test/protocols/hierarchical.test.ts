/** The strategy hierarchical: with agents of code, with models, on real threads. */
import t from 'tap'
import { textOf } from '../../src/actors/definition/content.ts'
import { type AgentMessage, createTeam, defineAgent, type MultiAgentResult } from '../../src/index.ts'
import { LedTasks } from '../../src/protocols/led-task.ts'
import { Manager } from '../../src/protocols/manager.ts'
import { HIERARCHICAL, speaking } from '../../src/protocols/prompts.ts'
import { CancelledError, RunTimeoutError } from '../../src/shared/errors.ts'
import { rehearsalModel, scriptedModel, testTeam } from '../../src/testing.ts'
import { FakeOrchestrator } from '../fixtures/fake-orchestrator.ts'
import { pluck } from '../kit/lists.ts'
import { calls } from '../models/fake-model.ts'
import { modelTeam } from '../models/teams.ts'
import { after, all, refuses, says, throws } from '../team/stage.ts'
import { asked, decisions, leads, led, play, type Told, task, toldOf, worker, works } from './led-team.ts'

// A manager that plans, and workers that do what it has planned, on the real runtime.

const high = { workerAutonomy: 'high' as const }

t.test('the manager plans, the workers do it, and the manager makes one answer', async (t) => {
  const boss = leads([task('ann', 'dig'), task('bob', 'fill')])
  const result = await play(t, { boss, ann: worker, bob: worker }, high)
  t.match(result, { success: true, finalOutput: 'ann: ann did dig; bob: bob did fill', failures: [] })
  t.same(asked(result), ['request boss plan', 'delegate ann dig', 'delegate bob fill', 'request boss summary'])
  t.same(decisions(result), ['Who does task 1? ann', 'Who does task 2? bob'])
  t.equal(result.orchestrationTrace.decisions[0]?.reason, 'The plan of "boss": dig')
})

t.test('tasks of the plan are delegations of the manager, in every view of them', async (t) => {
  const heard: string[] = []
  const ann = works(({ sender, content, metadata }, { role }) => {
    heard.push(sender)
    t.same(metadata, {})
    if (role.name === 'ann') throw new Error('no spade')
    return `did ${content}`
  })
  const boss = leads([task('ann', 'dig')], { reassign: () => ({ worker: 'bob' }) })
  const team = led(t, { boss, ann, bob: ann }, high)
  const pending = team.execute('the job')
  const events: string[] = []
  team.events.subscribe((event) => {
    if (event.type === 'message' && event.message.type === 'delegate') events.push(event.message.sender)
  })
  await team.clock.advance(100_000)
  const { messageHistory, orchestrationTrace } = await pending
  const given = messageHistory.filter(({ type }) => type === 'delegate')
  const flow = orchestrationTrace.messageFlow.filter(({ type }) => type === 'delegate')
  t.same(
    given.map(({ sender, recipient }) => [sender, recipient]),
    [
      ['boss', 'ann'],
      ['boss', 'bob'],
    ],
  )
  t.same(
    flow.map(({ from, to }) => [from, to]),
    [
      ['boss', 'ann'],
      ['boss', 'bob'],
    ],
  )
  t.same(
    [heard, events],
    [
      ['boss', 'boss'],
      ['boss', 'boss'],
    ],
  )
})

t.test('managerSummarizes: false joins the results under the names of their workers', async (t) => {
  const boss = leads([task('bob', 'dig'), task('ann', 'fill'), task('ann', 'rest')])
  const refusing = works(({ content }, context) => {
    if (content === 'rest') throw context.refuse('no time')
    return { holes: 1 }
  })
  const result = await play(t, { boss, ann: refusing, bob: worker }, { ...high, managerSummarizes: false })
  t.equal(
    result.finalOutput,
    '## bob\n\nbob did dig\n\n## ann\n\n{"holes":1}\n\n## ann\n\n(not done: Agent "ann" refused: no time)',
  )
  t.notOk(asked(result).includes('request boss summary'))
})

t.test('the manager is told of its workers and of the job, in words and as data', async (t) => {
  const heard: AgentMessage[] = []
  const boss = leads([], {
    plan: (_told, message) => {
      heard.push(message)
      return { tasks: [] }
    },
  })
  await play(t, { boss, ann: { code: worker, description: 'digs', capabilities: ['spade'] }, bob: worker })
  t.match(heard[0]?.content, /# Job\n\nthe job\n\n# Workers\n\n- ann: digs; can do: spade\n- bob$/)
  t.strictSame(heard[0] && toldOf(heard[0]), { step: 'plan', query: 'the job', workers: ['ann', 'bob'] })
  const { answerSchema } = heard[0]?.metadata ?? {}
  t.match(answerSchema, { properties: { tasks: { items: { properties: { worker: { enum: ['ann', 'bob'] } } } } } })
})

t.test('a task begins when those before it are done, with their results; the others at once', async (t) => {
  const starts: string[] = []
  const slow = works(async ({ content }, context) => {
    starts.push(`${context.now() - begin} ${content}`)
    await context.sleep(100)
    return `${context.role.name} is done`
  })
  const boss = leads([task('ann', 'third', 2, 3), task('bob', 'first'), task('cat', 'second'), task('dan', 'last', 1)])
  const team = led(t, { boss, ann: slow, bob: slow, cat: slow, dan: slow }, high)
  const begin = team.clock.now()
  const pending = team.execute('the job')
  await team.clock.advance(100_000)
  const result = await pending
  t.same(starts, [
    '0 first',
    '0 second',
    '100 third\n\n# Results of earlier tasks\n\n## bob\n\nbob is done\n\n## cat\n\ncat is done',
    '200 last\n\n# Results of earlier tasks\n\n## ann\n\nann is done',
  ])
  const tasks = new Map(result.messageHistory.filter(({ type }) => type === 'delegate').map((m) => [m.recipient, m]))
  const [planned] = result.messageHistory.filter(({ recipient }) => recipient === 'boss')
  for (const { structuredData } of tasks.values()) t.match(structuredData, { parentTask: planned?.id })
  t.match(tasks.get('ann')?.structuredData, { dependencies: [tasks.get('bob')?.id, tasks.get('cat')?.id] })
})

t.test('a manager that answers without a plan has done the work itself', async (t) => {
  const answers: [unknown, string][] = [
    ['I did it, [as] ever', 'I did it, [as] ever'],
    [{ answer: 42 }, '{"answer":42}'],
    ['42', '42'],
  ]
  for (const [answer, finalOutput] of answers) {
    const result = await play(t, { boss: leads([], { plan: () => answer }), ann: worker })
    t.match(result, { success: true, finalOutput })
    t.same(asked(result), ['request boss plan'])
    t.match(result.orchestrationTrace.decisions, [
      { question: 'Who does the work?', choice: 'boss', reason: 'It has answered without a plan.' },
    ])
  }
})

t.test('a manager whose plan has no tasks is asked for the answer', async (t) => {
  const boss = leads([], { plan: () => ({ tasks: [], reasoning: 'It is small.' }) })
  const result = await play(t, { boss, ann: worker })
  t.equal(result.finalOutput, 'the job by itself')
  t.same(asked(result), ['request boss plan', 'request boss alone'])
  t.match(result.orchestrationTrace.decisions, [{ choice: 'boss', reason: 'Its plan has no tasks. It is small.' }])
})

t.test('a manager of code can delegate by itself', async (t) => {
  const boss = defineAgent({
    async receive({ content }, context) {
      return `${(await context.delegate('ann', content.split('\n').at(-3)!)).result}`
    },
  })
  const result = await play(t, { boss, ann: worker })
  t.equal(result.finalOutput, 'ann did # Workers')
  t.match(
    result.messageHistory.find(({ type }) => type === 'delegate'),
    { sender: 'boss', recipient: 'ann' },
  )
})

t.test('tasks of the plan are given by the manager, and answered to it, in every view of the run', async (t) => {
  const ann = works(async (_message, context) => {
    await context.handoff('bob', 'dig on')
    return ''
  })
  const late = { communication: { responseTimeoutMs: 1_000 }, code: after(50_000) }
  const boss = leads([task('ann', 'dig'), task('cleo', 'plant'), task('late', 'wait'), task('wild', 'shout')])
  const wild = throws('no')
  const team = led(t, { boss, ann, bob: worker, cleo: worker, late, wild }, { workerAutonomy: 'high' })
  const run = team.launch('the job')
  await team.clock.advance(100_000)
  const { messageHistory, orchestrationTrace } = await run.result
  const given = messageHistory.filter(({ type, sender }) => type === 'delegate' && sender === 'boss')
  t.same(pluck(given, 'recipient'), ['ann', 'cleo', 'late', 'wild'])
  const answers = messageHistory.filter(({ sender, type }) => type === 'response' && sender !== 'boss')
  const toScript = answers.filter(({ recipient }) => recipient !== 'ann' && recipient !== '$user')
  t.same(pluck(toScript, 'sender').sort(), ['bob', 'cleo', 'late', 'wild'])
  const ids = new Set(pluck(toScript, 'id'))
  const { messageFlow, events } = orchestrationTrace
  const heard = await all(run.events({ types: ['message'] }))
  const views = {
    history: pluck(toScript, 'recipient'),
    flow: messageFlow.flatMap(({ messageId, to }) => (ids.has(messageId) ? to : [])),
    trace: events.flatMap(({ eventType, details }) => {
      const { messageId, to } = Object(details)
      return eventType === 'message' && ids.has(messageId) ? to : []
    }),
    events: heard.flatMap((event) =>
      event.type === 'message' && ids.has(event.message.id) ? event.message.recipient : [],
    ),
  }
  for (const [view, recipients] of Object.entries(views)) t.same(recipients, ['boss', 'boss', 'boss', 'boss'], view)
  const own = team.getAgent('boss')?.getMessageHistory() ?? []
  t.equal(own.filter(({ id }) => ids.has(id)).length, 4, 'they are in the history of the manager')
})

t.test('a plan that cannot be used is sent back once, with what is wrong', async (t) => {
  const wrong: [unknown, RegExp][] = [
    [[task('zoe', 'dig')], /tasks\.0\.worker: .*ann/],
    [[task('boss', 'dig')], /tasks\.0\.worker: .*ann/],
    [[task('ann', '')], /tasks\.0\.task: /],
    [Array.from({ length: 10_000 }, () => task('ann', 'dig')), /tasks: .*100/],
    ['dig', /tasks: /],
    [[{ worker: 'ann', task: 'dig', dependsOn: ['first'] }], /tasks\.0\.dependsOn\.0: /],
  ]
  for (const [tasks, issue] of wrong) {
    const heard: string[] = []
    const plan =
      (better: unknown) =>
      (_told: Told, { content }: AgentMessage) => {
        heard.push(content)
        return { tasks: heard.length === 1 ? tasks : better }
      }
    const cast = { boss: leads([], { plan: plan([task('ann', 'dig')]) }), ann: worker }
    t.match(await play(t, cast, high), { finalOutput: 'ann: ann did dig' })
    t.match(heard[1], issue)

    heard.length = 0
    const hopeless = await play(t, { ...cast, boss: leads([], { plan: plan(tasks) }) }, high)
    t.match(hopeless, { success: false, error: { code: 'REPLY_INVALID', message: issue } })
    t.equal(heard.length, 2)
    t.same(
      asked(hopeless).filter((what) => what.startsWith('delegate')),
      [],
    )
  }
})

t.test('dependencies that cannot be met are left out, and the trace says which', async (t) => {
  const boss = leads([
    task('ann', 'one', 3),
    task('ann', 'two', 1, 2, 99),
    task('ann', 'three', 2),
    task('ann', 'four', 1),
  ])
  const result = await play(t, { boss, ann: worker }, { ...high, managerSummarizes: false })
  t.match(result, { success: true })
  const order = asked(result).flatMap((what) => what.match(/^delegate ann (\w+)/)?.[1] ?? [])
  t.same(order, ['two', 'three', 'one', 'four'])
  t.match(result.orchestrationTrace.decisions[0], {
    question: 'How many dependencies of the plan are left out?',
    choice: '3',
    reason: /^They close a circle, or name no task of the plan: 2 on 1, 2 on 2, 2 on 99\.$/,
  })
})

t.test('a plan may have a hundred tasks, each behind the one before', async (t) => {
  const boss = leads(Array.from({ length: 100 }, (_, at) => task('ann', `part ${at}`, ...(at === 0 ? [] : [at]))))
  const result = await play(t, { boss, ann: worker }, high)
  t.match(result, { success: true, finalOutput: /ann did part 99$/ })
})

t.test('a task that fails is given to somebody else once, by the manager, and is in the failures', async (t) => {
  const heard: Told[] = []
  const boss = leads([task('ann', 'dig'), task('bob', 'fill')], {
    reassign: (told) => {
      heard.push(told)
      return { worker: 'bob', remarks: 'Use the spade.' }
    },
  })
  const result = await play(t, { boss, ann: refuses('my back'), bob: worker }, high)
  t.equal(result.finalOutput, 'bob: bob did dig; bob: bob did fill')
  t.match(heard, [{ worker: 'ann', task: 'dig', error: { code: 'TASK_REFUSED', message: 'my back' } }])
  t.match(result.failures, [{ agent: 'ann', error: { code: 'TASK_REFUSED' } }])
  t.ok(asked(result).includes('delegate bob dig\n\n# Remarks of your manager\n\nUse the spade.'))
  t.match(result.orchestrationTrace.decisions.at(-1), {
    question: 'Who does task 1, which "ann" has not done?',
    choice: 'bob',
    reason: '"boss" says so. TASK_REFUSED: Agent "ann" refused: my back',
  })
})

t.test('a worker that refuses everything gets each task twice at most', async (t) => {
  for (const workerAutonomy of ['low', 'medium', 'high'] as const) {
    const boss = leads([task('ann', 'dig'), task('ann', 'fill')], { reassign: () => ({ worker: 'ann' }) })
    const result = await play(t, { boss, ann: refuses() }, { workerAutonomy })
    t.match(result.error, { code: 'AGENT_FAILED', message: /^None of the 2 tasks was done\. "ann": TASK_REFUSED: / })
    t.equal(asked(result).filter((what) => / ann /.test(what)).length, 4)
    t.equal(result.failures.length, 4)
  }
})

t.test('when nothing is done the run fails: with the only error, or with one that names all', async (t) => {
  const alone = await play(t, { boss: leads([task('ann', 'dig')]), ann: throws('broken') }, high)
  t.match(alone.error, { code: 'AGENT_FAILED', message: /broken/ })
  const boss = leads([task('ann', 'dig'), task('bob', 'fill')])
  const both = await play(t, { boss, ann: throws('broken'), bob: refuses('not mine') }, high)
  t.match(both.error, {
    message: /^None of the 2 tasks was done\. "ann": AGENT_FAILED: .*broken.*; "bob": TASK_REFUSED: .*not mine/,
    details: { failures: [{ agent: 'ann' }, { agent: 'bob', code: 'TASK_REFUSED' }] },
  })
  t.notOk(asked(both).includes('request boss summary'))
})

t.test('who depends on what was not done is told so, and so is the manager', async (t) => {
  const heard: Told[] = []
  const summary = (told: Told) => {
    heard.push(told)
    return 'half of it'
  }
  const boss = leads([task('ann', 'dig'), task('bob', 'fill', 1)], { summary })
  const result = await play(t, { boss, ann: refuses('my back'), bob: worker }, high)
  t.equal(result.finalOutput, 'half of it')
  t.match(result.orchestrationTrace.decisions[1], {
    choice: 'nobody',
    reason: /^"boss" goes on without\. TASK_REFUSED/,
  })
  t.ok(
    asked(result).includes(
      'delegate bob fill\n\n# Results of earlier tasks\n\n## ann\n\n(not done: Agent "ann" refused: my back)',
    ),
  )
  t.match(heard[0]?.results, [
    { agent: 'ann', task: 'dig', ok: false, result: null, error: { code: 'TASK_REFUSED' } },
    { agent: 'bob', task: 'fill', ok: true, result: /^bob did fill/, error: null },
  ])
})

t.test('a manager that nobody understands approves nothing, and what is done stays done', async (t) => {
  const reasonsOf = ({ orchestrationTrace }: MultiAgentResult) =>
    orchestrationTrace.decisions.flatMap(({ choice, reason }) =>
      reason.includes('could not say') ? `${choice}: ${reason}` : [],
    )
  const nonsense = { approve: () => 'hm', review: () => ({ approved: 'maybe' }), reassign: () => ({ worker: 'zoe' }) }
  const cast = { boss: leads([task('ann', 'dig')], nonsense), ann: worker }

  const gated = await play(t, cast)
  t.match(gated.error, { code: 'REPLY_INVALID', message: /"boss" cannot be used/ })
  t.match(reasonsOf(gated), [/^nobody: "boss" could not say\. .*"boss" cannot be used: worker/])
  t.notOk(asked(gated).some((what) => what.startsWith('delegate')))

  const reviewed = await play(t, cast, { workerAutonomy: 'medium' })
  t.match(reviewed, { success: true, finalOutput: 'ann: ann did dig' })
  t.match(reasonsOf(reviewed), [/^yes: "boss" could not say\. .*"boss" cannot be used: approved/])
})

t.test('only those get tasks to whom the roles let the manager give some', async (t) => {
  const boss = { code: leads([task('ann', 'dig')]), canDelegateTo: ['ann', 'cat'] }
  const cast = { boss, ann: worker, bob: worker, cat: { code: worker, canBeDelegatedTo: false } }
  const result = await play(t, cast, high)
  t.equal(result.finalOutput, 'ann: ann did dig')
  t.match(result.orchestrationTrace.decisions[0], {
    question: 'To whom may "boss" give tasks?',
    choice: 'ann',
    reason: /^Not to "bob", "cat": the roles forbid it/,
  })
  t.match(toldOf(result.messageHistory.find(({ recipient }) => recipient === 'boss')!), { workers: ['ann'] })
  for (const role of [{ canDelegateTo: [] }, { delegationAllowed: false }, { trust: 'untrusted' as const }]) {
    const { error } = await play(t, { ann: worker, boss: { code: boss.code, ...role } }, high)
    t.match(error, {
      code: 'DELEGATION_REFUSED',
      message: /^"boss" may give tasks to none of its workers, not to "ann"/,
    })
  }
})

t.test('the end of the run is no failure of its workers', async (t) => {
  const boss = leads([task('ann', 'dig')], { reassign: () => ({ worker: 'ann' }) })
  for (const workerAutonomy of ['low', 'high'] as const) {
    const never = defineAgent({ receive: (_message, context) => context.sleep(1e6).then(() => '') })
    const team = led(t, { boss, ann: never }, { workerAutonomy })
    const run = team.launch('the job', { timeoutMs: 50 })
    await team.clock.advance(100_000)
    const result = await run.result
    t.match(result.error, { code: 'RUN_TIMEOUT' })
    t.notOk(asked(result).some((what) => what.includes('reassign')))
    t.notOk(decisions(result).some((what) => what.includes('nobody')))
  }
})

t.test('when a run ends in a task nobody is asked about that task', async (t) => {
  const ended = new RunTimeoutError('too long')
  const fake = new FakeOrchestrator({ boss: { structuredData: { worker: 'ann' } }, ann: '' })
  const orchestrator = {
    ...fake.context,
    delegate() {
      fake.run.abort(ended)
      const task = Promise.reject<never>(new CancelledError('torn down'))
      return Object.assign(task, { id: Promise.resolve('torn') })
    },
  }
  const say = speaking(HIERARCHICAL, undefined)
  const led = new LedTasks(orchestrator, new Manager(orchestrator, 'boss', fake.context.agents, '', say), 'high', say)
  await t.rejects(led.run({ number: 1, worker: 'ann', task: 'dig', parentTask: null, earlier: [] }), ended)
  t.same(fake.order, [])
})

t.test('its texts can be replaced', async (t) => {
  const prompts = { task: 'Do this: {task}', plan: 'Plan {query} for {workers}' }
  const result = await play(t, { boss: leads([task('ann', 'dig')]), ann: worker }, { ...high, prompts })
  t.ok(asked(result).includes('delegate ann Do this: dig'))
  t.equal(result.messageHistory.find(({ recipient }) => recipient === 'boss')?.content, 'Plan the job for - ann')
})

t.test('a manager that fails fails the run', async (t) => {
  t.match((await play(t, { boss: throws('on leave'), ann: worker })).error, {
    code: 'AGENT_FAILED',
    message: /on leave/,
  })
  t.match((await play(t, { boss: refuses('not today'), ann: says('') })).error, { code: 'TASK_REFUSED' })
})

// The strategy hierarchical with roles that models play: programs of the source documents, and long plans.

/** Document 002, 5.2. */
const developers = [
  {
    name: 'project_manager',
    description: 'Coordinates the team and synthesizes results',
    systemPrompt: 'You manage a team of specialists. Delegate appropriately.',
    capabilities: ['coordination', 'synthesis'],
  },
  { name: 'frontend_dev', systemPrompt: 'You are a frontend specialist.', capabilities: ['frontend', 'react', 'css'] },
  { name: 'backend_dev', systemPrompt: 'You are a backend specialist.', capabilities: ['backend', 'python', 'api'] },
]
const development = {
  strategy: 'hierarchical' as const,
  manager: 'project_manager',
  workers: ['frontend_dev', 'backend_dev'],
  managerSummarizes: true,
}
const JOB = 'Add a user profile page with API endpoint'

t.test('a manager with two developers, as a script says', async (t) => {
  const tasks = [
    { worker: 'backend_dev', task: 'Write GET /profile.', dependsOn: [] },
    { worker: 'frontend_dev', task: 'Write the page.', dependsOn: [1] },
  ]
  const approved = { approved: true, remarks: '' }
  const model = scriptedModel([
    { agent: 'project_manager', when: /# Job\n\nAdd a user/, reply: { tasks, reasoning: 'The page needs the API.' } },
    { agent: 'backend_dev', when: /Do not do it yet/, reply: 'In one file.' },
    { agent: 'project_manager', when: /# Proposal\n\nIn one file\./, reply: { approved: false, remarks: 'In two.' } },
    {
      agent: 'backend_dev',
      when: /^Write GET.*In one file\..*manager\n\nIn two\.$/s,
      reply: 'GET /profile is there.',
    },
    { agent: 'project_manager', when: /# Result\n\nGET \/profile is there\./, reply: approved },
    { agent: 'frontend_dev', when: /GET \/profile is there/, reply: 'In React.' },
    { agent: 'project_manager', when: /# Proposal\n\nIn React\./, reply: approved },
    { agent: 'frontend_dev', when: /^Write the page/, reply: 'The page is there.' },
    { agent: 'project_manager', when: /# Result\n\nThe page/, reply: approved },
    { agent: 'project_manager', when: /# Results\n\n## backend_dev/, reply: 'Both are there.' },
  ])
  const team = testTeam({ agents: developers, orchestration: development }, { model })
  t.teardown(() => team.close())
  const result = await team.execute(JOB)
  t.match(result, { success: true, finalOutput: 'Both are there.', failures: [] })
  model.assertDone()
})

t.test('the same without a key, whatever the rehearsal model plans', async (t) => {
  for (let seed = 1; seed <= 20; seed++) {
    const team = testTeam({ agents: developers, orchestration: development }, { model: rehearsalModel(seed) })
    t.teardown(() => team.close())
    const pending = team.execute(JOB)
    await team.clock.advance(1_000_000)
    const result = await pending
    t.match(result, { success: true, finalOutput: /^\[rehearsal\]/, rehearsed: true }, `seed ${seed}`)
  }
})

/** Document 003: the registry lets the orchestrator delegate, and the executor not. */
const desk = [
  { name: 'orchestrator', canDelegateTo: ['task_executor'] },
  { name: 'task_executor', canDelegateTo: [] },
]
const deskWork = { strategy: 'hierarchical' as const, manager: 'orchestrator', workers: ['task_executor'] }

t.test('an orchestrator with an executor, by a plan or by its tool', async (t) => {
  const team = testTeam({ agents: desk, orchestration: deskWork }, { model: rehearsalModel() })
  t.teardown(() => team.close())
  t.match(await team.execute('Add a test.'), { success: true, rehearsed: true })

  const answers = [
    calls(['delegate', { to: 'task_executor', task: 'Test it.' }]),
    'Tested.',
    '{"tasks":[]}',
    'It is tested.',
  ]
  const { team: other, model } = modelTeam(t, answers, desk, { orchestration: deskWork })
  const result = await other.execute('Add a test.')
  t.equal(result.finalOutput, 'It is tested.')
  t.same(asked(result), ['request orchestrator plan', 'delegate task_executor Test it.', 'request orchestrator alone'])
  t.match(model.requests.at(-1)?.messages.at(-2)?.content, '{"tasks":[]}')
})

t.test('what a worker says by its tool is known to the manager when it makes the answer', async (t) => {
  const answers = [
    '{"tasks":[{"worker":"ann","task":"Dig."}]}',
    calls(['report', { content: 'One foot deep.' }]),
    'A hole.',
    'There is a hole.',
  ]
  const orchestration = { strategy: 'hierarchical' as const, manager: 'boss', workers: ['ann'] }
  const { team, model } = modelTeam(t, answers, [{ name: 'boss' }, { name: 'ann' }], {
    orchestration: { ...orchestration, workerAutonomy: 'high' },
  })
  t.equal((await team.execute('Make a hole.')).finalOutput, 'There is a hole.')
  t.match(model.requests[2]?.messages.at(-1), { role: 'tool', content: 'Your manager has it.' })
  t.match(model.requests[3]?.messages.at(-2), { content: 'Report from "ann":\nOne foot deep.' })
})

t.test('a long plan whose verdicts are all the same is no livelock', async (t) => {
  const tasks = Array.from({ length: 30 }, (_, at) => ({
    worker: at % 2 ? 'ann' : 'bob',
    task: `Dig hole ${at}.`,
    dependsOn: at ? [at] : [],
  }))
  const { team } = modelTeam(
    t,
    ({ agent, messages, jsonSchema }) => {
      if (agent !== 'boss') return 'Done.'
      if (!jsonSchema) return 'All done.'
      return textOf(messages.at(-1)?.content ?? '').startsWith('Plan') ? JSON.stringify({ tasks }) : '{"approved":true}'
    },
    [{ name: 'boss' }, { name: 'ann' }, { name: 'bob' }],
    { orchestration: { strategy: 'hierarchical', manager: 'boss', workers: ['ann', 'bob'] } },
  )
  const pending = team.execute('Dig.')
  await team.clock.advance(1_000_000)
  t.match(await pending, { success: true, finalOutput: 'All done.' })
})

// The strategy hierarchical on real threads.

const module = (name: string) => new URL(`../fixtures/team/${name}.js`, import.meta.url)

t.test('a manager and workers on threads, of which one dies in the middle of each task', async (t) => {
  const team = createTeam({
    agents: [
      { name: 'lead', module: module('lead') },
      { name: 'ann', module: module('digger'), data: { dies: true } },
      { name: 'bob', module: module('digger'), data: {} },
    ],
    orchestration: { strategy: 'hierarchical', manager: 'lead', workers: ['ann', 'bob'] },
    supervision: { backoff: { baseMs: 0 } },
    logger: { debug() {}, info() {}, warn() {}, error() {} },
  })
  t.teardown(() => team.close())
  const { finalOutput, failures, taskCompletion } = await team.execute('the job')
  t.same(finalOutput?.split('\n'), [
    'ann reports: Well, ann.',
    'ann reports: Well, ann.',
    'bob reports: Well, bob.',
    'bob reports: Well, bob.',
    'ann: done by attempt 2, workerAutonomy is 1',
    'bob: done by attempt 1, workerAutonomy is 1',
  ])
  t.same(
    failures.map(({ error }) => error.code),
    Array(4).fill('DELEGATION_REFUSED'),
  )
  const fates = Object.values(taskCompletion)
  t.equal(fates.filter((fate) => fate === 'refused').length, 4)
  t.equal(fates.filter((fate) => fate === 'completed').length, fates.length - 4)
})
