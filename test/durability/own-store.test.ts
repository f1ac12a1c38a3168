/** A store of somebody's own (`stateManagement.store`): what is told, and to whom, when it fails. */
import { existsSync, readFileSync } from 'node:fs'
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { deskOf } from './desk-team.ts'
import { MemoryDisk, MemoryStore } from './memory-store.ts'

t.test('a store that refuses a write is told of: in the log, by the run, and by the probes', async (t) => {
  const store = new MemoryStore(new MemoryDisk())
  const errors: string[] = []
  const error = (_fields: object, text: string) => void errors.push(text)
  const logger = { debug() {}, info() {}, warn() {}, error }
  const team = deskOf(t, undefined, async () => 'done', { stateManagement: { store }, logger })
  await team.start()
  t.match(team.health(), { ready: true, log: { ok: true, lagMs: 0 } })
  store.append = async () => {
    throw new Error('the table is full')
  }
  const { error: failure } = await team.execute('go')
  t.match(failure, { code: 'LOG_LOST', message: /the table is full/ })
  t.match(errors, [/the durable log is lost: runs are interrupted, and no more are taken/])
  t.match(team.health(), { live: true, ready: false, log: { ok: false } })
  t.match(team.judgement(), { state: 'slow', sentences: [/^the durable log is behind for /] })
})

t.test(
  'the log is given free when no thread works on its turns any more: another process may begin them',
  async (t) => {
    const store = new MemoryStore(new MemoryDisk())
    const leave = async (desk: { request(to: string, text: string): Promise<{ content: string }> }) =>
      (await desk.request('ann', 'leave')).content
    const team = deskOf(t, undefined, leave, { stateManagement: { store } })
    const file = process.env.DESK_EFFECTS!
    const done = () => (existsSync(file) ? readFileSync(file, 'utf8') : '')
    const result = team.execute('go')
    while (done() === '') await turn()
    let byThen: string | undefined
    const close = store.close.bind(store)
    store.close = () => {
      byThen ??= done()
      return close()
    }
    await team.close()
    t.equal(byThen, 'came\nleft\n')
    t.match(await result, { success: false })
  },
)
