/** Runs guardrails in the host. Each outcome is an event of the run; the value itself is not in it. */

import { GUARD, type Guardrail, type Verb } from '../../actors/definition/role.ts'
import { jsonIssue } from '../../mailbox/message.ts'
import { isObject } from '../../shared/checks.ts'
import { DramatisError, describe, GuardrailError, MessageRejectedError, shown } from '../../shared/errors.ts'
import { onAbort } from '../../shared/on-abort.ts'
import type { Core } from '../host/core.ts'
import type { RunState } from '../host/run.ts'
import { ANSWER_ANEW } from '../host/steering.ts'
import type { HostVerb, VerbWaiter } from './calls.ts'

/** Place of checks. `agent`: null for the query and the answer of the run. */
export interface GuardedPlace {
  readonly run: RunState
  readonly agent: string | null
  readonly on: 'input' | 'output' | 'tool'
  readonly tool?: string
}

const USUAL_LIMIT_MS = 120_000

export class Guards {
  readonly #core: Core

  constructor(core: Core) {
    this.#core = core
  }

  /** Verb by which turns have their agent's checks run. */
  get verbs(): [Verb, HostVerb][] {
    return [[GUARD, (args, caller, signal) => this.#serve(Object(args), caller, signal)]]
  }

  /**
   * Has the call of a tool checked, and returns its input, changed or not.
   *
   * Rejects with `GuardrailError` for a refusal.
   */
  async inputOf({ agent, run }: VerbWaiter, tool: string, input: unknown, signal: AbortSignal): Promise<unknown> {
    const place: GuardedPlace = { run, agent: agent.name, on: 'tool', tool }
    return (await this.inOrder(agent.settings.guards.tool, { tool, input }, place, signal)).input
  }

  async #serve(
    { on, value, tool, input }: Partial<Record<'on' | 'value' | 'tool' | 'input', unknown>>,
    caller: VerbWaiter,
    signal: AbortSignal,
  ): Promise<unknown> {
    if (on === 'tool') return this.inputOf(caller, String(tool), input, signal)
    const { agent, run } = caller
    const { name, settings } = agent
    const { guards } = settings
    if (typeof value !== 'string')
      throw new MessageRejectedError(`${GUARD}: value is ${shown(value)}.`, { path: 'value' })
    const inputs = value === ANSWER_ANEW ? [] : guards.input // nobody has said that: what somebody said is checked
    switch (on) {
      case 'before':
        return this.inOrder(inputs.filter(isBefore), value, { run, agent: name, on: 'input' }, signal)
      case 'beside':
        return this.atOnce(inputs.filter(isBeside), value, { run, agent: name, on: 'input' }, signal)
      case 'output':
        return this.inOrder(guards.output, value, { run, agent: name, on }, signal)
    }
    throw new MessageRejectedError(`${GUARD}: on is ${shown(on)}.`, { path: 'on' })
  }

  /**
   * Runs checks one after the other, each with what the one before has made of the value. Returns the last value.
   *
   * Rejects with `GuardrailError` for a refusal.
   */
  async inOrder<Value>(
    checks: readonly Guardrail<Value>[],
    value: Value,
    place: GuardedPlace,
    signal: AbortSignal,
  ): Promise<Value> {
    let now = value
    for (const check of checks) now = (await this.#run(check, now, place, signal, true)).value
    return now
  }

  /**
   * Runs checks at the same time. They may not change the value.
   *
   * Rejects with `GuardrailError` for the first refusal; the other checks are ended then.
   */
  async atOnce<Value>(
    checks: readonly Guardrail<Value>[],
    value: Value,
    place: GuardedPlace,
    signal: AbortSignal,
  ): Promise<void> {
    const ending = new AbortController()
    const detach = onAbort(signal, () => ending.abort(signal.reason))
    try {
      await Promise.all(checks.map((check) => this.#run(check, value, place, ending.signal, false)))
    } finally {
      detach()
      ending.abort()
    }
  }

  async #run<Value>(
    check: Guardrail<Value>,
    value: Value,
    place: GuardedPlace,
    signal: AbortSignal,
    mayChange: boolean,
  ): Promise<{ value: Value }> {
    const { run, agent, on, tool } = place
    const began = this.#core.clock.monotonic()
    const note = (outcome: 'passed' | 'changed' | 'refused', reason?: string) =>
      this.#core.journal.record(run, {
        kind: 'guardrail',
        agent,
        guardrail: check.name,
        on,
        outcome,
        durationMs: this.#core.clock.monotonic() - began,
        ...(tool !== undefined && { tool }),
        ...(reason !== undefined && { reason }),
      })
    const refused = (reason: string, cause?: unknown) => {
      note('refused', reason)
      const whose = agent === null ? 'of the run' : `of "${agent}"`
      const what = on === 'tool' ? `a call of the tool "${tool}" ${whose}` : `the ${on} ${whose}`
      const fields = {
        guardrail: check.name,
        on,
        ...(agent !== null && { agent }),
        ...(tool !== undefined && { tool }),
      }
      return new GuardrailError(
        `The guardrail "${check.name}" refuses ${what}: ${reason}`,
        { ...fields, reason },
        cause,
      )
    }
    let verdict: unknown
    try {
      verdict = await this.#ask(check, value, place, signal)
    } catch (error) {
      if (signal.aborted) throw error
      throw refused(`it failed: ${error instanceof DramatisError ? error.message : describe(error)}.`, error)
    }
    if (verdict === undefined) {
      note('passed')
      return { value }
    }
    const { refuse, change } = Object(verdict) as { refuse?: unknown; change?: unknown }
    if (typeof refuse === 'string') throw refused(refuse)
    if (!isObject(verdict) || change === undefined)
      throw refused(`it gave ${shown(verdict)}; undefined, { change } or { refuse: 'why' } is needed.`)
    if (!mayChange) throw refused("it wants to change the input beside the work; set when: 'before'.")
    if (typeof change !== typeof value) throw refused(`it changed the ${on} into ${shown(change)}.`)
    if (on === 'tool' && !('input' in Object(change)))
      throw refused(`it changed the call into ${shown(change)}; { change: { tool, input } } is needed.`)
    const changed = on === 'tool' ? { ...value, input: Object(change).input } : (change as Value)
    const issue = jsonIssue(changed, 'change')
    if (issue) throw refused(`its ${issue.path} is ${issue.got}; a JSON value is needed.`)
    note('changed')
    return { value: changed }
  }

  /** Calls a check. Its code is the user's: it may throw, or never settle. */
  #ask<Value>(
    check: Guardrail<Value>,
    value: Value,
    { run, agent }: GuardedPlace,
    outer: AbortSignal,
  ): Promise<unknown> {
    const { timeoutMs = USUAL_LIMIT_MS } = check
    const ending = new AbortController()
    return new Promise((resolve, reject) => {
      const end = (reason: unknown) => {
        ending.abort(reason)
        reject(reason)
      }
      if (outer.aborted) return end(outer.reason)
      const late = () => end(new GuardrailError(`it did not decide within ${timeoutMs} ms (timeoutMs)`, {}))
      const timer = this.#core.clock.timer(timeoutMs, late, true)
      const detach = onAbort(outer, () => end(outer.reason))
      const asked = async () => check.check(value, { agent, runId: run.id, signal: ending.signal })
      asked()
        .finally(() => {
          timer.cancel()
          detach()
        })
        .then(resolve, reject)
    })
  }
}

export const isBefore = ({ when }: Guardrail): boolean => when === 'before'
export const isBeside = ({ when }: Guardrail): boolean => when !== 'before'
