/** How full the contexts of agents are: asked for while somebody looks, since the digest does not have it. */
import { signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import type { z } from 'zod'
import type { listedAgent } from '../../../http/schemas.ts'
import { begun, live, version } from './live.ts'
import { ask } from './service.ts'
import { team } from './session.ts'

export interface Fill {
  readonly tokens: number
  readonly maxTokens: number
}

const PAUSE_MS = 3_000

const found = signal<{ team: string; fills: ReadonlyMap<string, Fill> }>({ team: '', fills: new Map() })
let nextAt = 0

/** Returns the contexts of agents that a model plays, by their names. A team whose models said nothing is not asked. */
export function useContexts(): ReadonlyMap<string, Fill> {
  version.value
  const agents = [...live().agents.values()]
  const spent = agents.reduce((sum, agent) => sum + agent.inputTokens + agent.outputTokens, 0)
  const turns = agents.reduce((sum, agent) => sum + agent.turns, 0) // a context has an answer when its turn has ended
  const key = `${team.value} ${begun.value} ${spent} ${turns}`
  useEffect(() => {
    if (spent === 0) return
    const pause = found.peek().team === team.peek() ? Math.max(0, nextAt - Date.now()) : 0
    const timer = setTimeout(() => void look(team.peek()), pause)
    return () => clearTimeout(timer)
  }, [key])
  const { team: of, fills } = found.value
  return of === team.value ? fills : NONE
}

const NONE: ReadonlyMap<string, Fill> = new Map()

async function look(asked: string): Promise<void> {
  nextAt = Date.now() + PAUSE_MS
  const page = await ask<{ agents: z.infer<typeof listedAgent>[] }>('api/agents', {
    query: { team: asked, context: '1' },
  }).catch(() => undefined) // the banner says that nobody answers
  if (!page || asked !== team.peek()) return
  const fills = new Map(page.agents.flatMap(({ name, context }) => (context ? [[name, context] as const] : [])))
  found.value = { team: asked, fills }
}
