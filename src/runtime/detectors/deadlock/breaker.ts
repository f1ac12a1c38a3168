/**
 * Ends a deadlock or a stall by rejecting one wait of one turn, the victim. If a wait of that turn was rejected before,
 * in the same deadlock or another, its agent is restarted (rule 26).
 */
import { DeadlockError, type DramatisError, StallError } from '../../../errors.ts'
import { BoundedMap } from '../../log/bounded-map.ts'
import type { Cancellation } from '../../turns/cancellation.ts'
import { type Stuck, sentenceOf } from './stuck.ts'
import { chooseVictim, MOST_IN_A_ROW } from './victim.ts'
import type { OpenWait, TurnNode } from './wait-for-graph.ts'

interface Needs {
  readonly cancellation: Cancellation
}

/** Maximum number of remembered turns with a rejected wait. */
const MOST_REMEMBERED = 1_024

export class Breaker {
  readonly #needs: Needs
  /** Names, the latest last. */
  #victims: string[] = []
  /** Turns whose wait was rejected once. */
  readonly #rejected = new BoundedMap<string, true>(MOST_REMEMBERED)

  constructor(needs: Needs) {
    this.#needs = needs
  }

  /** Rejects a wait, and returns the name of the victim. */
  break(stuck: Stuck): string | undefined {
    const candidates = [...stuck.waits].flatMap(([turn, wait]) =>
      wait.kind === 'reader' || wait.kind === 'place' ? [] : candidate(turn, wait),
    )
    const victim = chooseVictim(candidates, this.#victims)
    if (!victim) return this.#restartOne(stuck)
    const { turn, wait } = victim
    this.#victims = [...this.#victims, turn.cell.name].slice(-MOST_IN_A_ROW)
    const error = errorOf(stuck, turn, wait)
    this.#reject(wait, error)
    this.#again(turn, error)
    return turn.cell.name
  }

  #reject({ request, sent, call, generation }: OpenWait, error: DramatisError): void {
    const { cancellation } = this.#needs
    if (generation) generation.giveUp(error)
    else if (request) cancellation.fail(request.callee, request.envelope, error)
    else if (sent) cancellation.withdraw(sent.callee, sent.envelope, error)
    else call?.fail(error)
  }

  /**
   * Ends the agent's thread if a wait of the same turn was rejected before. The message counts that exit, and becomes a
   * poison message in the end. The turn of a protocol script is the whole run, so a second rejection in it is no sign
   * that it repeats itself.
   */
  #again(turn: TurnNode, error: DramatisError): void {
    if (!turn.cell.settings.isAgent) return
    const key = `${turn.cell.index}.${turn.envelope.turn}`
    if (this.#rejected.has(key)) turn.cell.life?.kill(error)
    else this.#rejected.set(key, true)
  }

  /** Ends the thread of an agent if all of the cycle wait for their readers: no answer can reject such a wait. */
  #restartOne(stuck: Stuck): string | undefined {
    const [turn] = stuck.cycle
    if (!turn) return undefined
    turn.cell.life?.kill(errorOf(stuck, turn, undefined))
    return turn.cell.name
  }
}

const candidate = (turn: TurnNode, wait: OpenWait) => {
  const { name, settings } = turn.cell
  const priority = settings.info.priority ?? 0
  return { turn, wait, agent: name, priority, tokens: tokensOf(turn), since: wait.since }
}

/** Returns the tokens that the turn has spent on models. It is less if the log has discarded a part. */
function tokensOf({ cell, envelope }: TurnNode): number {
  let tokens = 0
  for (const entry of envelope.run.log.entries())
    if (entry.kind === 'model.called' && entry.index === cell.index && entry.turn === envelope.turn)
      tokens += entry.usage.totalTokens
  return tokens
}

function errorOf(stuck: Stuck, victim: TurnNode, wait: OpenWait | undefined): DramatisError {
  const { cycle, tail, turns } = stuck
  const runIds = [...stuck.runs].map(({ id }) => id)
  const agent = victim.cell.name
  const done = wait ? `The wait of "${agent}" was ended` : `The thread of "${agent}" was ended`
  if (cycle.length === 0) {
    const evidence = turns.map(sentenceOf)
    const text = `Nobody is left who could go on: ${evidence.join('; ')}. ${done}. Let somebody write or answer what is waited for before all wait, or give the wait a timeoutMs.`
    return new StallError(text, { agent, evidence, runIds })
  }
  const names = cycle.map(({ cell }) => cell.name)
  const text = `A deadlock: ${cycle.map(sentenceOf).join('; ')}. ${done} so that the others go on. Ask in one order everywhere, or let one of them send what it has before it asks.`
  return new DeadlockError(text, { agent, cycle: names, tail: tail.map(({ cell }) => cell.name), runIds })
}
