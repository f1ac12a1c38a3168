/** Connections break and the service is killed at random moments: no word is lost or shown twice, nothing is done twice. */
import type { UIMessage } from 'ai'
import type { Test } from 'tap'
import t from 'tap'
import { Dice } from '../../dice.ts'
import { howMany } from '../../how-many.ts'
import { answerIn, type Chat, openChat, served } from './desk.ts'
import { ServedShop } from './served-shop.ts'

const ANN = { 'x-caller': 'ann:run' }
const WORDS = Array.from({ length: 24 }, (_, n) => `w${n}`)
const QUERIES = [`say ${WORDS.join(' ')}`, 'use find lamp', 'use buy lamp', 'think twice']

/** Fetches, and breaks the connection behind that many bytes of the answer. */
const cutBehind =
  (bytes: () => number): typeof fetch =>
  async (...request) => {
    const response = await fetch(...request)
    let left = bytes()
    const cut = new TransformStream<Uint8Array, Uint8Array>({
      transform(piece, controller) {
        if (piece.byteLength > left) controller.error(new TypeError('the connection was cut'))
        else controller.enqueue(piece)
        left -= piece.byteLength
      },
    })
    const body = response.body?.pipeThrough(cut) ?? null
    return new Response(body, { status: response.status, headers: response.headers })
  }

/** Plays a message until its answer is complete, as a page does that is opened again whenever something breaks. */
async function play(chat: Chat, text: string): Promise<void> {
  const has = chat.messages.length
  await chat.sendMessage({ text })
  for (;;) {
    const { after } = Object(Object(chat.lastMessage?.metadata).dramatis) as { after?: string }
    const isWhole = chat.lastMessage?.role === 'assistant' && after !== undefined && chat.status === 'ready'
    if (isWhole && chat.approval === undefined) return
    chat.errors.length = 0
    if (isWhole) await chat.approve(true)
    else if (chat.messages.length === has + 1)
      await chat.sendMessage() // nobody knows whether it has arrived
    else await chat.resumeStream()
  }
}

/** Checks a chat when all has been said: against the runs, and against what its page is given anew. */
async function check(t: Test, chat: Chat, url: string): Promise<void> {
  const { messages } = (await (await fetch(`${url}/api/chat/${chat.id}`, { headers: ANN })).json()) as {
    messages: UIMessage[]
  }
  t.same(
    chat.messages.map(({ id }) => id),
    messages.map(({ id }) => id),
  )
  for (const message of chat.messages) {
    if (message.role === 'user') continue
    const { runId } = Object(message.metadata).dramatis
    const task = (await (await fetch(`${url}/api/tasks/${runId}`, { headers: ANN })).json()) as { answer: string }
    t.equal(answerIn(message), task.answer)
    const calls = message.parts.flatMap((part) => ('toolCallId' in part ? [part] : []))
    t.equal(new Set(calls.map(({ toolCallId }) => toolCallId)).size, calls.length, 'no call twice')
    t.ok(calls.every(({ state }) => state === 'output-available'))
  }
}

t.test('connections are cut at random moments', async (t) => {
  const { team, done, chat, url } = await served(t)
  for (let seed = 1; seed <= howMany(13, 500); seed++) {
    const dice = new Dice(seed)
    const bytes = () => (dice.chance(0.3) ? Number.POSITIVE_INFINITY : dice.upTo(3_000))
    const talk = chat(`c${seed}`, { fetch: cutBehind(bytes) })
    const before = done.length
    const text = dice.pick(QUERIES)
    await play(talk, text)
    await check(t, talk, url)
    t.equal((await team.listRuns({ threadId: talk.id })).length, 1, 'the message has one run')
    t.same(done.slice(before), text.startsWith('use') ? [text.slice('use '.length)] : [], `seed ${seed}`)
  }
})

t.test('the service is killed at random moments', async (t) => {
  const shop = new ServedShop(t)
  let asked = 0
  for (let seed = 1; seed <= howMany(2, 50); seed++) {
    const dice = new Dice(seed)
    const talk = openChat('http://shop/api/chat', `c${seed}`, { fetch: shop.fetch })
    const text = dice.pick(QUERIES)
    if (text.startsWith('use')) asked++
    const killed = shop.killBehind(dice.upTo(150))
    await play(talk, text)
    await killed
    await check(t, talk, await shop.url)
    t.equal(shop.effects.length, asked, `seed ${seed}`)
  }
})
