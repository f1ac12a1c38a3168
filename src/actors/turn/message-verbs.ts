/** The verbs with which a turn talks to other agents. */
import type { DramatisError } from '../../errors.ts'
import { type AgentMessage, ORCHESTRATOR } from '../../mailbox/message.ts'
import type { AgentRef, Outcome, RequestOptions } from '../definition/context/context.ts'
import { handled, rejected } from '../definition/promises.ts'
import { HostVerbs } from './host-verbs.ts'
import { NO_OPTIONS } from './message-frame.ts'
import type { Messenger } from './messenger.ts'
import type { RequestGroups } from './request-groups.ts'
import { allOf, anyOf, quorumOf } from './request-many.ts'
import type { ResponseStream } from './stream.ts'

export abstract class MessageVerbs extends HostVerbs {
  protected abstract readonly messages: Messenger
  /** For requests that are one wait. */
  protected abstract readonly several: RequestGroups
  /** Says of an error what it refuses. */
  protected abstract readonly told: Messenger['told']
  /** Why no verb works any more, if none does. */
  abstract refusal(): DramatisError | undefined

  send(to: string, content: string, options: RequestOptions = NO_OPTIONS): Promise<void> {
    return this.messages.send(to, content, options)
  }
  broadcast(content: string, options: RequestOptions = NO_OPTIONS): Promise<void> {
    return this.messages.broadcast(content, options)
  }
  request<In = unknown, Out = unknown>(
    to: string | AgentRef<In, Out>,
    content: string,
    options: RequestOptions<NoInfer<In>> = NO_OPTIONS as RequestOptions<NoInfer<In>>,
  ): Promise<AgentMessage<Out>> {
    const name = typeof to === 'string' ? to : (to?.name ?? to) // what is neither is refused as it came
    return this.messages.request(name as string, content, options) as Promise<AgentMessage<Out>>
  }
  requestStream(to: string, content: string, options: RequestOptions = NO_OPTIONS): ResponseStream {
    return this.messages.requestStream(to, content, options)
  }
  requestAll(to: string[], content: string, options?: RequestOptions & { concurrency?: number }): Promise<Outcome[]> {
    return this.ended ? rejected(this.refusal()) : handled(allOf(this.several, this.told, to, content, options))
  }
  requestAny(to: string[], content: string, options?: RequestOptions): Promise<AgentMessage> {
    return this.ended ? rejected(this.refusal()) : handled(anyOf(this.several, this.told, to, content, options))
  }
  requestQuorum(to: string[], count: number, content: string, options?: RequestOptions): Promise<AgentMessage[]> {
    return this.ended
      ? rejected(this.refusal())
      : handled(quorumOf(this.several, this.told, to, count, content, options))
  }
  report(content: string, data?: object): Promise<void> {
    const options = data === undefined ? NO_OPTIONS : { structuredData: data }
    return this.messages.report(this.role.escalateTo ?? ORCHESTRATOR, content, options)
  }
}
