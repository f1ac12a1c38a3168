/** A conversation that is handed on in one process, and asked from another; and whose speaker outlives its process. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { engines } from './engines.ts'
import { handingDesk } from './handing-desk.ts'

const PROGRAM = fileURLToPath(new URL('./handing-member.js', import.meta.url))

for (const engine of engines)
  t.test(`on ${engine.name}`, { skip: engine.skip }, async (t) => {
    const { urls, remove } = await engine.start('desk', 1)
    t.teardown(remove)
    const cluster = { url: urls[0]!, name: 'desk' }
    const team = handingDesk(cluster)
    t.teardown(() => team.close())
    await team.start()
    const other = await member(t, cluster)
    while (team.held.size === 0 || (await other.held()).length === 0) await new Promise(setImmediate)

    const held = await other.held()
    let threadId = 'ann'
    for (let i = 0; !held.includes(team.shardOf(threadId)); i++) threadId = `ann ${i}`
    const say = (query: string) => team.execute(query, { threadId })
    const first = await say('My invoice is wrong.')
    t.match(first, { success: true, speaker: 'billing', finalOutput: `billing at ${other.pid} after 2` })
    t.match(await say('And this one?'), { speaker: 'billing', finalOutput: `billing at ${other.pid} after 3` })

    const run = await team.launch('Please refund it.', { threadId })
    let questionId: string | undefined
    while (questionId === undefined) questionId = (await run.questions())[0]?.questionId
    await other.kill()
    await run.answer(questionId, 'yes')
    t.match(await run.result(), {
      success: true,
      speaker: 'billing',
      finalOutput: new RegExp(`billing at ${process.pid}: .*yes`),
    })
    t.match(await say('Thanks.'), { speaker: 'billing' })
  })

async function member(t: Test, cluster: object) {
  const child = fork(PROGRAM, [JSON.stringify(cluster)])
  t.teardown(() => child.kill('SIGKILL'))
  await once(child, 'message')
  return {
    pid: child.pid!,
    async held(): Promise<readonly number[]> {
      child.send('held')
      const [held] = await once(child, 'message')
      return held
    },
    async kill() {
      const ended = once(child, 'exit')
      child.kill('SIGKILL')
      await ended
    },
  }
}
