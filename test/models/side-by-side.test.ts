/** What a model has going on at once: calls in one answer, and tasks given to executors. */
import t, { type Test } from 'tap'
import { z } from 'zod'
import { textOf } from '../../src/actors/definition/content.ts'
import type { ModelRequest } from '../../src/actors/definition/model.ts'
import { defineTool, type RuntimeEvent } from '../../src/index.ts'
import type { VirtualClock } from '../../src/testing.ts'
import { decomposeTask, markSubtaskComplete } from '../../src/tools/index.ts'
import { pluck, where } from '../kit/lists.ts'
import { gate, given, outcomeOf } from '../kit/team.ts'
import { ledger, recordModule, underWay } from '../toolbox/desk.ts'
import { doing } from '../toolbox/tools.ts'
import { type Answer, type Answers, calls, FakeModel } from './fake-model.ts'
import { modelTeam } from './teams.ts'

// The calls that a model asks for in one answer: side by side, their results in order, and each for itself.

/** All that can happen by now has happened. */
const settled = ({ clock }: { clock: VirtualClock }) => clock.advance(1)
/** What came of the calls, as the model was told. */
const told = (model: FakeModel) =>
  model.requests
    .at(-1)!
    .messages.filter(({ role }) => role === 'tool')
    .map(({ content }) => content)

/** A tool that begins and ends as the test says; `log` has both. */
function stepwise(options: { sequential?: boolean } = {}) {
  const log: string[] = []
  const ends = new Map<number, () => void>()
  let most = 0
  const tool = defineTool({
    name: 'work',
    description: 'Works.',
    input: z.object({ nth: z.number() }),
    ...options,
    async run({ nth }, { signal }) {
      const { open, opened } = gate()
      ends.set(nth, open)
      most = Math.max(most, ends.size)
      log.push(`begin ${nth}`)
      signal.addEventListener('abort', () => log.push(`abort ${nth}`))
      await opened
      ends.delete(nth)
      log.push(`end ${nth}`)
      return `result ${nth}`
    },
  })
  const end = (team: { clock: VirtualClock }, nth: number) => {
    ends.get(nth)!()
    return settled(team)
  }
  return { tool, log, end, most: () => most }
}

const work = (...nths: number[]) => nths.map((nth): [string, object] => ['work', { nth }])

t.test('the calls of one answer run side by side, and their results have the order of the calls', async (t) => {
  const { tool, log, end } = stepwise()
  const { team, model } = modelTeam(t, [calls(...work(1, 2, 3)), 'done'], [{ name: 'ann', tools: [tool] }])
  const run = team.launch('go')
  await settled(team)
  t.same(log, ['begin 1', 'begin 2', 'begin 3'])
  for (const nth of [3, 1, 2]) await end(team, nth)
  t.equal((await run.result).finalOutput, 'done')
  t.same(log.slice(3), ['end 3', 'end 1', 'end 2'])
  t.same(told(model), ['result 1', 'result 2', 'result 3'])
})

t.test('maxParallelToolCalls bounds how many of them run at a time', async (t) => {
  const { tool, log, end, most } = stepwise()
  const role = { name: 'ann', tools: [tool], maxParallelToolCalls: 2 }
  const { team, model } = modelTeam(t, [calls(...work(1, 2, 3, 4)), 'done'], [role])
  const run = team.launch('go')
  await settled(team)
  for (const nth of [2, 3, 1, 4]) await end(team, nth)
  await run.result
  t.equal(most(), 2)
  t.same(log.slice(0, 6), ['begin 1', 'begin 2', 'end 2', 'begin 3', 'end 3', 'begin 4'])
  t.same(told(model), ['result 1', 'result 2', 'result 3', 'result 4'])
})

t.test('32 of them run at a time unless the role says otherwise', async (t) => {
  const { tool, log, end } = stepwise()
  const nths = Array.from({ length: 33 }, (_, i) => i)
  const { team } = modelTeam(t, [calls(...work(...nths)), 'done'], [{ name: 'ann', tools: [tool] }])
  const run = team.launch('go')
  await settled(team)
  t.equal(log.length, 32)
  for (const nth of nths) await end(team, nth)
  t.equal((await run.result).finalOutput, 'done')
})

t.test('thinking that its code withdraws rejects; no further call begins, and nothing waits', async (t) => {
  const { tool, log } = stepwise()
  const left = new AbortController()
  const { open, opened } = gate()
  const team = given(t, {
    models: { default: new FakeModel([calls(...work(1, 2, 3)), 'done']) },
    roles: { ann: { tools: [tool], maxParallelToolCalls: 1 } },
  }).testTeam({
    async ann(_message, context) {
      const thought = await context.think({ prompt: 'Work.', signal: left.signal }).catch((error) => error)
      await opened
      return `${thought.code}: ${thought.message}`
    },
  })
  const run = team.launch('go')
  await settled(team)
  t.same(log, ['begin 1'])
  left.abort(new Error('nobody wants it'))
  await settled(team)
  t.same(log, ['begin 1', 'abort 1'])
  t.same(where(team.waits(), 'kind', 'limit'), [])
  open()
  t.match((await run.result).finalOutput, /^CANCELLED: .*its signal was aborted/)
})

t.test('a tool that says sequential runs alone, behind the calls before it and before those behind it', async (t) => {
  const { tool, log, end } = stepwise()
  const alone = doing(() => void log.push('alone'), { name: 'alone', sequential: true })
  const { team, model } = modelTeam(
    t,
    [calls(...work(1, 2), ['alone', {}], ...work(3)), 'done'],
    [{ name: 'ann', tools: [tool, alone] }],
  )
  const run = team.launch('go')
  await settled(team)
  await end(team, 2)
  t.same(log, ['begin 1', 'begin 2', 'end 2'])
  await end(team, 1)
  await end(team, 3)
  t.same(log.slice(3), ['end 1', 'alone', 'begin 3', 'end 3'])
  t.equal((await run.result).finalOutput, 'done')
  t.same(told(model), ['result 1', 'result 2', '', 'result 3'])
})

t.test('a call that fails ends no other', async (t) => {
  const { tool, log, end } = stepwise()
  const fails = doing(() => Promise.reject(new Error('the disk is full')), { name: 'fails' })
  const answers = [calls(['fails', {}], ...work(1), ['nowhere', {}]), 'done']
  const { team, model } = modelTeam(t, answers, [{ name: 'ann', tools: [tool, fails] }])
  const run = team.launch('go')
  await settled(team)
  t.same(log, ['begin 1'])
  await end(team, 1)
  t.equal((await run.result).finalOutput, 'done')
  t.match(told(model), [/the disk is full/, 'result 1', /There is no tool "nowhere"/])
})

t.test('a run that is cancelled ends all calls that are under way', async (t) => {
  const { tool, log } = stepwise()
  const { team } = modelTeam(t, [calls(...work(1, 2, 3))], [{ name: 'ann', tools: [tool], maxParallelToolCalls: 2 }])
  const run = team.launch('go')
  await settled(team)
  await run.cancel('enough')
  t.match((await run.result).error, { code: 'RUN_ABORTED' })
  await settled(team)
  t.same(log, ['begin 1', 'begin 2', 'abort 1', 'abort 2'])
})

t.test(
  'the signal of think withdraws tools, requests and questions that are under way, and nothing begins after it',
  async (t) => {
    const { tool, log } = stepwise()
    const all = calls(
      ...work(1),
      ['ask_user', { question: 'Which color?' }],
      ['request', { to: 'bob', content: 'go' }],
      ...work(2),
    )
    const controller = new AbortController()
    const reached = gate()
    const events: RuntimeEvent[] = []
    let bob: AbortSignal | undefined
    const team = given(t, {
      models: { default: new FakeModel([all]) },
      roles: { ann: { tools: [tool, 'ask_user'], canDelegateTo: ['bob'], maxParallelToolCalls: 3 } },
    }).testTeam({
      ann: (_message, context) =>
        context.think({ prompt: 'go', signal: controller.signal }).then(String, (error) => error.code),
      bob: (_message, { signal }) => {
        bob = signal
        reached.open()
        return new Promise(() => {})
      },
    })
    team.events.subscribe((event) => void events.push(event))
    const run = team.launch('go')
    await reached.opened
    await settled(team)
    t.equal(run.status, 'waiting')
    controller.abort()
    await settled(team)
    t.equal((await run.result).finalOutput, 'CANCELLED')
    t.same(log, ['begin 1', 'abort 1'])
    t.ok(bob?.aborted)
    t.same(events.filter(({ type }) => type === 'question').length, 1)
  },
)

t.test('no call behind a handoff is made: the turn is over', async (t) => {
  const { tool, log, end } = stepwise()
  const answers: Answers = ({ agent }) =>
    agent === 'ann'
      ? calls(['work', { nth: 1 }], ['handoff', { to: 'bob', task: 'dig', summary: '' }], ...work(2))
      : 'dug'
  const agents = [{ name: 'ann', tools: [tool], canDelegateTo: ['bob'] }, { name: 'bob' }]
  const orchestration = { strategy: 'sequential' as const, agentOrder: ['ann'] }
  const { team } = modelTeam(t, answers, agents, { orchestration })
  const run = team.launch('go')
  await settled(team)
  await end(team, 1)
  t.match(await run.result, { success: true, finalOutput: 'dug' })
  t.same(log, ['begin 1', 'end 1'])
})

t.test('several calls wait for approval at once, and each has its own answer', async (t) => {
  const paid: number[] = []
  const pay = defineTool({
    name: 'pay',
    description: 'Pays.',
    input: z.object({ euros: z.number() }),
    approval: true,
    run: ({ euros }) => void paid.push(euros),
  })
  const answers = [calls(['pay', { euros: 1 }], ['pay', { euros: 2 }], ['pay', { euros: 3 }]), 'done']
  const { team, model } = modelTeam(t, answers, [{ name: 'ann', tools: [pay] }])
  const questions: Extract<RuntimeEvent, { type: 'question' }>[] = []
  team.events.subscribe((event) => void (event.type === 'question' && questions.push(event)))
  const run = team.launch('go')
  await settled(team)
  t.equal(questions.length, 3)
  for (const [nth, answer] of [
    [2, 'yes'],
    [1, { approved: false, reason: 'Once is enough.' }],
    [0, { approved: true, input: { euros: 10 } }],
  ] as const)
    await run.answer(questions[nth]!.questionId, answer)
  t.equal((await run.result).finalOutput, 'done')
  t.same(paid, [3, 10])
  const changed = 'A person has changed the input to {"euros":10}. Output: '
  t.match(told(model), [changed, /did not agree .* The reason: Once is enough\.$/, ''])
})

t.test('verbs run beside tools: a question to a person, requests and tasks keep no tool waiting', async (t) => {
  const { tool, log, end } = stepwise()
  const model = new FakeModel(({ agent, messages }) => {
    if (agent !== 'ann') return `${agent} has answered`
    return messages.some(({ role }) => role === 'tool')
      ? 'done'
      : calls(
          ['ask_user', { question: 'Which color?' }],
          ['request', { to: 'bob', content: 'go' }],
          ['delegate', { to: 'eve', task: 'go' }],
          ...work(1),
        )
  })
  const { team } = modelTeam(
    t,
    model,
    [{ name: 'ann', tools: [tool, 'ask_user'], canDelegateTo: ['bob', 'eve'] }, { name: 'bob' }, { name: 'eve' }],
    { orchestration: { strategy: 'sequential', agentOrder: ['ann'] } },
  )
  const questions: Extract<RuntimeEvent, { type: 'question' }>[] = []
  team.events.subscribe((event) => void (event.type === 'question' && questions.push(event)))
  const run = team.launch('go')
  await settled(team)
  t.same(log, ['begin 1'])
  t.same(model.requests.map(({ agent }) => agent).sort(), ['ann', 'bob', 'eve'])
  await end(team, 1)
  await run.answer(questions[0]!.questionId, 'red')
  t.equal((await run.result).finalOutput, 'done')
  t.same(told(model), ['red', 'bob has answered', 'eve has answered', 'result 1'])
})

t.test('an agent that is spawned, and what is published, is there for the calls behind it', async (t) => {
  const model = new FakeModel(({ agent, messages }) => {
    if (agent !== 'ann') return `${agent} is here`
    if (messages.some(({ role }) => role === 'tool')) return 'done'
    return calls(
      ['publish', { key: 'fact', value: 1, entryType: 'fact' }],
      ['read_blackboard', { key: 'fact' }],
      ['spawn', { name: 'bob', systemPrompt: 'Answer.' }],
      ['request', { to: 'bob', content: 'go' }],
    )
  })
  const { team } = modelTeam(t, model, [{ name: 'ann', trust: 'privileged', delegationAllowed: true }], {
    enableBlackboard: true,
  })
  t.equal((await team.execute('go')).finalOutput, 'done')
  t.match(told(model), [/^Written/, /"value":1/, /"bob" is in the team now/, 'bob is here'])
})

t.test('rule 19: a turn whose tool runs in its thread beside a request keeps its permit', async (t) => {
  const order: string[] = []
  const answers = [
    calls(['hasty', { file: ledger(t).file, act: 'wait' }], ['request', { to: 'bob', content: 'go' }]),
    'done',
  ]
  const team = given(t, {
    models: { default: new FakeModel(answers) },
    maxConcurrentAgents: 1,
    roles: { ann: { tools: [{ module: recordModule, export: 'hasty' }], canDelegateTo: ['bob'] } },
  }).testTeam({
    ann: async (_message, context) => (await context.think('go')).text,
    bob: () => void order.push('bob'),
  })
  team.events.subscribe(({ type }) => void (type === 'tool.finished' && order.push('tool')))
  const run = outcomeOf(team.execute('go'))
  await underWay(team)
  for (let i = 0; i < 10 && !run.settled; i++) await team.clock.advance(100)
  t.match(run.value, { success: true, finalOutput: 'done' })
  t.same(order, ['tool', 'bob'])
})

// Tasks that a model gives to executors while it goes on, and how it looks at them.

/** Answers of an agent one after the other; a function is asked for its answer. */
type Script = readonly (Answer | (() => Promise<Answer>))[]

const TOOLS = ['delegate_to_executor', 'get_executor_status']

/** A lead with two tools, and executors. */
function desk(t: Test, scripts: Record<string, Script>, lead: object = {}) {
  const executors = Object.keys(scripts).filter((name) => name !== 'lead')
  const asked: Record<string, ModelRequest[]> = {}
  const model = new FakeModel(async (request) => {
    const { agent = '' } = request
    asked[agent] = [...(asked[agent] ?? []), request]
    const answer = scripts[agent]?.[asked[agent].length - 1]
    if (answer === undefined) throw new Error(`the test has no answer number ${asked[agent].length} of ${agent}`)
    return typeof answer === 'function' ? answer() : answer
  })
  const agents = [
    { name: 'lead', canDelegateTo: executors, tools: TOOLS, ...lead },
    ...executors.map((name) => ({ name, tools: [decomposeTask, markSubtaskComplete] })),
  ]
  const { team } = modelTeam(t, model, agents, { orchestration: { strategy: 'sequential', agentOrder: ['lead'] } })
  return { team, asked }
}

const lastTold = (requests: ModelRequest[] | undefined, nth: number): string =>
  textOf(requests?.[nth]?.messages.at(-1)?.content ?? '')

function executorsGate() {
  let open = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { open, opened }
}

t.test('the lead goes on while the executor works, sees how far it is, and is told what came of it', async (t) => {
  const [looked, working] = [executorsGate(), executorsGate()]
  const { team, asked } = desk(t, {
    lead: [
      calls(['delegate_to_executor', { task: 'Write it.', context: 'In Basque.' }]),
      async () => {
        await working.opened
        return calls(['get_executor_status', {}])
      },
      async () => {
        looked.open()
        return 'It is under way.'
      },
      'It is written.',
    ],
    hand: [
      calls(['decompose_task', { subtasks: ['think', 'write'] }]),
      calls(['mark_subtask_complete', {}]),
      async () => {
        working.open()
        await looked.opened
        return 'written'
      },
    ],
  })
  const result = await team.execute('A text, please.')
  t.equal(result.finalOutput, 'It is written.')
  t.same(
    asked.lead![0]!.tools?.map(({ name }) => name),
    TOOLS,
    'a role with its own way to give tasks gets no other',
  )
  t.match(asked.lead![0]!.messages[0]?.content, /The other agents of your team, by name:\n- hand/)
  t.equal(lastTold(asked.hand, 0), 'Task from "lead":\nWrite it.\n\nContext: In Basque.')
  const [, id] = /the task (\S+),/.exec(lastTold(asked.lead, 1)) ?? []
  t.match(JSON.parse(lastTold(asked.lead, 2)), [
    {
      executor: 'hand',
      status: 'running',
      tasks: [
        {
          id,
          task: 'Write it.',
          status: 'in_progress',
          progress: {
            subtask: '2 of 2: write',
            round: 1,
            maxRounds: 12,
            lastMessages: [
              { role: 'assistant', text: '[calls decompose_task]' },
              { role: 'tool', text: /think/ },
              { role: 'assistant', text: '[calls mark_subtask_complete]' },
              { role: 'tool' },
            ],
          },
        },
      ],
    },
  ])
  t.equal(lastTold(asked.lead, 3), `Task ${id}: "hand" has done it: written`)
  t.match(asked.lead![3]!.messages.at(-2), { role: 'assistant', content: 'It is under way.' })
})

t.test('several executors work side by side, and what each came to is told once', async (t) => {
  const both = executorsGate()
  let begun = 0
  const meets = async () => {
    begun += 1
    if (begun === 2) both.open()
    await both.opened
    return 'half'
  }
  const { team, asked } = desk(t, {
    lead: [
      calls(
        ['delegate_to_executor', { task: 'a' }],
        ['delegate_to_executor', { task: 'a', to: 'left' }],
        ['delegate_to_executor', { task: 'b', to: 'right' }],
      ),
      calls(['get_executor_status', { wait: true }]),
      calls(['get_executor_status', {}]),
      'whole',
    ],
    left: [meets],
    right: [meets],
  })
  t.equal((await team.execute('go')).finalOutput, 'whole')
  t.match(asked.lead![1]!.messages.at(-3)?.content, /"to" is missing; it may be left, right/)
  const outcomes = (nth: number) =>
    (JSON.parse(lastTold(asked.lead, nth)) as { tasks: { status: string; outcome?: string }[] }[]).map(
      ({ tasks: [task] }) => [task?.status, task?.outcome],
    )
  t.same(outcomes(2), [
    ['completed', '"left" has done it: half'],
    ['completed', '"right" has done it: half'],
  ])
  t.same(outcomes(3), [
    ['completed', undefined],
    ['completed', undefined],
  ])
})

t.test('a task that fails is told with the reason, and rounds of looking end in a wait', async (t) => {
  const looked = executorsGate()
  const { team, asked } = desk(
    t,
    {
      lead: [
        calls(['delegate_to_executor', { task: 'a' }]),
        calls(['get_executor_status', {}]),
        async () => {
          looked.open()
          return calls(['get_executor_status', { polling: true }])
        },
        'It failed.',
      ],
      hand: [
        async () => {
          await looked.opened
          return [Object.assign(new Error('no paper'), { final: true })]
        },
      ],
    },
    { maxRounds: 3 },
  )
  t.equal((await team.execute('go')).finalOutput, 'It failed.')
  t.match(`${lastTold(asked.lead, 3)}${asked.lead![3]!.messages.at(-1)?.content}`, /"hand" has not done it: .*no paper/)
})

t.test('who ends its turn takes back what it has given away', async (t) => {
  const { team } = desk(
    t,
    {
      lead: [calls(['delegate_to_executor', { task: 'a' }]), calls(['refuse', { reason: 'no' }])],
      hand: [() => new Promise(() => {})],
    },
    { tools: [...TOOLS, 'refuse'] },
  )
  const run = team.launch('go')
  t.match(await run.result, { success: false, error: { code: 'TASK_REFUSED' } })
  t.match(run.tasks.find(({ assignedTo }) => assignedTo === 'hand')?.status, 'cancelled')
})

t.test('a crash of the lead gives no task away twice, and it is told what came of the first', async (t) => {
  const crashed = executorsGate()
  let given = 0
  const { team, asked } = desk(t, {
    lead: [
      calls(['delegate_to_executor', { task: 'a' }]),
      calls(['get_executor_status', {}]),
      async () => {
        queueMicrotask(() => {
          team.crash('lead')
          crashed.open()
        })
        return 'It is under way.'
      },
      'It is done.',
      'It is done.',
    ],
    hand: [
      async () => {
        given += 1
        await crashed.opened
        return 'done'
      },
    ],
  })
  const run = team.launch('go')
  t.match(await run.result, { success: true, finalOutput: 'It is done.' })
  t.equal(given, 1)
  t.same(pluck(where(run.tasks, 'assignedTo', 'hand'), 'status'), ['completed'])
  t.match(asked.lead!.at(-1)!.messages.at(-1)?.content, /"hand" has done it: done/)
})
