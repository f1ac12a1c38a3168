/** The verbs that are a call to the host and no more: the blackboard, sync points, people, and agents that are made. */
import type { Blackboard, BlackboardEntry, WriteOptions } from '../../blackboard/entry.ts'
import { ConfigurationError } from '../../errors.ts'
import { ORCHESTRATOR } from '../../mailbox/message.ts'
import { checkObject, checkText, wrongArgument } from '../definition/checks.ts'
import type { AgentType, AskOptions, SpawnRole, SyncResult } from '../definition/context/context.ts'
import { handled, quiet, rejected } from '../definition/promises.ts'
import { TaskVerbs } from './task-verbs.ts'

export abstract class HostVerbs extends TaskVerbs {
  abstract readonly ended: boolean
  abstract readonly blackboard: Blackboard
  /** Whether there is an `observe` that what it asks for can come to. */
  protected abstract readonly hears: boolean

  publish(key: string, value: unknown, entryType: string, options?: WriteOptions): Promise<BlackboardEntry> {
    return this.blackboard.write(key, value, entryType, options)
  }
  subscribe(pattern: string): Promise<void> {
    return this.#hear('subscribe', { pattern })
  }
  watch(agent: string): Promise<void> {
    return this.#hear('watch', { agent })
  }

  /** What it asks for comes to its `observe`. */
  #hear(verb: 'subscribe' | 'watch', args: { pattern: string } | { agent: string }): Promise<void> {
    if (!this.ended && !this.hears) return rejected(deaf(this.role.name, verb))
    return handled(this.call(verb, args).then(quiet))
  }

  sync<T = unknown>(point: string, data?: T): Promise<SyncResult<T>> {
    return handled(this.#sync(point, data))
  }
  async #sync<T>(point: string, data: T | undefined): Promise<SyncResult<T>> {
    checkText(point, 'point')
    return (await this.call('sync', { point, data })) as SyncResult<T>
  }

  ask(question: string, options: AskOptions = {}): Promise<string> {
    return handled(this.#askPerson(question, options))
  }
  async #askPerson(question: string, options: AskOptions): Promise<string> {
    checkObject(options, 'options')
    const { signal, ...asked } = options
    if (signal !== undefined && !(signal instanceof AbortSignal))
      throw wrongArgument('signal', signal, 'an AbortSignal is needed')
    return (await this.call('ask', { ...asked, question }, signal)) as string
  }

  spawn(role: SpawnRole): Promise<string> {
    return handled(this.#spawn(role))
  }
  async #spawn(role: SpawnRole): Promise<string> {
    checkObject(role, 'role')
    return (await this.call('spawn', role)) as string
  }

  defineAgent(type: AgentType): Promise<string> {
    return handled(this.#define(type))
  }
  async #define(type: AgentType): Promise<string> {
    checkObject(type, 'type')
    return (await this.call('define', type)) as string
  }
}

function deaf(agent: string, verb: string): ConfigurationError {
  const text =
    agent === ORCHESTRATOR
      ? `context.${verb}: a protocol script has no observe, so it would hear of nothing. Let an agent ${verb}.`
      : `context.${verb}: agent "${agent}" has no observe, so it would hear of nothing. Give its definition one.`
  return new ConfigurationError(text, { agent, path: `context.${verb}` })
}
