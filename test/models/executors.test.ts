/** Tasks that a model gives to executors while it goes on, and how it looks at them. */

import type { Test } from 'tap'
import t from 'tap'
import { textOf } from '../../src/actors/definition/content.ts'
import type { ModelRequest } from '../../src/actors/definition/model.ts'
import { decomposeTask, markSubtaskComplete } from '../../src/tools/index.ts'
import { pluck, where } from '../kit/lists.ts'
import { type Answer, calls, FakeModel } from './fake-model.ts'
import { modelTeam } from './teams.ts'

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

function gate() {
  let open = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { open, opened }
}

t.test('the lead goes on while the executor works, sees how far it is, and is told what came of it', async (t) => {
  const [looked, working] = [gate(), gate()]
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
  const both = gate()
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
  const looked = gate()
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
  const crashed = gate()
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
