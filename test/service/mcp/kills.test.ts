/** The service is killed between any two requests of a client: each task is one, and what it does is done once. */
import t, { type Test } from 'tap'
import { Dice } from '../../dice.ts'
import { howMany } from '../../how-many.ts'
import { ServedShop } from '../chat/served-shop.ts'
import { connect, said, sendRaw, taskIn } from './client.ts'

const URL = 'http://shop'

/** Tries until it works: nobody knows what has become of a request whose connection broke. */
async function again<T>(act: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await act()
    } catch (error) {
      if (/^ERROR|Task not found/.test(String(error))) throw error
      await new Promise(setImmediate)
    }
  }
}

/** Plays a task to its end, as a client of its kind does. Resolves to the ids that it was told, and the answer. */
type Play = (t: Test, shop: ServedShop, key: string, kill: () => void) => Promise<{ ids: string[]; answer: string }>

const meta = (key: string) => ({ 'dramatis/idempotencyKey': key })
const AGREED = { action: 'accept', content: { approve: true } } as const

const plays: Record<string, Play> = {
  async tasks(t, { fetch }, key, kill) {
    const { ask, send } = await connect(t, URL, { fetch, tasks: true, meta: meta(key) })
    kill()
    const ids: string[] = []
    for (;;) {
      const { taskId } = taskIn(await again(() => ask('use buy lamp'))) // it may be sent again at any time
      ids.push(taskId)
      const task = await again(() => send('tasks/get', { taskId }))
      if (task.status === 'completed') return { ids, answer: said(task.result) }
      const inputResponses = Object.fromEntries(Object.keys(task.inputRequests ?? {}).map((each) => [each, AGREED]))
      if (task.inputRequests) await again(() => send('tasks/update', { taskId, inputResponses }))
    }
  },
  async forms(t, { fetch }, key, kill) {
    const { ask } = await connect(t, URL, { fetch, elicits: () => AGREED, meta: meta(key) })
    kill()
    const ids: string[] = []
    for (;;) {
      const result = await again(() => ask('use buy lamp'))
      ids.push(result._meta['dramatis/taskId'])
      if (result._meta['dramatis/status'] === 'finished') return { ids, answer: said(result) }
    }
  },
  async 'tools of 2025'(_t, { fetch }, key, kill) {
    const call = async (name: string, given: object) => {
      const params = { name, arguments: given, _meta: meta(key) }
      const send = () => sendRaw(URL, { jsonrpc: '2.0', id: 1, method: 'tools/call', params }, { fetch })
      return (await again(send)).message.result
    }
    kill()
    const begun = await call('ask_shop', { query: 'use buy lamp' })
    const taskId: string = begun._meta['dramatis/taskId']
    const ids = [taskId, (await call('ask_shop', { query: 'use buy lamp' }))._meta['dramatis/taskId']]
    for (let result = begun; ; result = await call('task_status', { taskId })) {
      if (result._meta['dramatis/status'] === 'finished') return { ids, answer: said(result) }
      for (const { questionId, digest } of result.structuredContent.questions)
        await call('answer_question', { taskId, questionId, digest, answer: 'yes' })
    }
  },
}

t.test('the service is killed at random moments', async (t) => {
  const shop = new ServedShop(t)
  for (let seed = 1; seed <= howMany(3, 200); seed++) {
    const dice = new Dice(seed)
    const kind = dice.pick(Object.keys(plays))
    let killed: Promise<void> | undefined
    const { ids, answer } = await plays[kind]!(t, shop, `k${seed}`, () => {
      killed = shop.killBehind(dice.upTo(250))
    })
    await killed
    t.equal(new Set(ids).size, 1, `${kind}, seed ${seed}: it is one task`)
    t.equal(answer, 'result: {"done":"lamp"}')
    t.equal(shop.effects.length, seed, 'it was bought once')
  }
})
