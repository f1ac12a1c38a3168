/** Teams of the fixtures in test/fixtures/transport, and scripts for them. */
import { type AgentRole, createTeam, type OrchestratorContext, type Team } from 'dramatis'
import type { Note } from '../fixtures/transport/recorder.ts'
import type { Errand, Letter } from '../fixtures/transport/sender.ts'

export const MIB = 2 ** 20

type Kind = 'asker' | 'echo' | 'recorder' | 'sender'

/** An agent of that kind, named after it. */
export function role(kind: Kind, options: Partial<AgentRole> = {}): AgentRole {
  return { name: kind, module: new URL(`../fixtures/transport/${kind}.js`, import.meta.url), ...options }
}

interface Teardown {
  teardown(task: () => unknown): void
}

export type Script<T> = (orchestrator: OrchestratorContext, team: Team) => Promise<T>

/** Runs a script with those agents on real threads. Returns what the script does, or throws why the run failed. */
export async function play<T>(t: Teardown, agents: AgentRole[], script: Script<T>): Promise<{ value: T; team: Team }> {
  let value: T | undefined
  const team: Team = createTeam({
    agents,
    orchestration: {
      strategy: 'custom',
      async run(orchestrator) {
        value = await script(orchestrator, team)
        return ''
      },
    },
    enableBlackboard: true,
    supervision: { backoff: { baseMs: 0, capMs: 0 } },
  })
  t.teardown(() => team.close())
  const result = await team.execute('go')
  if (!result.success) throw result.error
  return { value: value as T, team }
}

/** Has the recorder begin with a turn that ends at `go`; resolves when it is under way. The answer comes with `go`. */
export async function hold(orchestrator: OrchestratorContext, how: 'hold' | 'crash' | 'ask' = 'hold') {
  const answer = orchestrator.request('recorder', how)
  await orchestrator.blackboard.waitFor('holding')
  return async () => {
    await orchestrator.publish('go', true, 'note')
    return (await answer).content
  }
}

/** What the sender says came of each letter. */
export async function sendBy(
  orchestrator: OrchestratorContext,
  letters: Letter[],
  options: Omit<Errand, 'letters'> = {},
): Promise<string[]> {
  const { structuredData } = await orchestrator.request<Errand, string[]>('sender', 'send', {
    structuredData: { letters, ...options },
  })
  return structuredData
}

/** What has come to the recorder, once it has handled all that was accepted before. */
export async function notes(orchestrator: OrchestratorContext): Promise<Note[]> {
  const { structuredData } = await orchestrator.request<unknown, Note[]>('recorder', 'list', { priority: -(2 ** 31) })
  return structuredData
}

/** Resolves when the host has taken all that was sent before, and has handed over what it could. */
export async function settled(orchestrator: OrchestratorContext): Promise<void> {
  await orchestrator.publish('settled', true, 'note')
  await orchestrator.blackboard.read('settled')
}

export const textsOf = (list: Note[]): string[] => list.map(({ content }) => content)

export const letters = (count: number, letter: Partial<Letter> = {}): Letter[] =>
  Array.from({ length: count }, (_, i) => ({ to: 'recorder', text: String(i), ...letter }))
