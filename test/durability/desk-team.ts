/** Teams of desk agents with a durable log, for tests that go on with the log of an earlier team. */
import { dirname, join } from 'node:path'
import type { Test } from 'tap'
import { createTeam, type MultiAgentPatternOptions, type RuntimeEvent } from '../../src/index.ts'
import { silent } from '../kit/team.ts'
import { folderOf } from './log-folders.ts'

export const module = new URL('../fixtures/durability/desk-agent.js', import.meta.url)

export type Script = Extract<MultiAgentPatternOptions['orchestration'], { strategy: 'custom'; run: unknown }>['run']

/** A team of ann and bob. `path`: its log, if it keeps one, with the file of its effects beside it. */
export function deskOf(t: Test, path: string | undefined, run: Script, more: Partial<MultiAgentPatternOptions> = {}) {
  process.env.DESK_EFFECTS = join(path === undefined ? folderOf(t) : dirname(path), 'effects')
  const team = createTeam({
    agents: ['ann', 'bob'].map((name) => deskAgent(name)),
    ...(path !== undefined && { stateManagement: { path } }),
    logger: silent,
    orchestration: { strategy: 'custom', name: 'a desk', run },
    ...more,
  })
  t.teardown(() => team.close())
  return team
}

export const deskAgent = (name: string) => ({ name, module, env: ['DESK_EFFECTS'] })

/** The first event of that kind. */
export async function first<Type extends RuntimeEvent['type']>(
  events: AsyncIterable<RuntimeEvent<unknown>>,
  type: Type,
): Promise<Extract<RuntimeEvent<unknown>, { type: Type }>> {
  for await (const event of events)
    if (event.type === type) return event as Extract<RuntimeEvent<unknown>, { type: Type }>
  throw new Error(`no ${type} came`)
}
