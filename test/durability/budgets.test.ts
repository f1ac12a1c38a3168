/** Budgets, on real threads, in a team that goes on with the log of an earlier one. */
import { join } from 'node:path'
import t from 'tap'
import type { ModelPiece } from '../../src/actors/definition/model.ts'
import { deskOf, first, type Script } from './desk-team.ts'
import { folderOf } from './log-folders.ts'

/** Each call costs 100 tokens. */
const model = () => {
  const made = {
    calls: 0,
    async *complete(): AsyncGenerator<ModelPiece> {
      made.calls += 1
      yield { text: 'ok' }
      yield { usage: { inputTokens: 50, outputTokens: 50, totalTokens: 100, calls: 1 } }
    },
  }
  return made
}

const think = async (desk: Parameters<Script>[0], times: number): Promise<void> => {
  for (let n = 0; n < times; n++) await desk.complete({ prompt: `thought ${n}`, maxOutputTokens: 50 })
}

t.test('what a team and a run have spent is spent in the next process too', async (t) => {
  const path = join(folderOf(t), 'log')
  const client = model()
  const script: Script = async (desk, query) => {
    if (query === 'other') await think(desk, 1)
    else {
      await think(desk, 2)
      await desk.request('ann', 'ask really')
      await think(desk, 3)
    }
    return 'done'
  }
  const more = {
    models: { default: client },
    budget: { perRun: { tokens: 350 }, perTeam: { tokens: 450, windowMs: 3_600_000 } },
  }
  const before = deskOf(t, path, script, more)
  await first(before.launch('go', { runId: 'run' }).events(), 'question')
  await before.close()
  const after = deskOf(t, path, script, more)
  await after.start()
  const run = after.getRun('run')!
  await run.answer(after.questions()[0]!.questionId, 'yes')
  t.match((await run.result).error, { code: 'BUDGET_EXCEEDED', details: { path: 'budget.perRun.tokens', used: 300 } })
  t.equal(client.calls, 3)
  t.equal((await after.execute('other')).success, true)
  await after.close()
  const last = deskOf(t, path, script, more)
  t.match((await last.execute('other')).error, { details: { path: 'budget.perTeam.tokens', used: 400 } })
})
