/** A shop whose model, tools and clerk do what they are told, served over HTTP, and a chat of the AI SDK with it. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import {
  AbstractChat,
  type ChatInit,
  type ChatState,
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  type UIMessage,
} from 'ai'
import type { Test } from 'tap'
import { defineAgent } from '../../../src/index.ts'
import { type HttpApiOptions, httpApi } from '../../../src/service/api/index.ts'
import { testTeam } from '../../../src/testing.ts'
import { silent } from '../../kit/team.ts'
import { callerOf } from '../http/stage.ts'
import { openShop, type Shop } from './shop.ts'

type Given = Partial<HttpApiOptions> & Omit<Shop, 'does'>

export async function served(t: Test, { state, pause, ...options }: Given = {}) {
  const done: string[] = []
  const team = openShop({ state, pause, does: (what) => done.push(what) })
  const clerk = testTeam(
    { agents: [{ name: 'clerk' }], orchestration: { strategy: 'sequential' }, logger: silent },
    {
      modules: {
        clerk: defineAgent({
          async receive({ content }, context) {
            if (content === 'fail') throw new Error('no ink')
            return `you said ${await context.ask('Red or blue?', { choices: ['red', 'blue'] })}`
          },
        }),
      },
    },
  )
  const api = httpApi({
    teams: { shop: team, clerk },
    authorize: callerOf,
    logger: silent,
    ...options,
    limits: { postsPerSecond: 10_000, getsPerSecond: 10_000, ...options.limits },
  })
  const server = createServer(api.node).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const close = async () => {
    await api.close({ teams: true })
    server.close()
    server.closeAllConnections()
  }
  t.teardown(close)
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const chat = (id: string, given?: Opened) => openChat(`${url}/api/chat`, id, given)
  /** Sends a request that no client would. */
  const ask = async (
    method: string,
    path: string,
    { caller = 'ann:run', body }: { caller?: string; body?: unknown } = {},
  ) => {
    const headers = { 'x-caller': caller, 'content-type': 'application/json' }
    const response = await fetch(url + path, {
      method,
      headers,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    return { status: response.status, text: await response.text() }
  }
  const clerkChat = (id: string) => openChat(`${url}/api/chat?team=clerk`, id)
  return { team, api, done, url, close, chat, clerkChat, ask }
}

interface Opened extends Omit<ChatInit<UIMessage>, 'id' | 'transport'> {
  caller?: string
  fetch?: typeof globalThis.fetch
}

/** All of `useChat` but React. */
export function openChat(api: string, id: string, { caller = 'ann:run', fetch, ...init }: Opened = {}): Chat {
  const errors: string[] = []
  const chat = new Chat({
    id,
    transport: new DefaultChatTransport({ api, headers: { 'x-caller': caller }, ...(fetch && { fetch }) }),
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
    onError: (error) => errors.push(error.message),
    ...init,
    state: new State(init.messages),
  })
  return Object.assign(chat, { errors })
}

class State implements ChatState<UIMessage> {
  messages: UIMessage[]
  status: ChatState<UIMessage>['status'] = 'ready'
  error: Error | undefined

  constructor(messages: UIMessage[] = []) {
    this.messages = messages
  }

  pushMessage = (message: UIMessage) => {
    this.messages = [...this.messages, message]
  }
  popMessage = () => {
    this.messages = this.messages.slice(0, -1)
  }
  replaceMessage = (at: number, message: UIMessage) => {
    this.messages = this.messages.with(at, structuredClone(message))
  }
  snapshot = <T>(value: T): T => structuredClone(value)
}

export class Chat extends AbstractChat<UIMessage> {
  errors: string[] = []

  /** The last message, each part in short. */
  get shown(): string[] {
    return (this.lastMessage?.parts ?? []).map(shownPart)
  }

  get answer(): string {
    return answerIn(this.lastMessage)
  }

  /** Resolves when the last message is shown so. */
  async until(isShown: (shown: string) => boolean): Promise<void> {
    while (!isShown(`${this.status} ${this.shown.join('; ')}`)) await new Promise(setImmediate)
  }

  /** Id of the approval that the last message asks for; undefined: it asks for none. */
  get approval(): string | undefined {
    const part = this.lastMessage?.parts.find((each) => 'state' in each && each.state === 'approval-requested')
    return part && (Reflect.get(part, 'approval').id as string)
  }

  /** Answers the approval that the last message asks for, and waits for what follows. */
  async approve(approved: boolean, reason?: string): Promise<void> {
    const answered = this.lastMessage!.parts.filter(({ type }) => type === 'step-start').length
    await this.addToolApprovalResponse({ id: this.approval!, approved, ...(reason && { reason }) })
    const isOver = () => this.errors.length > 0 || this.shown.filter((part) => part === 'step-start').length > answered
    await this.until((shown) => isOver() && /^(ready|error) /.test(shown))
  }
}

/** What a message says as the answer: its texts that were not superseded. */
export function answerIn({ parts = [] }: Partial<UIMessage> = {}): string {
  const fallen = parts.flatMap((part) => (part.type === 'data-superseded' ? [part.id] : []))
  const texts = parts.flatMap((part) => (part.type === 'text' ? [part] : []))
  const counted = texts.filter(({ providerMetadata }) => !fallen.includes(providerMetadata?.dramatis?.id as string))
  return counted.map(({ text }) => text).join('')
}

function shownPart(part: UIMessage['parts'][number]): string {
  if (part.type === 'text' || part.type === 'reasoning') return `${part.type} ${part.state}: ${part.text}`
  if (part.type === 'dynamic-tool')
    return `${part.toolName} ${part.state}: ${JSON.stringify(part.output ?? part.errorText ?? part.input)}`
  return 'data' in part ? `${part.type} ${JSON.stringify(part.data)}` : part.type
}

/** A promise, and what resolves it. */
export function opening(): { promise: Promise<void>; resolve: () => void } {
  let resolve = () => {}
  const promise = new Promise<void>((opened) => {
    resolve = opened
  })
  return { promise, resolve: () => resolve() }
}
