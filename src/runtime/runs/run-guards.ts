/** Guardrails of the team around a run: of its query, before the run begins or beside it, and of its answer. */
import { DramatisError } from '../../errors.ts'
import type { AgentGuards } from '../settings/guardrail-shape.ts'
import { type Guards, isBefore, isBeside } from '../verbs/guards.ts'
import type { RunEntry } from './run-entries.ts'

interface Needs {
  readonly guards: Guards
  /** Guardrails of the team. */
  readonly checks: AgentGuards
  /** Ends a run with an error. */
  fail(entry: RunEntry, error: DramatisError): void
}

export class RunGuards {
  readonly #needs: Needs

  constructor(needs: Needs) {
    this.#needs = needs
  }

  /** True if queries are checked. */
  get asks(): boolean {
    return this.#needs.checks.input.length > 0
  }

  /**
   * Has the query checked, and begins the checks beside the run. Resolves to it, changed or not; to undefined if it is
   * refused.
   */
  async query(entry: RunEntry): Promise<string | undefined> {
    const { checks, guards } = this.#needs
    const { state } = entry.handle
    const place = { run: state, agent: null, on: 'input' } as const
    try {
      const query = await guards.inOrder(checks.input.filter(isBefore), state.query, place, state.ended)
      this.beside(entry, query)
      return query
    } catch (error) {
      this.#failed(entry, error)
      return undefined
    }
  }

  /** Checks the query beside the run, which has no answer before. */
  beside(entry: RunEntry, query = entry.handle.state.query): void {
    const { checks, guards } = this.#needs
    const { state } = entry.handle
    const besides = checks.input.filter(isBeside)
    if (besides.length === 0) return
    entry.checked = guards.atOnce(besides, query, { run: state, agent: null, on: 'input' }, state.ended)
    entry.checked.catch((error: unknown) => this.#failed(entry, error))
  }

  /** Checks whether an answer has to wait. */
  holds({ checked }: RunEntry): boolean {
    return checked !== undefined || this.#needs.checks.output.length > 0
  }

  /** Has the answer of a run checked, by all that checks it. Resolves to it, changed or not. */
  async answer({ handle, checked }: RunEntry, content: string): Promise<string> {
    const { checks, guards } = this.#needs
    if (checked) await checked
    if (checks.output.length === 0) return content
    const { state } = handle
    return guards.inOrder(checks.output, content, { run: state, agent: null, on: 'output' }, state.ended)
  }

  #failed(entry: RunEntry, error: unknown): void {
    if (entry.handle.state.over) return
    if (!(error instanceof DramatisError)) throw error
    this.#needs.fail(entry, error)
  }
}
