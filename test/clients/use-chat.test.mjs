/** The AI SDK of version 7: all of `useChat` but React. Version 6 is a part of `npm test`. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AbstractChat, DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from 'ai'
import { ANN, listen, opening, until } from './shop.mjs'

class State {
  messages = []
  status = 'ready'
  error = undefined
  pushMessage = (message) => {
    this.messages = [...this.messages, message]
  }
  popMessage = () => {
    this.messages = this.messages.slice(0, -1)
  }
  replaceMessage = (at, message) => {
    this.messages = this.messages.with(at, structuredClone(message))
  }
  snapshot = (value) => structuredClone(value)
}

class Chat extends AbstractChat {
  constructor(url, id) {
    super({
      id,
      state: new State(),
      transport: new DefaultChatTransport({ api: `${url}/api/chat`, headers: ANN }),
      sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
    })
  }

  get parts() {
    return (this.lastMessage?.parts ?? []).flatMap((part) => {
      if (part.type === 'text') return `${part.state} ${part.text}`
      return part.type === 'dynamic-tool' ? `${part.toolName} ${part.state}` : []
    })
  }

  async approve(approved) {
    const { approval } = this.lastMessage.parts.find(({ state }) => state === 'approval-requested')
    await this.addToolApprovalResponse({ id: approval.id, approved })
    await until(() => this.status === 'ready' && this.parts.at(-1).startsWith('done result'))
  }
}

test('text, tools, and an approval that is given or not', async (t) => {
  const { url, done, close } = await listen()
  t.after(close)
  const chat = new Chat(url, 'c')
  await chat.sendMessage({ text: 'say Hello there' })
  assert.deepEqual([chat.parts, chat.error], [['done Hello there '], undefined])
  await chat.sendMessage({ text: 'use buy lamp' })
  assert.deepEqual([chat.parts, done], [['done Let me see. ', 'buy approval-requested'], []])
  await chat.approve(true)
  const bought = ['done Let me see. ', 'buy output-available', 'done result: {"done":"lamp"}']
  assert.deepEqual([chat.parts, done, chat.messages.length], [bought, ['buy lamp'], 4])
  await chat.sendMessage({ text: 'use buy car' })
  await chat.approve(false)
  assert.deepEqual([chat.parts[1], done, chat.error], ['buy output-denied', ['buy lamp'], undefined])
})

test('a stream that was cut is resumed, and a message is answered anew', async (t) => {
  const gate = opening()
  const { url, team, close } = await listen({ pause: (word) => (word === 'two' ? gate.promise : undefined) })
  t.after(close)
  const chat = new Chat(url, 'c')
  const sent = chat.sendMessage({ text: 'say one two' })
  await until(() => chat.parts[0]?.endsWith('one '))
  await chat.stop()
  await sent
  const resumed = chat.resumeStream()
  gate.resolve()
  await resumed
  assert.deepEqual([chat.parts, chat.messages.length, chat.status], [['done one two '], 2, 'ready'])
  await chat.regenerate()
  assert.deepEqual([chat.parts, chat.messages.length], [['done one two '], 2])
  assert.equal((await team.listRuns()).length, 2)
})
