/** The database fails over to a standby that lacks the end of a log, and the owner of that log is dead: all is told. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { postgresFolder } from '../../examples/cluster-demo/postgres-server.ts'
import { clusterTeam } from '../cluster/served.ts'
import { Replicas } from './replicas.ts'

const bin = postgresFolder()
const PROGRAM = fileURLToPath(new URL('../cluster/served-member.js', import.meta.url))

const skip = !bin && 'no PostgreSQL is installed here'

t.test('what is lost with its owner is told', { skip }, async (t) => {
  const { before, behind, other, lostBytes } = await cut(t, 'tell')
  for (const run of [before, behind])
    t.match((await run.result()).error, { code: 'PAST_LOST', message: /lost its last moments/ }, run.id)
  t.ok(lostBytes() > 0, `the log says that ${lostBytes()} bytes are lost`)
  t.match(await other.execute('slow'), { success: true, finalOutput: 'slow, done' }, 'others go on')
})

t.test('or what the log has goes on, and the rest is done again', { skip }, async (t) => {
  const { before, behind, lostBytes } = await cut(t, 'continue')
  for (const run of [before, behind]) {
    let question: { questionId: string } | undefined
    while (!question) [question] = await run.questions()
    await run.answer(question.questionId, 'yes')
    t.match(await run.result(), { success: true, finalOutput: 'order: yes' }, run.id)
  }
  t.ok(lostBytes() > 0)
})

/** Has a standby take over that lacks the end of a log whose owner dies at the same time. */
async function cut(t: Test, onCut: 'tell' | 'continue') {
  const replicas = await Replicas.start(bin!, 2, false)
  t.teardown(() => replicas.remove())
  const options = (member: number) => ({ url: replicas.urlOf(member), name: 'past', shards: 1, onCut })
  const owner = fork(PROGRAM, [JSON.stringify(options(0))], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
  t.teardown(() => owner.kill('SIGKILL'))
  await once(owner, 'message')
  const held = async () => {
    owner.send('held?')
    return ((await once(owner, 'message'))[0] as number[]).length
  }
  while ((await held()) < 1) await sleep(20)

  const warned: { lostBytes?: number }[] = []
  const logger = { debug() {}, info() {}, warn: (fields: object) => void warned.push(fields), error() {} }
  const other = clusterTeam(options(1), { logger })
  t.teardown(() => other.close())
  await other.start()
  const asked = async (runId: string) => {
    const run = await other.launch('order', { runId })
    while ((await run.questions()).length === 0) await sleep(20)
    return run
  }
  const before = await asked('before')
  await replicas.catchUp()
  replicas.fallBehind()
  const behind = await asked('behind')
  let looks = 0
  const enough = await (await other.door()).onLook(() => {
    looks += 1
  })
  while (looks < 3) await sleep(20) // it has seen how long the log is
  enough()

  owner.kill('SIGKILL')
  await replicas.failOver('kill', 0)
  const lostBytes = () => warned.reduce((sum, { lostBytes: some = 0 }) => sum + some, 0)
  return { before, behind, other, lostBytes }
}
