/** A provider that answers orders, and keeps an account of what it was asked and what it was paid for, as long as an order is open. */
import { type ModelServer, modelServer, type SeenCall } from '../fixtures/model-server.ts'
import type { Answer } from '../fixtures/model-wire.ts'
import { answerTo, type Order, orderIn, textOf } from './orders.ts'

interface Asked {
  /** How often the call has come. */
  times: number
  /** How often it was answered to the end. */
  paid: number
}

export class Provider {
  readonly wrong: string[] = []
  calls = 0
  readonly #server: ModelServer
  /** By the number of the order, then by what was asked. */
  readonly #open = new Map<number, Map<string, Asked>>()

  private constructor(server: ModelServer) {
    this.#server = server
    server.always((call) => this.#answer(call))
  }

  static async start(t: Parameters<typeof modelServer>[0]): Promise<Provider> {
    return new Provider(await modelServer(t))
  }

  get baseURL(): string {
    return this.#server.baseURL
  }

  /** Calls under way. */
  get open(): number {
    return this.#server.open
  }

  begin({ number }: Order): void {
    this.#open.set(number, new Map())
  }

  /** The run has ended: nothing more may be asked for it. */
  end({ number }: Order): void {
    this.#open.delete(number)
  }

  close(): Promise<void> {
    return this.#server.close()
  }

  #answer(call: SeenCall): Answer {
    this.calls += 1
    this.#server.forget()
    const order = orderIn(call.body)
    if (order?.kind === 'aborted' && !this.#open.has(order.number)) return { status: 400 } // it was on its way by then
    const open = order && this.#open.get(order.number)
    if (!open) {
      this.wrong.push(order ? `${textOf(order)}: a call after its end` : `a call for no order: ${call.prompt}`)
      return { status: 400 }
    }
    const key = JSON.stringify(call.body.messages)
    const asked = open.get(key) ?? { times: 0, paid: 0 }
    open.set(key, asked)
    const { answer, paid } = answerTo(order, call.body, asked.times)
    asked.times += 1
    if (asked.paid > 0) this.wrong.push(`${textOf(order)}: asked again after it was answered`)
    if (paid)
      void call.ended.then((ended) => {
        if (ended === 'answered') asked.paid += 1
      })
    return answer
  }
}
