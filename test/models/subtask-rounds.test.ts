/** `maxRounds` counts for each sub-task: `decompose_task` begins the first, `mark_subtask_complete` the next. */
import t from 'tap'
import { z } from 'zod'
import { defineTool } from '../../src/index.ts'
import { decomposeTask, markSubtaskComplete } from '../../src/tools/index.ts'
import { type Answers, calls } from './fake-model.ts'
import { modelTeam } from './teams.ts'

const look = defineTool({
  name: 'look',
  description: 'Looks.',
  input: z.object({ at: z.string() }),
  run: ({ at }) => at,
})
const parts = (count: number) =>
  calls(['decompose_task', { subtasks: Array.from({ length: count }, (_, i) => `part ${i}`) }])
const done = calls(['mark_subtask_complete', {}])

/** Plays a model by letters: d takes its task apart, l looks, c completes a sub-task, e ends. */
async function played(
  test: Parameters<typeof modelTeam>[0],
  way: string,
  tools = [look, decomposeTask, markSubtaskComplete],
) {
  const answers: Answers = (_request, nth) => {
    const letter = way[nth] ?? 'e'
    if (letter === 'd') return parts(3)
    if (letter === 'l') return calls(['look', { at: `${nth}` }])
    return letter === 'c' ? done : 'done'
  }
  const { team, model } = modelTeam(test, answers, [{ name: 'ann', maxRounds: 3 }], { tools })
  const result = await team.execute('go')
  return { result, asked: model.requests.length }
}

for (const [way, succeeds] of [
  ['ll', true],
  ['lll', false],
  ['lldllcllcll', true],
  ['dlll', false],
  ['dllclll', false],
  ['ddlll', false], // taking it apart again begins nothing
  ['ccc', false], // nothing was taken apart
  ['dcccccc', false], // there are no more
] as const)
  t.test(`with 3 rounds the way ${way} ${succeeds ? 'comes to its end' : 'escalates'}`, async (t) => {
    const { result, asked } = await played(t, way)
    if (succeeds) t.match(result, { success: true, finalOutput: 'done' })
    else
      t.match(result, {
        success: false,
        error: { code: 'TASK_REFUSED', message: /after 3 rounds of calling tools.*\(maxRounds\)/ },
      })
    t.ok(asked <= way.length + 1)
  })

t.test('the reason names the sub-task', async (t) => {
  t.match((await played(t, 'dllclll')).result.error?.message, /3 rounds of calling tools in sub-task 2 \(maxRounds\)/)
})

t.test('tools that the model does not have begin nothing', async (t) => {
  t.match((await played(t, 'ldllll', [look])).result, { success: false })
})

t.test('a model that goes on taking its task apart comes to an end', async (t) => {
  const { result, asked } = await played(t, 'dccc'.repeat(100))
  t.match(result, { success: false })
  t.ok(asked < 100, `${asked}`)
})

t.test('who is helped by its manager has as many rounds again, and its progress says so', async (t) => {
  const rounds: unknown[] = []
  const answers: Answers = ({ agent }) => {
    if (agent === 'boss') return 'Look less.'
    const { round, maxRounds } = team.getAgent('ann')!.getProgress()!
    rounds.push([round, maxRounds])
    return rounds.length > 4 ? 'done' : calls(['look', { at: `${rounds.length}` }])
  }
  const agents = [{ name: 'ann', maxRounds: 3, escalateTo: 'boss', tools: [look] }, { name: 'boss' }]
  const orchestration = { strategy: 'sequential' as const, agentOrder: ['ann'] }
  const { team } = modelTeam(t, answers, agents, { orchestration })
  t.match(await team.execute('go'), { finalOutput: 'done' })
  t.same(rounds, [
    [1, 3],
    [2, 3],
    [3, 3],
    [4, 6],
    [5, 6],
  ])
})
