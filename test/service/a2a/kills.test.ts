/** The service is killed between any two requests of a client: each message is one task, and its effect is there once. */
import t from 'tap'
import { Dice } from '../../dice.ts'
import { howMany } from '../../how-many.ts'
import { ServedShop } from '../chat/served-shop.ts'
import { answerOf, rpc, type Sent, stateOf, textMessage } from './client.ts'

t.test('the service is killed at random moments, also while it asks', async (t) => {
  const shop = new ServedShop(t)
  /** Tries until it works: nobody knows what has become of a request whose connection broke. */
  const send = async (method: string, params: object): Promise<Sent> => {
    for (;;) {
      const sent = await rpc('http://shop', method, params, { fetch: shop.fetch }).catch(() => undefined)
      if (sent?.error) throw new Error(JSON.stringify(sent.error))
      if (sent && sent.results.length > 0) return sent
      await new Promise(setImmediate)
    }
  }
  for (let seed = 1; seed <= howMany(3, 200); seed++) {
    const dice = new Dice(seed)
    const isStreamed = dice.pick([true, false])
    const message = textMessage('use buy lamp')
    const killed = shop.killBehind(dice.upTo(250))
    const ids = new Set<string>()
    let task: { id: string; status: { message?: { metadata: object } } }
    do {
      const { results } = await send(isStreamed ? 'SendStreamingMessage' : 'SendMessage', message) // at any time again
      ids.add(results[0].task.id)
      task = (await send('GetTask', { id: results[0].task.id })).results[0]
      if (stateOf(task) === 'INPUT_REQUIRED')
        await send('SendMessage', textMessage('yes', { taskId: task.id, metadata: task.status.message!.metadata }))
    } while (stateOf(task) !== 'COMPLETED')
    await killed
    t.equal(ids.size, 1, `seed ${seed}: it is one task`)
    t.equal(answerOf(task), 'result: {"done":"lamp"}')
    t.equal(shop.effects.length, seed, 'it was bought once')
  }
})
