/** A desk asks a shop by A2A, and either of the two processes is killed: one task there, its effect once. */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import t, { type Test } from 'tap'
import { Dice } from '../dice.ts'
import { howMany } from '../how-many.ts'
import { answerOf, rpc, type Sent, stateOf, textMessage } from '../service/a2a/client.ts'
import { ServedShop } from '../service/chat/served-shop.ts'

/** An address that stays, in front of a service that has another one after each start. */
async function addressOf(t: Test, service: ServedShop): Promise<string> {
  const server = createServer(async (socket) => {
    const on = connect(Number(new URL(await service.url).port), '127.0.0.1')
    for (const [one, other] of [
      [socket, on],
      [on, socket],
    ] as const) {
      one.on('error', () => {})
      one.on('close', () => other.destroy())
      one.pipe(other)
    }
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

t.test('either process is killed at random moments, also while one waits for a person', async (t) => {
  const shop = new ServedShop(t)
  const desk = new ServedShop(t, 'remote/a2a-desk', await addressOf(t, shop))
  const send = async (method: string, params: object): Promise<Sent> => {
    for (;;) {
      const sent = await rpc('http://desk', method, params, { team: 'desk', fetch: desk.fetch }).catch(() => undefined)
      if (sent?.error) throw new Error(JSON.stringify(sent.error))
      if (sent && sent.results.length > 0) return sent
      await new Promise(setImmediate)
    }
  }
  for (let seed = 1; seed <= howMany(3, 50); seed++) {
    const dice = new Dice(seed)
    const message = textMessage('use buy lamp')
    const killed = dice.pick([shop, desk]).killBehind(dice.upTo(600))
    // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of all shapes
    let task: any
    do {
      const { id } = (await send('SendMessage', message)).results[0].task
      task = (await send('GetTask', { id })).results[0]
      if (stateOf(task) === 'INPUT_REQUIRED') {
        const { questionId } = task.status.message.metadata
        await send('SendMessage', textMessage('yes', { taskId: id, metadata: { questionId } }))
      }
    } while (!/COMPLETED|FAILED/.test(stateOf(task)))
    await killed
    t.equal(answerOf(task), 'result: {"done":"lamp"}', JSON.stringify(task.status))
    t.equal(shop.effects.length, seed, `seed ${seed}: it was bought once`)
  }
})
