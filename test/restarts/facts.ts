/**
 * Fold of what a log says beside open work: states, shared values, blackboards, tasks, dead letters. After each block it is
 * compared with what the supervisor itself has, as far as the block can have changed it.
 */
import { isDeepStrictEqual } from 'node:util'
import type { AgentTask } from '../../src/actors/definition/task.ts'
import type { BlackboardEntry } from '../../src/blackboard/entry.ts'
import { END, kindOf, lengthOf, PATCH, senderOf } from '../../src/mailbox/frame.ts'
import { RecoveredTeam } from '../../src/runtime/durability/recovered-run.ts'
import type { LogEntry } from '../../src/runtime/log/records.ts'
import type { Supervisor } from '../../src/runtime/supervision/host.ts'

interface Shared {
  readonly scope: string
  readonly owner?: number
  readonly key: string
  readonly version: number
  readonly value?: unknown
}

/** What of a run a block can have changed. */
interface Touched {
  readonly agents: Set<number>
  readonly tasks: Set<string>
  board: boolean
}

export class Facts {
  readonly #team = new RecoveredTeam(0)
  readonly #boards = new Map<number, Map<string, BlackboardEntry>>()
  readonly #tasks = new Map<number, Map<string, AgentTask>>()
  readonly #names = new Map<number, string>()
  /** By run, 0 for the team. */
  readonly #touched = new Map<number, Touched>()

  see(entry: LogEntry): void {
    if (entry.kind !== 'frames') this.#team.see(entry)
    switch (entry.kind) {
      case 'frames': {
        const { memory, run } = entry
        for (let at = entry.from; at < entry.to; at += lengthOf(memory, at)) {
          if (kindOf(memory, at) !== PATCH && kindOf(memory, at) !== END) continue
          this.#team.states.frame(memory, at, run, undefined)
          this.#touch(run).agents.add(senderOf(memory, at))
        }
        return
      }
      case 'state':
        this.#touch(0).agents.add(entry.index)
        return
      case 'blackboard': {
        const board = this.#boards.get(entry.run) ?? new Map<string, BlackboardEntry>()
        this.#boards.set(entry.run, board.set(`${entry.entry.version} ${entry.entry.key}`, entry.entry))
        this.#touch(entry.run).board = true
        return
      }
      case 'task': {
        const tasks = this.#tasks.get(entry.run) ?? new Map<string, AgentTask>()
        this.#tasks.set(entry.run, tasks.set(entry.task.id, entry.task))
        this.#touch(entry.run).tasks.add(entry.task.id)
        return
      }
      case 'name': {
        const name = `${entry.run} ${entry.name}`
        if ((this.#names.get(entry.index) ?? name) !== name) this.#team.forgetAgent(entry.index) // of a run that is over
        this.#names.set(entry.index, name)
        return
      }
      case 'agent.left':
        return this.#team.forgetAgent(entry.index)
      case 'runs.gone':
        for (const run of entry.runs) this.#forget(run)
    }
  }

  #touch(run: number): Touched {
    let touched = this.#touched.get(run)
    if (!touched) {
      touched = { agents: new Set(), tasks: new Set(), board: false }
      this.#touched.set(run, touched)
    }
    return touched
  }

  #forget(run: number): void {
    this.#team.states.forget(run)
    for (const each of [this.#boards, this.#tasks, this.#touched]) each.delete(run)
  }

  /** What the log and the supervisor do not agree about, of what was seen since the last time. */
  differences(host: Supervisor): string[] {
    const touched = [...this.#touched]
    this.#touched.clear()
    return [...touched.flatMap(([run, of]) => this.#differencesOf(host, run, of)), ...this.#differencesOfTeam(host)]
  }

  #differencesOf(host: Supervisor, index: number, { agents, tasks, board }: Touched): string[] {
    const { directory } = host
    const { byIndex } = directory
    const found: string[] = []
    const compare = (what: string, logged: unknown, live: unknown) => {
      if (!isDeepStrictEqual(plain(logged), plain(live)))
        found.push(`${what} is ${JSON.stringify(live)}, and by the log ${JSON.stringify(logged)}`)
    }
    // An agent that went with its run is not there, though a process has perhaps died before it could log that.
    for (const agent of agents)
      if (byIndex[agent] && directory.present(agent))
        compare(`the state of ${byIndex[agent].name}`, this.#team.states.ofAgents.get(agent), byIndex[agent].state)
    const run = host.runs.get(index)
    if (!run) return found
    for (const agent of agents) {
      const name = byIndex[agent]?.name
      compare(`the state of ${name} in ${run.id}`, this.#team.states.ofRun(index).get(agent), run.states.get(agent))
    }
    for (const id of tasks) compare(`task ${id}`, this.#tasks.get(index)?.get(id), run.tasks.get(id))
    const written = board && host.boards.board(run)?.written
    if (board)
      compare(`the blackboard of ${run.id}`, [...(this.#boards.get(index)?.values() ?? [])], [...(written || [])])
    return found
  }

  #differencesOfTeam({ directory, journal, sharedStates }: Supervisor): string[] {
    const lettersOf = (list: RecoveredTeam['letters']) =>
      Array.from(list.entries, ({ letter: { id, reason } }) => `${id} ${reason}`)
    // Those of agents that are leaving go at their own moment.
    const sharedOf = (facts: Iterable<Shared>) =>
      [...facts]
        .filter(({ owner }) => owner === undefined || directory.present(owner))
        .map(({ scope, owner, key, version, value }) => JSON.stringify([scope, owner, key, version, value]))
    return [
      ...unequal('dead letters', lettersOf(this.#team.letters), lettersOf(journal.deadLetters)),
      ...unequal('shared values', sharedOf(this.#team.shared), sharedOf(sharedStates.facts())),
    ]
  }
}

const plain = (value: unknown): unknown => (value === undefined ? undefined : JSON.parse(JSON.stringify(value)))

function unequal(what: string, logged: readonly string[], live: readonly string[]): string[] {
  const [of, has] = [[...logged].sort(), [...live].sort()]
  return isDeepStrictEqual(of, has) ? [] : [`the ${what} are ${has.join(', ')}; by the log ${of.join(', ')}`]
}
