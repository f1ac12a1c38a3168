/** Rings of agents that wait for each other. */

interface WaitBetween {
  readonly agent: string | null
  readonly for: readonly string[]
  readonly kind: string
}

/** Kinds whose `for` has agents: a tool, a step or an entry may have the name of one. */
const FOR_AGENTS: ReadonlySet<string> = new Set(['request', 'delegate', 'dependency', 'mailbox', 'reader', 'sync'])

/** Checks for a wait for other agents. */
export const isForAgents = ({ kind }: Pick<WaitBetween, 'kind'>): boolean => FOR_AGENTS.has(kind)

/** Returns each ring once, as the way around it. */
export function cyclesOf(waits: readonly WaitBetween[]): string[][] {
  const next = new Map<string, Set<string>>()
  for (const wait of waits) {
    const { agent, for: subjects } = wait
    if (agent !== null && isForAgents(wait)) next.set(agent, new Set([...(next.get(agent) ?? []), ...subjects]))
  }
  const done = new Set<string>()
  const found: string[][] = []
  const visit = (name: string, way: string[]) => {
    const at = way.indexOf(name)
    if (at >= 0) found.push(way.slice(at))
    if (at >= 0 || done.has(name)) return
    done.add(name)
    for (const to of next.get(name) ?? []) visit(to, [...way, name])
  }
  for (const name of next.keys()) visit(name, [])
  return found
}
