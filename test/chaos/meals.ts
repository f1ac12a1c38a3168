/** What may not be at a round table, by what the blackboard says of who eats and who has eaten. */
import type { BlackboardEntry } from '../../src/index.ts'

/** Who eats next to somebody who eats, or again while a neighbour is kept waiting, and who has not had all meals. */
export function troubleAtTable(
  entries: readonly BlackboardEntry[],
  neighbours: readonly (readonly [string, string])[],
  meals: number,
): string[] {
  const names = [...new Set(neighbours.flat())]
  const begun = entries.filter(({ key, author }) => key === `${author} eats`).map(({ author }) => author)
  const hungry = names.filter((name) => begun.filter((author) => author === name).length !== meals)
  return [
    ...atOnce(entries, neighbours),
    ...neighbours.flatMap((pair) => inVain(begun, pair)),
    ...hungry.map((name) => `${name} has not eaten ${meals} times`),
  ]
}

function atOnce(entries: readonly BlackboardEntry[], neighbours: readonly (readonly [string, string])[]): string[] {
  const eating = new Set<string>()
  const trouble: string[] = []
  for (const { key, author } of entries) {
    if (key === `${author} has eaten`) eating.delete(author)
    if (key !== `${author} eats`) continue
    eating.add(author)
    for (const pair of neighbours)
      if (pair.includes(author) && pair.every((name) => eating.has(name))) trouble.push(`${pair} eat at once`)
  }
  return trouble
}

/**
 * Two who have begun to share a fork take turns, until one of them is full: who gives it away asks for it in the same message,
 * and who has used it and is asked for it gives it away. Before that one may eat alone, who does not know that the other one
 * is hungry.
 */
function inVain(begun: readonly string[], pair: readonly [string, string]): string[] {
  const meals = begun.filter((author) => pair.includes(author))
  const from = meals.findIndex((author) => author !== meals[0])
  const full = Math.min(...pair.map((name) => meals.lastIndexOf(name)))
  const shared = meals.slice(from, full + 1)
  const again = shared.find((author, n) => n > 0 && author === shared[n - 1])
  return again === undefined ? [] : [`${again} eats again while its neighbour waits, of ${pair}`]
}
