/** Rings of agents that wait for each other. */

interface WaitBetween {
  readonly agent: string | null
  readonly for: readonly string[]
}

/** Returns each ring once, as the way around it. */
export function cyclesOf(waits: readonly WaitBetween[]): string[][] {
  const next = new Map<string, Set<string>>()
  for (const { agent, for: subjects } of waits)
    if (agent !== null) next.set(agent, new Set([...(next.get(agent) ?? []), ...subjects]))
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
