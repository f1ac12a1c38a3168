/** A list of models, on real threads, in a team that goes on with the log of an earlier one. */
import { join } from 'node:path'
import t from 'tap'
import { ModelError } from '../../src/shared/errors.ts'
import { FakeModel } from '../models/fake-model.ts'
import { deskOf, first, type Script } from './desk-team.ts'
import { folderOf } from './log-folders.ts'

t.test('a run stays with the model that it was switched to, also in the next process', async (t) => {
  const path = join(folderOf(t), 'log')
  const limited = new ModelError('Later.', { reason: 'rate_limit', status: 429, retryable: true, retryAfterMs: 40_000 })
  const modelsOf = (fast: FakeModel) => ({
    models: { fast, spare: new FakeModel(() => 'spare'), default: { anyOf: ['fast', 'spare'] as [string, string] } },
  })
  const script: Script = async (desk) => {
    const one = await desk.complete({ prompt: 'One.' })
    await desk.request('ann', 'ask really')
    const two = await desk.complete({ prompt: 'Two.' })
    return `${one.text} ${two.text}`
  }
  const before = deskOf(t, path, script, modelsOf(new FakeModel(() => [limited])))
  await first(before.launch('go', { runId: 'run' }).events(), 'question')
  await before.close()
  const fast = new FakeModel(() => 'fast')
  const after = deskOf(t, path, script, modelsOf(fast))
  await after.start()
  const run = after.getRun('run')!
  await run.answer(after.questions()[0]!.questionId, 'yes')
  t.match(await run.result, { success: true, finalOutput: 'spare spare' })
  t.equal(fast.requests.length, 0)
})
