/** Teams with a sync point, and what their agents do there. */
import type { OrchestratorContext, RuntimeEvent, SyncResult } from '../../src/index.ts'
import { imbalances, leftovers } from '../kit/accounts.ts'
import { askAll, type Cast, type Extras, type OpenTeam, openTeam, type Receive } from '../kit/team.ts'

type Test = Parameters<typeof openTeam>[0]
type Point = NonNullable<Extras['syncPoints']>[number]

/** Two that have a second to meet, unless the test says otherwise. */
export function meeting(t: Test, cast: Cast, point: Partial<Point> = {}, extras: Extras = {}): OpenTeam {
  const meet: Point = { name: 'meet', requiredAgents: ['ann', 'bob'], timeoutMs: 1_000, ...point }
  return openTeam(t, cast, { orchestration: askAll, syncPoints: [meet], ...extras })
}

/** Arrives with what it was asked, and answers with what it got. */
export const arrives: Receive = async ({ content }, context) => {
  const result = await context.sync('meet', content)
  return { content: result.arrived.join(), structuredData: result }
}

/** What came of an arrival: its result, or the error of it. */
export async function metBy(met: Promise<SyncResult>): Promise<string> {
  return met.then(
    ({ generation, arrived, timedOut }) => `${generation} ${arrived}${timedOut ? ' without some' : ''}`,
    ({ code }) => code,
  )
}

/** Answers with what came of an arrival. */
export const tries: Receive = (_message, context) => metBy(context.sync('meet'))

export function eventsOf(team: OpenTeam): Extract<RuntimeEvent, { type: 'sync' }>[] {
  const events: Extract<RuntimeEvent, { type: 'sync' }>[] = []
  team.events.subscribe((event) => {
    if (event.type === 'sync') events.push(event)
  })
  return events
}

export const script = (run: (script: OrchestratorContext) => Promise<string>) => ({ strategy: 'custom' as const, run })

/** Which points somebody waits at. */
export const namesOf = (open: Iterable<{ point: { name: string } }>) => [...open].map(({ point }) => point.name)

/** Nobody has anything to do any more, and nothing is left over. */
export function isWell(t: { same(found: unknown, wanted: unknown): unknown }, { host }: OpenTeam): void {
  t.same(imbalances(host), [])
  t.same(leftovers(host), [])
  t.same(namesOf(host.syncPoints.open), [])
}

/** A role that its first death stops for good. */
export const mortal = { supervision: { maxRestarts: 0 } }
