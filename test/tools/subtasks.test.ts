/** What a model says of its subtasks comes back in a form that can be read. */
import t from 'tap'
import { decomposeTask, markSubtaskComplete } from '../../src/tools/subtasks.ts'
import { call } from './calls.ts'

t.test('a task that is taken apart comes back as numbered subtasks', async (t) => {
  t.same(await call(decomposeTask, { subtasks: ['write it', ' test it '] }), {
    task: null,
    subtasks: [
      { id: '1', description: 'write it', status: 'pending' },
      { id: '2', description: 'test it', status: 'pending' },
    ],
  })
})

t.test('a subtask is completed, or failed with a reason', async (t) => {
  const done = { subtask: '1', status: 'completed', reason: null }
  t.same(await call(markSubtaskComplete, { subtask: '1' }), done)
  const failed = { subtask: '2', status: 'failed', reason: 'no network' }
  t.same(await call(markSubtaskComplete, { subtask: '2', success: false, reason: 'no network' }), failed)
})

t.test('a model that names no subtask is told which one is meant, and that there may be none', async (t) => {
  const { note, ...statement } = await call(markSubtaskComplete, { reason: 'it runs' })
  t.same(statement, { subtask: null, status: 'completed', reason: 'it runs' })
  t.match(note, /^No subtask was named.* If there is none, nothing was marked/)
})

t.test('what is no statement of that kind is refused', async (t) => {
  const long = 'x'.repeat(2_001)
  for (const subtasks of [
    [],
    [''],
    ['  '],
    [5],
    'write it',
    [long],
    Array.from({ length: 21 }, () => 'x'),
    undefined,
  ]) {
    await t.rejects(call(decomposeTask, { subtasks }), { code: 'TOOL_INPUT' })
  }
  for (const input of [{ success: 'yes' }, { reason: long }, { subtask: '' }, { done: true }, []]) {
    await t.rejects(call(markSubtaskComplete, input), { code: 'TOOL_INPUT' })
  }
})
