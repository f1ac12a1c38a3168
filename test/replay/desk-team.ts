/** Teams whose agents do what their task says, for tests that look at what was logged. */
import { join } from 'node:path'
import type { Test } from 'tap'
import { createTeam, type MultiAgentPatternOptions, type RuntimeEvent } from '../../src/index.ts'
import { folderOf } from '../durability/log-folders.ts'

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
const module = new URL('../fixtures/durability/desk-agent.js', import.meta.url)

export type Script = Extract<MultiAgentPatternOptions['orchestration'], { strategy: 'custom'; run: unknown }>['run']

/** Makes a team of ann and bob. `path`: its log, if it keeps one. */
export function deskTeam(t: Test, run: Script, path: string | undefined, more: Partial<MultiAgentPatternOptions> = {}) {
  process.env.DESK_EFFECTS = join(folderOf(t), 'effects')
  const team = createTeam({
    agents: ['ann', 'bob'].map((name) => ({ name, module, env: ['DESK_EFFECTS'] })),
    ...(path !== undefined && { stateManagement: { path } }),
    logger: silent,
    orchestration: { strategy: 'custom', name: 'a desk', run },
    ...more,
  })
  t.teardown(() => team.close())
  return team
}

/** Waits for the first event of that kind. */
export async function first<Type extends RuntimeEvent['type']>(
  events: AsyncIterable<RuntimeEvent<unknown>>,
  type: Type,
): Promise<Extract<RuntimeEvent<unknown>, { type: Type }>> {
  for await (const event of events)
    if (event.type === type) return event as Extract<RuntimeEvent<unknown>, { type: Type }>
  throw new Error(`no ${type} came`)
}
