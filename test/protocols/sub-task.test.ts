/** Document 001's queues: what workers are sent, with which keys, and what they answer. */
import t from 'tap'
import {
  type AgentDefinition,
  type AgentMessage,
  type AgentRole,
  defineAgent,
  type MultiAgentResult,
} from '../../src/index.ts'
import {
  type CollaborateConfig,
  type SubTask,
  type SubTaskResult,
  subTaskResultSchema,
  subTaskSchema,
} from '../../src/protocols.ts'
import { type Script, scriptedModel, testTeam } from '../../src/testing.ts'
import { silent } from '../kit/team.ts'
import { after, all, refuses, says, stage, type Test, throws } from '../team/stage.ts'
import { leads, led, play, task, works } from './led-team.ts'

// The messages of document 001's queues: what a worker is sent, and what it may answer.

/** One sub-task for a worker that answers it in that way. */
async function worked(t: Test, answer: (subTask: SubTask) => object | string): Promise<MultiAgentResult> {
  const worker = defineAgent({
    input: subTaskSchema,
    receive({ structuredData }: AgentMessage<SubTask>) {
      const said = answer(structuredData)
      return typeof said === 'string' ? said : { structuredData: said }
    },
  })
  const orchestration: CollaborateConfig = { strategy: 'collaborate', decomposer: 'planner', teammates: ['worker'] }
  const cast = { planner: says('["dig", "rest"]'), worker: { code: worker, capabilities: ['dig', 'rest'] } }
  return stage<string>(t, cast, { orchestration }).execute('Work!')
}

const headOf = ({ subTaskId, parentTaskId, assignedAgentRole }: SubTask) => ({
  subTaskId,
  parentTaskId,
  workerAgentRole: assignedAgentRole,
})

t.test('a worker answers with words, with data, or with a result', async (t) => {
  t.equal((await worked(t, ({ subTaskId }) => subTaskId.slice(-2))).finalOutput, '.1\n.2')
  t.equal((await worked(t, ({ subTaskInput }) => subTaskInput)).finalOutput, '{"task":"dig"}\n{"task":"rest"}')
  const done = await worked(t, (subTask) => ({ ...headOf(subTask), status: 'COMPLETED', resultData: { cm: 40 } }))
  t.equal(done.finalOutput, '{"cm":40}\n{"cm":40}')
})

t.test('a worker fails a sub-task by its result', async (t) => {
  const errorDetails = { message: 'rock', type: 'GROUND' }
  const { finalOutput, failures } = await worked(t, (subTask) =>
    subTask.subTaskInput.task === 'dig' ? { ...headOf(subTask), status: 'FAILED', errorDetails } : 'rested',
  )
  t.same(failures, [], 'it has answered')
  t.equal(finalOutput, '(sub-task 1 failed: rock)\nrested')
})

t.test('what claims to be a result, and is none, or another’s, is a failure', async (t) => {
  const wrong: [(subTask: SubTask) => object, RegExp][] = [
    [(subTask) => ({ ...headOf(subTask), status: 'DONE' }), /no result of a sub-task: .*status/s],
    [(subTask) => ({ ...headOf(subTask), status: 'FAILED' }), /no result of a sub-task: .*errorDetails/s],
    [
      (subTask) => ({ ...headOf(subTask), subTaskId: 'x', status: 'COMPLETED', resultData: 1 }),
      /it is of x, not of .*\.1\./,
    ],
  ]
  for (const [answer, reason] of wrong) t.match((await worked(t, answer)).error?.message, reason)
})

t.test('a sub-task is checked, field by field', async (t) => {
  const least = { subTaskId: 'r.1', parentTaskId: 'r', assignedAgentRole: 'worker', subTaskInput: { query: 'x' } }
  const most = { ...least, toolName: 'search', contextSummary: 'so far', apiKeysConfigRef: 'second' }
  for (const good of [least, most]) t.same(subTaskSchema.parse(good), good)
  for (const key of Object.keys(least)) t.notOk(subTaskSchema.safeParse({ ...least, [key]: undefined }).success, key)
  for (const key of Object.keys(most)) t.notOk(subTaskSchema.safeParse({ ...most, [key]: 7 }).success, key)
})

t.test('a result is checked by its status', async (t) => {
  const head = { subTaskId: 'r.1', parentTaskId: 'r', workerAgentRole: 'worker' }
  const good = [
    { ...head, status: 'COMPLETED', resultData: 0 },
    { ...head, status: 'COMPLETED', resultData: null, errorDetails: null },
    { ...head, status: 'FAILED', errorDetails: { message: 'no' } },
    { ...head, status: 'FAILED', resultData: null, errorDetails: { message: 'no', type: 'X' } },
  ]
  for (const each of good) t.same(subTaskResultSchema.parse(each), each)
  const bad = [
    { ...head, status: 'completed' },
    { ...head, status: 'COMPLETED', errorDetails: { message: 'no' } },
    { ...head, status: 'FAILED', errorDetails: { type: 'X' } },
    { ...head, status: 'FAILED', resultData: 1, errorDetails: { message: 'no' } },
    { subTaskId: 'r.1', status: 'COMPLETED' },
  ]
  for (const each of bad) t.notOk(subTaskResultSchema.safeParse(each).success, JSON.stringify(each))
})

// Document 001's queue of results: each worker's response is one, whoever plays the worker and however it ends.

type Context = Pick<typeof t, 'same' | 'teardown'>

const resultsIn = (messages: readonly AgentMessage[]): SubTaskResult[] =>
  messages.flatMap(({ structuredData }) => subTaskResultSchema.safeParse(structuredData).data ?? [])

/** Gives one sub-task to one worker, of code or, without code, of a model, and returns the result and its run. */
async function given(
  t: Context,
  code: AgentDefinition | undefined,
  others: Record<string, AgentDefinition> = {},
  role: Partial<AgentRole> = {},
) {
  const tasks = [{ agent: 'worker', task: 'Dig.' }]
  const model = scriptedModel([
    { agent: 'chief', reply: { tasks, reasoning: 'all of it' } },
    ...(code ? [] : [{ agent: 'worker', reply: 'dug' }]),
    { agent: 'chief', when: /# Results/, reply: 'done' },
  ])
  const orchestration = {
    strategy: 'supervisor' as const,
    supervisor: 'chief',
    experts: ['worker'],
    ...{ timeoutPerAgentMs: 5_000 },
  }
  const names = ['chief', 'worker', ...Object.keys(others)]
  const modules = { ...others, ...(code && { worker: code }) }
  const team = testTeam<string>(
    { agents: names.map((name) => ({ name, ...(name === 'worker' && role) })), orchestration, logger: silent },
    { model, modules },
  )
  t.teardown(() => team.close())
  const run = team.launch('Work!')
  await team.clock.advance(60_000)
  const result: MultiAgentResult = await run.result
  const heard = await all(run.events({ types: ['message'] }))
  const live = heard.flatMap((event) => (event.type === 'message' ? event.message : []))
  t.same(resultsIn(live), resultsIn(result.messageHistory), 'events and history say the same')
  return { result, results: resultsIn(result.messageHistory) }
}

const head = ({ runId }: MultiAgentResult) => ({
  subTaskId: `${runId}.1`,
  parentTaskId: runId,
  workerAgentRole: 'worker',
})

const done: [string, AgentDefinition | undefined, unknown][] = [
  ['a model', undefined, 'dug'],
  ['code that says words', says('dug'), 'dug'],
  ['code that gives data', says({ structuredData: { cm: 40 } }), { cm: 40 }],
  ['code that gives both', says({ content: 'dug', structuredData: [40] }), [40]],
  ['code that says nothing', says(''), ''],
]

for (const [who, code, resultData] of done)
  t.test(`the response of ${who} is a result`, async (t) => {
    const { result, results } = await given(t, code)
    t.same(results, [{ ...head(result), status: 'COMPLETED', resultData }])
  })

const failing: [string, AgentDefinition, { message: RegExp; type: string }][] = [
  ['throws', throws('rock'), { message: /rock/, type: 'AGENT_FAILED' }],
  ['is late', after(10_000), { message: /5000 ms|5,000 ms/, type: 'TIMEOUT' }],
  ['refuses', refuses('no spade'), { message: /no spade/, type: 'TASK_REFUSED' }],
  [
    'answers with what is no JSON',
    says({ structuredData: () => 1 }),
    { message: /structuredData/, type: 'REPLY_INVALID' },
  ],
  [
    'claims a result of another sub-task',
    says({ structuredData: { subTaskId: 'x', status: 'COMPLETED', resultData: 1 } }),
    { message: /it is of x/, type: 'REPLY_INVALID' },
  ],
]

for (const [what, code, errorDetails] of failing)
  t.test(`a worker that ${what} has FAILED, with its details`, async (t) => {
    const { result, results } = await given(t, code)
    t.match(results, [{ ...head(result), status: 'FAILED', resultData: null, errorDetails }])
    t.equal(results.length, 1)
  })

t.test('a worker that hands its sub-task off: the answer of the other is its result', async (t) => {
  const hands = defineAgent({
    async receive(_message, context) {
      await context.handoff('other', 'Dig on.')
      return undefined
    },
  })
  const { result, results } = await given(t, hands, { other: says('dug deep') })
  t.same(results, [{ ...head(result), status: 'COMPLETED', resultData: 'dug deep' }])
})

t.test('a sub-task that an agent gives by itself has a result too, and other data have none', async (t) => {
  const subTask: SubTask = { subTaskId: '1', parentTaskId: '0', assignedAgentRole: 'b', subTaskInput: {} }
  const asks = defineAgent({
    async receive(_message, context) {
      const one = await context.request('b', 'dig', { structuredData: subTask })
      const other = await context.request('b', 'dig', { structuredData: { about: '"subTaskId"' } })
      return { structuredData: [one.structuredData, other.structuredData] }
    },
  })
  const team = stage<string>(
    t,
    { a: asks, b: says('dug') },
    { orchestration: { strategy: 'sequential', agentOrder: ['a'] } },
  )
  const { finalOutput } = await team.execute('Go.')
  t.same(JSON.parse(finalOutput ?? ''), [
    { subTaskId: '1', parentTaskId: '0', workerAgentRole: 'b', status: 'COMPLETED', resultData: 'dug' },
    null,
  ])
})

/* Workers of `hierarchical`, whose tasks are no `SubTask`s. */

interface Fate {
  code: AgentDefinition
  line: Parameters<typeof scriptedModel>[0][number]
  result: object
}

const LATE_MS = 600_000

const fates: Record<string, Fate> = {
  'is done': {
    code: says({ structuredData: { cm: 40 } }),
    line: { agent: 'worker', reply: { cm: 40 } },
    result: { status: 'COMPLETED' },
  },
  throws: {
    code: throws('rock'),
    line: { agent: 'worker', fail: 'server' },
    result: { status: 'FAILED', resultData: null, errorDetails: { message: /rock|ModelError/, type: 'AGENT_FAILED' } },
  },
  'is late': {
    code: after(LATE_MS),
    line: { agent: 'worker', reply: 'dug', delayMs: LATE_MS },
    result: { status: 'FAILED', resultData: null, errorDetails: { message: /ms/, type: /TIMEOUT|AGENT_FAILED/ } },
  },
}

/** Gives what it gets to the worker. */
const passesOn = defineAgent({
  async receive(_message, context) {
    const outcome = await context.delegate('worker', 'Dig.').catch(({ code }) => ({ result: code }))
    return { structuredData: outcome.result }
  },
})

const planned = (worker: string) => ({ tasks: [{ worker, task: 'Dig.' }], reasoning: '' })

const plansInCode = (worker: string) =>
  defineAgent({
    receive: ({ metadata }) => {
      const { step } = Object(metadata.hierarchical)
      if (step === 'plan') return { structuredData: planned(worker) }
      return step === 'reassign' ? { structuredData: { worker: null } } : 'done'
    },
  })

for (const [fate, { code, line, result }] of Object.entries(fates))
  for (const planner of ['code', 'model'])
    for (const player of ['code', 'model'])
      for (const middle of [undefined, 'code', 'model'])
        t.test(
          `hierarchical, planned by ${planner}: ${player} that ${fate}${middle ? `, below a worker of ${middle}` : ''}`,
          async (t) => {
            const first = middle ? 'middle' : 'worker'
            const model = scriptedModel([
              { agent: 'chief', reply: planned(first) },
              { agent: 'chief', when: /reassign|who|failed/i, reply: { worker: null } },
              { agent: 'chief', reply: 'done' },
              { agent: 'middle', toolCall: { name: 'delegate', input: { to: 'worker', task: 'Dig.' } } },
              { agent: 'middle', reply: 'passed on' },
              line,
            ])
            const team = testTeam<string>(
              {
                agents: [
                  { name: 'chief' },
                  ...(middle ? [{ name: 'middle' }] : []),
                  { name: 'worker', communication: { responseTimeoutMs: 10_000 } },
                ],
                orchestration: {
                  strategy: 'hierarchical',
                  manager: 'chief',
                  workers: [first],
                  workerAutonomy: 'high',
                },
                communication: { turnRetries: 0, retries: 0 },
                logger: silent,
              },
              {
                model,
                modules: {
                  ...(planner === 'code' && { chief: plansInCode(first) }),
                  ...(middle === 'code' && { middle: passesOn }),
                  ...(player === 'code' && { worker: code }),
                },
              },
            )
            t.teardown(() => team.close())
            const run = team.launch('Work!')
            await team.clock.advance(2 * LATE_MS)
            const { messageHistory, runId } = await run.result
            const tasks = messageHistory.filter(({ type }) => type === 'delegate')
            const results = resultsIn(messageHistory)
            t.equal(results.length, middle ? 2 : 1)
            for (const task of tasks) {
              const own = results.find(({ subTaskId }) => subTaskId === task.id)
              t.match(own, { parentTaskId: runId, workerAgentRole: task.recipient })
              if (task.recipient === 'worker') t.match(own, result)
            }
            const heard = await all(run.events({ types: ['message'] }))
            t.same(resultsIn(heard.flatMap((event) => (event.type === 'message' ? event.message : []))), results)
          },
        )

t.test('who delegates under hierarchical gets plain data; a task handed off has one result', async (t) => {
  const heard: unknown[] = []
  const boss = leads([task('ann', 'dig')], { summary: ({ results }) => results.map(({ result }) => result) })
  const ann = works(async (_message, context) => {
    heard.push((await context.delegate('bob', 'shovel')).result)
    await context.handoff('bob', 'dig on')
    return ''
  })
  const bob = works(() => ({ cm: 40 }))
  const result = await play(t, { boss, ann, bob }, { workerAutonomy: 'high' })
  t.equal(result.finalOutput, '[{"cm":40}]')
  t.same(heard, [{ cm: 40 }])
  const done = { parentTaskId: result.runId, status: 'COMPLETED', resultData: { cm: 40 } }
  const tasks = result.messageHistory.filter(({ type }) => type === 'delegate')
  t.match(resultsIn(result.messageHistory), [
    { ...done, subTaskId: tasks.find(({ content }) => content === 'shovel')?.id, workerAgentRole: 'bob' },
    { ...done, subTaskId: tasks.find(({ content }) => content === 'dig')?.id, workerAgentRole: 'ann' },
  ])
})

t.test('a worker of hierarchical that fails its task by a result of its own has not done it', async (t) => {
  const ann = works(({ id: subTaskId }) => ({
    subTaskId,
    status: 'FAILED',
    errorDetails: { message: 'rock', type: 'SOIL' },
  }))
  const result = await play(t, { boss: leads([task('ann', 'dig')]), ann }, { workerAutonomy: 'high' })
  t.match(result.error, { code: 'AGENT_FAILED', message: 'rock', details: { agent: 'ann', type: 'SOIL' } })
  t.match(resultsIn(result.messageHistory), [{ status: 'FAILED', errorDetails: { message: 'rock', type: 'SOIL' } }])
})

/* Workers whom nobody waits for any more, and new owners. */

for (const state of ['at work', 'waiting in its mailbox'])
  t.test(`a worker ${state} whose asker was late has a result: it was cancelled`, async (t) => {
    const boss = leads([task('ann', 'dig')])
    const ann = {
      communication: { responseTimeoutMs: 1_000 },
      code: works(async (_message, context) => {
        const tasks = state === 'at work' ? ['shovel'] : ['shovel', 'carry']
        await Promise.all(tasks.map((each) => context.delegate('bob', each)))
        return 'dug'
      }),
    }
    const result = await play(t, { boss, ann, bob: after(50_000) }, { workerAutonomy: 'high' })
    const tasks = result.messageHistory.filter(({ type }) => type === 'delegate')
    const results = resultsIn(result.messageHistory)
    t.equal(results.length, tasks.length)
    for (const { id, recipient } of tasks)
      t.match(
        results.find(({ subTaskId }) => subTaskId === id),
        {
          parentTaskId: result.runId,
          workerAgentRole: recipient,
          status: 'FAILED',
          errorDetails: { type: recipient === 'ann' ? 'TIMEOUT' : 'CANCELLED' },
        },
      )
  })

t.test('the new owner of a task that a manager reassigned has a result, and so has who gave it up', async (t) => {
  const boss = defineAgent({
    receive({ metadata }) {
      if (metadata.escalation) return { structuredData: { decision: 'reassign', to: 'bob' } }
      return { structuredData: { tasks: [task('ann', 'dig')] } }
    },
  })
  const ann = works(async (_message, context) => {
    const outcome = await context.escalate('no spade')
    return outcome.kind === 'reassigned' ? (outcome.result.structuredData ?? outcome.result.content) : outcome.kind
  })
  const bob = works(() => ({ cm: 40 }))
  const result = await play(t, { boss, ann, bob }, { workerAutonomy: 'high' })
  const tasks = result.messageHistory.filter(({ type }) => type === 'delegate')
  const done = { parentTaskId: result.runId, status: 'COMPLETED', resultData: { cm: 40 } }
  t.match(
    resultsIn(result.messageHistory),
    ['bob', 'ann'].map((name) => ({
      ...done,
      subTaskId: tasks.find(({ recipient }) => recipient === name)?.id,
      workerAgentRole: name,
    })),
  )
})

t.test('the new owner of a sub-task has a result in its own name', async (t) => {
  const escalates = defineAgent({
    async receive(_message, context) {
      const outcome = await context.escalate('no spade')
      return outcome.kind === 'reassigned' ? { structuredData: outcome.result.structuredData } : outcome.kind
    },
  })
  const manager = says({ structuredData: { decision: 'reassign', to: 'other' } })
  const { result, results } = await given(t, escalates, { manager, other: says('dug deep') }, { escalateTo: 'manager' })
  const done = { ...head(result), status: 'COMPLETED', resultData: 'dug deep' }
  t.same(results, [{ ...done, workerAgentRole: 'other' }, done])
})

t.test('a worker that is at work when its run is ended has a result', async (t) => {
  const team = led(t, { boss: leads([task('ann', 'dig')]), ann: after(50_000) }, { workerAutonomy: 'high' })
  const run = team.launch('the job')
  await team.clock.advance(1_000)
  run.cancel()
  const result = await run.result
  t.match(resultsIn(result.messageHistory), [
    { parentTaskId: result.runId, workerAgentRole: 'ann', status: 'FAILED', errorDetails: { type: 'RUN_ABORTED' } },
  ])
})

// Document 001's `api_keys_config_ref`: a sub-task names a profile of keys, and goes to who holds it alone.

const keys = { free: ['SEARCH_KEY_FREE'], paid: ['SEARCH_KEY_PAID', 'SEARCH_ACCOUNT'] }
const digs = defineAgent({ receive: ({ content }, { role }) => `${role.name}: ${content}` })

type Task = { agent: string; task: string; apiKeysConfigRef?: unknown }
const plan = (...tasks: Task[]) => ({ agent: 'chief', reply: { tasks, reasoning: 'so' } })
const last: Script = { agent: 'chief', when: /# Results/, reply: 'done' }

function desk(t: Test, script: Script[], experts: AgentRole[], options: object = { keys }, config: object = {}) {
  const model = scriptedModel(script)
  const names = experts.map(({ name }) => name)
  const orchestration = { strategy: 'supervisor' as const, supervisor: 'chief', experts: names, ...config }
  const modules = Object.fromEntries(names.map((name) => [name, digs]))
  const team = testTeam<string>(
    { agents: [{ name: 'chief' }, ...experts], orchestration, logger: silent, ...options },
    { model, modules },
  )
  t.teardown(() => team.close())
  return { team, model }
}

const subTasksIn = ({ messageHistory }: MultiAgentResult) =>
  messageHistory.flatMap(({ type, structuredData }) =>
    type === 'request' && Object(structuredData).assignedAgentRole ? (structuredData as SubTask) : [],
  )

const ann = { name: 'ann', keys: ['free', 'paid'] }
const bob = { name: 'bob', keys: ['free'] }
const cid = { name: 'cid' }

t.test('a sub-task carries the profile that the plan names, and the planner is told who holds which', async (t) => {
  const { team, model } = desk(t, [plan({ agent: 'ann', task: 'Dig.', apiKeysConfigRef: 'paid' }), last], [ann, cid])
  const result = await team.execute('Work!')
  t.match(subTasksIn(result), [{ assignedAgentRole: 'ann', apiKeysConfigRef: 'paid' }])
  t.match(model.calls[0]?.prompt, '- ann; keys: free, paid\n- cid')
})

t.test('a plan for who does not hold it is sent back once, and then the sub-task alone fails', async (t) => {
  const wrong = plan({ agent: 'bob', task: 'Dig.', apiKeysConfigRef: 'paid' }, { agent: 'ann', task: 'Rest.' })
  const right = plan({ agent: 'ann', task: 'Dig.', apiKeysConfigRef: 'paid' })
  const { team, model } = desk(t, [wrong, right, last], [ann, bob])
  t.match(subTasksIn(await team.execute('Work!')), [{ assignedAgentRole: 'ann' }])
  t.match(model.calls[1]?.prompt, '"bob" does not hold the keys "paid"; who does: ann')

  const again = desk(t, [wrong, wrong, last], [ann, bob])
  const result = await again.team.execute('Work!')
  t.match(result.failures, [
    { agent: 'bob', error: { code: 'MESSAGE_REJECTED', message: /does not hold the keys "paid"/ } },
  ])
  t.match(result.agentOutputs.ann, [{ content: 'ann: Rest.' }])
  t.notOk(result.agentOutputs.bob)
})

t.test('a planner may name only what exists', async (t) => {
  const wrong = plan({ agent: 'ann', task: 'Dig.', apiKeysConfigRef: 'gold' })
  for (const options of [{ keys }, {}]) {
    const experts = 'keys' in options ? [ann] : [{ name: 'ann' }]
    const { team } = desk(t, [wrong, wrong], experts, options)
    const failures = [{ code: 'REPLY_INVALID', message: /apiKeysConfigRef/ }]
    t.match((await team.execute('Work!')).error, { code: 'AGENT_FAILED', details: { failures } })
  }
})

t.test('null is no profile, and a team without keys asks for none', async (t) => {
  const { team, model } = desk(
    t,
    [plan({ agent: 'ann', task: 'Dig.', apiKeysConfigRef: null }), last],
    [{ name: 'ann' }],
    {},
  )
  const [subTask] = subTasksIn(await team.execute('Work!'))
  t.notOk('apiKeysConfigRef' in subTask!)
  t.notMatch(model.calls[0]?.prompt, /apiKeysConfigRef|keys:/)
})

t.test('whoever gives the sub-task, it reaches who holds the profile alone', async (t) => {
  const { team } = desk(t, [], [ann, bob, cid])
  const subTask = { subTaskId: '1', parentTaskId: '0', subTaskInput: {}, apiKeysConfigRef: 'paid' }
  const give = (recipient: string) =>
    team.sendMessage({
      recipient,
      content: 'Dig.',
      requiresResponse: true,
      structuredData: { ...subTask, assignedAgentRole: recipient },
    })
  t.match(await give('ann'), { structuredData: { status: 'COMPLETED', resultData: 'ann: Dig.' } })
  for (const name of ['bob', 'cid'])
    await t.rejects(give(name), { code: 'MESSAGE_REJECTED', details: { path: 'structuredData.apiKeysConfigRef' } })
})

t.test('a replanned sub-task has an id of its own, and says which one it replaces', async (t) => {
  const task = (agent: string) => plan({ agent, task: 'Dig.', apiKeysConfigRef: 'paid' })
  const { team } = desk(
    t,
    [task('bob'), task('bob'), task('bob'), task('bob'), task('ann'), last],
    [ann, bob],
    { keys },
    { maxReplans: 2 },
  )
  const result = await team.execute('Work!')
  const { runId } = result
  t.match(
    subTasksIn(result).map(({ subTaskId, replaces }) => [subTaskId, replaces]),
    [
      [`${runId}.1`, undefined],
      [`${runId}.1.1`, `${runId}.1`],
      [`${runId}.1.2`, `${runId}.1.1`],
    ],
  )
})

t.test('a role holds only profiles of the team, and no error shows what may be a key', async (t) => {
  const made = (options: object, role: object) => () => desk(t, [], [{ name: 'ann', ...role }], options)
  t.throws(made({ keys }, { keys: ['gold'] }), {
    code: 'CONFIGURATION',
    message: /^agents\[1\]\.keys\[0\]: got "gold"; accepted: free, paid/,
  })
  t.throws(made({}, { keys: ['free'] }), { code: 'CONFIGURATION', message: /^agents\[1\]\.keys\[0\]: got "free"/ })
  for (const wrong of [
    'sk-live-12345',
    ['sk-live-12345'],
    { free: 'sk-live-12345' },
    { free: [] },
    { free: ['KEY=sk-live-12345'] },
  ])
    t.throws(made({ keys: wrong }, {}), { code: 'CONFIGURATION', message: /^keys(?!.*sk-live)/ })
})
