/** Agents that agents have made, on real threads, in a team that goes on with the log of an earlier one. */
import { join } from 'node:path'
import t from 'tap'
import { deskAgent, deskOf, first, type Script } from './desk-team.ts'
import { anotherThread } from './held-store.ts'
import { folderOf } from './log-folders.ts'
import { MemoryDisk, MemoryStore } from './memory-store.ts'

const helper = { name: 'helper', module: new URL('../fixtures/durability/keeper.js', import.meta.url).href }

const script: Script = async (desk) => {
  const name = await desk.spawn(helper)
  await desk.request(name, 'keep state kept')
  const said = (await desk.request(name, 'ask really?')).content
  return `${said} | ${(await desk.request(name, 'see state')).content}`
}

t.test('an agent that was made in a run asks on, remembers what it did, and goes with its run', async (t) => {
  const path = join(folderOf(t), 'log')
  const before = deskOf(t, path, script)
  await first(before.launch('go', { runId: 'run' }).events(), 'question')
  await before.close()
  const after = deskOf(t, path, script)
  await after.start()
  const run = after.getRun('run')!
  const [question] = after.questions()
  t.match(question, { agent: 'helper', text: 'really?' })
  await run.answer(question!.questionId, 'yes')
  const { finalOutput, error } = await run.result
  t.equal(finalOutput, 'yes | kept', error?.message ?? 'no error')
  t.equal(after.getAgent('helper'), undefined)
})

t.test('an agent that was removed and added again begins anew, in this process and the next', async (t) => {
  const path = join(folderOf(t), 'log')
  const count: Script = async (desk, query) => (await desk.request('ann', query)).content
  const before = deskOf(t, path, count)
  await before.execute('remember long ago')
  t.equal((await before.execute('count')).finalOutput, '1: remember long ago')
  await before.removeAgent('ann')
  await before.addAgent(deskAgent('ann'))
  t.equal((await before.execute('count')).finalOutput, '0: ')
  await before.execute('remember now')
  await before.close()
  const after = deskOf(t, path, count)
  t.equal((await after.execute('count again')).finalOutput, '1: remember now')
})

t.test('names of former agents in the log take no room from those of today', async (t) => {
  const path = join(folderOf(t), 'log')
  const ask: Script = async (desk, query) => (await desk.request('ann', query)).content
  const models = { default: { complete: async function* () {} } }
  const customers = Array.from({ length: 1_200 }, (_, i) => ({ name: `customer-${i}`, systemPrompt: 'Wait.' }))
  const before = deskOf(t, path, async () => 'begun', { models, agents: customers, threads: { max: 1 } })
  await before.execute('go')
  await before.close()
  const after = deskOf(t, path, ask, { agents: [deskAgent('ann')] })
  t.match(await after.execute('count'), { error: null, finalOutput: '0: ' })
  await after.addAgent(deskAgent('bob'))
  t.equal(await after.getAgent('bob')!.run('count'), '0: ')
})

t.test('an agent that is added while the log is read has the place that the log has for its name', async (t) => {
  const disk = new MemoryDisk()
  let release = () => {}
  const released = new Promise<void>((resolve) => {
    release = resolve
  })
  class LateStore extends MemoryStore {
    override async open(signal?: AbortSignal) {
      await released
      return super.open(signal)
    }
  }
  const ask: Script = async (desk, query) => (await desk.request('zed', query)).content
  const before = deskOf(t, '', ask, { stateManagement: { store: new MemoryStore(disk) } })
  await before.addAgent(deskAgent('zed'))
  await before.execute('remember now')
  await before.close()
  const agents = ['ann', 'cyd', 'dan'].map((name) => deskAgent(name))
  const after = deskOf(t, '', ask, { agents, stateManagement: { store: new LateStore(disk) } })
  const started = after.start()
  const added = after.addAgent(deskAgent('zed'))
  await anotherThread()
  release()
  await Promise.all([started, added])
  t.match(await after.execute('count', { timeoutMs: 10_000 }), { error: null, finalOutput: '1: remember now' })
})
