/** Teams that are watched for a livelock, and what is found in them. */
import type { Test as TapTest } from 'tap'
import type { OrchestratorContext, RuntimeEvent } from '../../src/index.ts'
import { type Cast, type Extras, type OpenTeam, openTeam, outcomeOf } from '../kit/team.ts'

export type Test = Parameters<typeof openTeam>[0]
export type Livelock = Extract<RuntimeEvent, { type: 'livelock' | 'stall' }>
export type Script = (script: OrchestratorContext, query: string) => Promise<string>

/** Few enough that a test can count them; and what is found three times ends the run. */
export const STRICT = { maxStalledRounds: 3, maxRepeats: 4, maxMessagesWithoutProgress: 50, onFound: 'end' } as const

/** A team that is watched, and what was found. */
export function watched(t: Test, cast: Cast, { script, ...extras }: Extras & { script?: Script } = {}) {
  const found: Livelock[] = []
  const orchestration = script && { strategy: 'custom' as const, run: script }
  const team = openTeam(t, cast, {
    supervision: { livelock: STRICT },
    ...(orchestration && { orchestration }),
    ...extras,
  })
  team.events.subscribe((event) => {
    if (event.type === 'livelock') found.push(event)
  })
  return { team, found }
}

/** Plays a run in virtual time, as long as it takes. */
export async function play(team: OpenTeam) {
  await team.start() // what it imports takes no time of its clock
  const run = outcomeOf(team.execute('go', { runId: 'run' }))
  await team.clock.runToIdle()
  return run.value!
}

export const SECOND = 1_000

/** What nobody ends would go on so often: a detector that sees nothing fails its test, and does not hang it. */
export const OFTEN = 60

/** It completes, and nothing is found. */
export async function isFine(
  t: Test & Pick<TapTest, 'equal' | 'same'>,
  cast: Cast,
  extras: Extras & { script?: Script } = {},
) {
  const { team, found } = watched(t, cast, extras)
  const result = await play(team)
  t.equal(result.error?.message, undefined)
  t.same(found, [])
}
