/** Check for cycles in the delegation graph, because tasks that are delegated in a cycle never end. */
import type { AgentRole } from '../actors/definition/role.ts'
import { refusedAs } from '../runtime/checks/refused.ts'

/** Throws for the first delegation that leads back to its origin, with its path. */
export function refuseCycles(agents: readonly AgentRole[]): void {
  const takers = new Map(agents.map(({ name, canDelegateTo = [] }) => [name, canDelegateTo]))
  const done = new Set<string>()
  // No recursion, because a chain of delegations may be as long as the team is large.
  for (const { name } of agents) {
    const way: { name: string; next: number }[] = [{ name, next: 0 }]
    for (let last = way.at(-1); last; last = way.at(-1)) {
      const to = takers.get(last.name)?.[last.next]
      if (to === undefined || done.has(last.name)) {
        done.add(last.name)
        way.pop()
        continue
      }
      const back = way.findIndex((each) => each.name === to)
      if (back >= 0) throw cycle(last, [...way.slice(back).map((each) => each.name), to])
      last.next += 1
      way.push({ name: to, next: 0 })
    }
  }
}

function cycle({ name, next }: { name: string; next: number }, round: readonly string[]): Error {
  const got = `"${round.at(-1)}", which closes a circle of delegations: ${round.join(' -> ')}`
  const advice = 'Take one of them out; who needs an answer can ask by a request.'
  return refusedAs(`agents.${name}.canDelegateTo[${next}]`, got, 'a graph without circles', advice)
}
