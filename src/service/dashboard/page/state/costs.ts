/** Keeps what tasks have cost, by the prices that the service was given: asked once of each task that has ended. */
import { signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import type { Task } from '../../../http/schemas.ts'
import { ask } from './service.ts'
import { session } from './session.ts'

export type Cost = NonNullable<Task['cost']>

const costs = signal<ReadonlyMap<string, Cost>>(new Map())
const asked = new Set<string>()

/** Returns the costs of tasks that are known by now. `ended`: ids of tasks whose costs are wanted. */
export function useCosts(ended: readonly string[]): ReadonlyMap<string, Cost> {
  const hasPrices = session.value?.hasPrices === true
  useEffect(() => {
    if (hasPrices) void askCosts(ended)
  }, [hasPrices, ended.join()])
  return costs.value
}

async function askCosts(ids: readonly string[]): Promise<void> {
  for (const id of ids) {
    if (asked.has(id)) continue
    asked.add(id)
    try {
      const { cost } = await ask<Task>(`api/tasks/${encodeURIComponent(id)}`)
      if (cost) costs.value = new Map(costs.value).set(id, cost)
    } catch {
      asked.delete(id) // it is asked for again with the next one
    }
  }
}

export const money = (amount: number): string => amount.toFixed(4)
