/** The messages of document 001's queues: what a worker is sent, and what it may answer. */
import t from 'tap'
import { type AgentMessage, defineAgent, type MultiAgentResult } from '../../src/index.ts'
import { type CollaborateConfig, type SubTask, subTaskResultSchema, subTaskSchema } from '../../src/protocols.ts'
import { says, stage, type Test } from '../team/stage.ts'

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
