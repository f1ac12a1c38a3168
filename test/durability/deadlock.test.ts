/** A deadlock that closes in a later process is found there, also one over the answers of several. */
import { join } from 'node:path'
import t from 'tap'
import { deskOf, first, type Script } from './desk-team.ts'
import { folderOf } from './log-folders.ts'

const module = new URL('../fixtures/durability/circle.js', import.meta.url)
const agents = ['ann', 'bob', 'cid'].map((name) => ({ name, module }))
const script: Script = async (desk, query) => (await desk.request('ann', query)).content

for (const [query, ends] of [
  ['all bob cid', { finalOutput: 'AGENT_FAILED,ok' }],
  ['quorum bob cid', { error: { message: /deadlock/i } }],
] as const)
  t.test(`a circle over "${query}" that closes in the next process is broken`, async (t) => {
    const path = join(folderOf(t), 'log')
    const before = deskOf(t, path, script, { agents })
    await first(before.launch(query, { runId: 'one' }).events(), 'question')
    await before.close()
    const team = deskOf(t, path, script, { agents })
    await team.start()
    const run = team.getRun('one')!
    await run.answer((await first(run.events(), 'question')).questionId, 'yes')
    t.match(await run.result, ends)
    t.ok(run.trace.events.some(({ eventType }) => /deadlock/.test(eventType)))
  })
