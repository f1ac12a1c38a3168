/** Checks the parts and models that a run is given at its launch, and stores parts that are large. */
import { asJson, messageParts, withText } from '../../actors/definition/content.ts'
import type { ModelMessage } from '../../actors/definition/model.ts'
import { type MessagePart, withParts } from '../../mailbox/parts.ts'
import { refusedAs } from '../checks/refused.ts'
import type { Question } from '../log/host-frames.ts'
import type { TeamSettings } from '../settings/settings.ts'
import type { RunState } from '../state/run-state.ts'
import type { Supervisor } from '../supervision/supervisor.ts'

type Needs = Pick<Supervisor, 'directory' | 'parts' | 'runs'>

export class RunIntake {
  readonly #supervisor: Needs
  readonly #settings: Pick<TeamSettings, 'models'>

  constructor(supervisor: Needs, settings: Pick<TeamSettings, 'models'>) {
    this.#supervisor = supervisor
    this.#settings = settings
  }

  /** Stores the large parts of the query and of the messages that the caller gives. */
  take(run: RunState, parts: readonly MessagePart[] | undefined, messages: readonly ModelMessage[]): void {
    const keeper = this.#supervisor.parts.keeperFor(run)
    try {
      run.parts = parts && messageParts(asJson(parts, keeper))
      run.messages = messages.map((message) => ({ ...message, content: asJson(message.content, keeper) }))
    } catch (error) {
      this.forget(run)
      throw error
    }
  }

  /** Forgets a run of which nothing is left. */
  forget(run: RunState): void {
    this.#supervisor.parts.release(run)
    this.#supervisor.runs.forget(run)
  }

  /** Checks that some agent accepts each kind of part. */
  checkParts(parts: readonly MessagePart[] | undefined): void {
    const agents = this.#supervisor.directory.agents()
    for (const [i, { type }] of (parts ?? []).entries()) {
      if (type === 'text' || agents.some(({ settings }) => settings.info.accepts?.includes(type) ?? true)) continue
      const accepted = [...new Set(agents.flatMap(({ settings }) => settings.info.accepts ?? []))].join(', ')
      const advice = 'Say in the role of an agent that it accepts them, or send something else.'
      throw refusedAs(`query[${i}].type`, `"${type}", which no agent accepts`, accepted || 'text alone', advice)
    }
  }

  /** Checks model overrides: each key must be a name that is in use, and each value a model that exists. */
  checkModels(models: Readonly<Record<string, string>>): void {
    const roles = this.#supervisor.directory.agents().map(({ settings }) => settings.info.model)
    for (const name of Object.keys(models)) this.#settings.models.assertOverride(name, models, roles)
  }
}

/** Returns the question to the script. Parts of a query whose text was changed have that text. */
export function questionOf(content: string, { query, parts }: RunState): Question {
  if (!parts) return { content }
  const changed = content === query ? parts : messageParts(withText(parts, content))
  return { content, metadata: JSON.stringify(withParts(undefined, changed)) }
}
