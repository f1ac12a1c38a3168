/** Document 001's queue of results: each worker's response is one, whoever plays the worker and however it ends. */
import t from 'tap'
import {
  type AgentDefinition,
  type AgentMessage,
  type AgentRole,
  defineAgent,
  type MultiAgentResult,
} from '../../src/index.ts'
import { type SubTask, type SubTaskResult, subTaskResultSchema } from '../../src/protocols.ts'
import { scriptedModel, testTeam } from '../../src/testing.ts'
import { silent } from '../kit/team.ts'
import { after, all, refuses, says, stage, throws } from '../team/stage.ts'
import { leads, led, play, task, works } from './led-team.ts'

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
