/** Time over a restart: teams with a durable log and a virtual clock, which stands still or jumps between them. */
import { join } from 'node:path'
import type { Test } from 'tap'
import t from 'tap'
import { createTeam, type MultiAgentPatternOptions } from '../../src/index.ts'
import { virtualClock } from '../../src/testing.ts'
import { folderOf } from './log-folders.ts'

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
const module = new URL('../fixtures/durability/desk-agent.js', import.meta.url)
const SECOND = 1_000

type Script = Extract<MultiAgentPatternOptions['orchestration'], { strategy: 'custom'; run: unknown }>['run']

/** A team that begins its life at that time of day, in epoch ms. */
function deskAt(t: Test, path: string, startAt: number, run: Script, more: Partial<MultiAgentPatternOptions> = {}) {
  process.env.DESK_EFFECTS = join(path, '..', 'effects')
  const clock = virtualClock({ startAt })
  const team = createTeam({
    agents: ['ann', 'bob'].map((name) => ({ name, module, env: ['DESK_EFFECTS'] })),
    stateManagement: { path },
    logger: silent,
    clock,
    orchestration: { strategy: 'custom', name: 'a desk', run },
    ...more,
  })
  t.teardown(() => team.close())
  return { team, clock }
}

t.test('a sleep ends by wall clock, whatever the time between the processes', async (t) => {
  const path = join(folderOf(t), 'log')
  const slept: number[] = []
  const script =
    (clock: () => number): Script =>
    async (desk) => {
      await desk.sleep(10 * SECOND)
      slept.push(clock())
      await desk.sleep(60 * SECOND)
      slept.push(clock())
      return 'rested'
    }
  const before = deskAt(
    t,
    path,
    0,
    script(() => before.clock.now()),
  )
  await before.team.start()
  before.team.launch('go', { runId: 'one' })
  await before.clock.advance(30 * SECOND)
  t.same(slept, [10 * SECOND])
  await before.team.close()

  const after = deskAt(
    t,
    path,
    50 * SECOND,
    script(() => after.clock.now()),
  )
  await after.team.start()
  const { result } = after.team.getRun('one')!
  await after.clock.advance(20 * SECOND)
  t.same(slept, [10 * SECOND, 50 * SECOND, 70 * SECOND], 'the first is over, the second ends when it would have ended')
  t.match(await result, { finalOutput: 'rested' })
})
