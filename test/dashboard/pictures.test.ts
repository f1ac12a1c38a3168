/** What the dashboard makes of figures and names, without a browser. */
import t from 'tap'
import { defineAgent } from '../../src/index.ts'
import { busyLoops, loopSeconds } from '../../src/service/dashboard/pictures/busy-loops.ts'
import { matrixLayout, pairAt } from '../../src/service/dashboard/pictures/matrix-layout.ts'
import { rehearsalCommand } from '../../src/service/dashboard/pictures/rehearsal-command.ts'
import { storyOf } from '../../src/service/dashboard/pictures/run-story.ts'
import { DigestFold } from '../../src/service/digest/digest-fold.ts'
import { testTeam } from '../../src/testing.ts'
import { all } from '../team/stage.ts'

/** `seconds`: active and idle, by agent; '' is the host. */
const page = (team: string, seconds: Record<string, [number, number]>) =>
  Object.entries(seconds)
    .flatMap(([agent, [active, idle]]) =>
      Object.entries({ active, idle }).map(([kind, value]) =>
        agent === ''
          ? `dramatis_host_event_loop_${kind}_seconds_total{team="${team}"} ${value}`
          : `dramatis_agent_event_loop_${kind}_seconds_total{team="${team}",agent="${agent}"} ${value}`,
      ),
    )
    .join('\n')

t.test('a loop that worked for 9 tenths of the time between two pages is busy', async (t) => {
  const before = loopSeconds(page('desk', { '': [10, 90], calm: [1, 9], stuck: [5, 5], anew: [9, 1] }), 'desk')
  const after = loopSeconds(
    page('desk', { '': [19, 91], calm: [3, 10], stuck: [8, 5], anew: [1, 0], new: [3, 0] }),
    'desk',
  )
  t.same(
    busyLoops(before, after).map(({ agent, busy }) => [agent, Math.round(busy * 100)]),
    [
      ['stuck', 100],
      [null, 90],
    ],
  )
  t.same(busyLoops(after, after), [], 'no time has passed')
})

t.test('loops of another team are not of this one', async (t) => {
  const both = `${page('desk', { a: [1, 1] })}\n${page('other', { b: [1, 1] })}`
  t.same([...loopSeconds(both, 'other').keys()], ['b'])
})

t.test('a task of a durable log is rehearsed from it, any other by its query', async (t) => {
  const task = { id: 'order-7', query: 'Say "hi" for $5', file: 'teams/my shop.ts', log: './log' }
  t.equal(rehearsalCommand(task), 'npx dramatis rehearse "teams/my shop.ts" --from order-7 --log ./log')
  t.equal(
    rehearsalCommand({ ...task, log: null, file: null }),
    'npx dramatis rehearse <team file> "Say \\"hi\\" for \\$5"',
  )
})

t.test('the matrix of a team fits its place, and a point of it names its pair', async (t) => {
  for (const count of [41, 200, 1_000]) {
    const names = Array.from({ length: count }, (_, n) => `agent-${n}`)
    const layout = matrixLayout(names, 1_000, 480)
    const { width, height, left, top, cell, step } = layout
    if (count < 400) t.ok(width <= 1_000 && height <= 480, `${count} agents take ${width} x ${height}`)
    t.ok(step * cell >= 10, 'names do not overlap')
    t.same(pairAt(names, layout, left + 7.5 * cell, top + 3.5 * cell), ['agent-3', 'agent-7'])
    t.equal(pairAt(names, layout, left - 1, top + 1), undefined)
  }
})

t.test('a turn that a crash cuts off lasts from its message, or the turn before, to the crash', async (t) => {
  const worker = defineAgent({
    async receive({ content }, context) {
      await context.sleep(100)
      return content
    },
  })
  const team = testTeam(
    {
      agents: [{ name: 'worker' }],
      logger: { debug() {}, info() {}, warn() {}, error() {} },
      orchestration: {
        strategy: 'custom',
        async run(orchestrator) {
          await Promise.all(['first', 'second'].map((text) => orchestrator.request('worker', text)))
          return 'done'
        },
      },
    },
    { modules: { worker } },
  )
  t.teardown(() => team.close())
  const run = team.launch('go')
  await team.clock.advance(150)
  const crashedAt = team.clock.now()
  team.crash('worker')
  await team.clock.advance(60_000)
  await run.result
  const fold = new DigestFold()
  for (const line of await all(team.digestOf(run.id))) fold.read(line)
  const [turn, ...others] = storyOf(fold, 0).crashed
  t.same(others, [])
  t.match(turn, { agent: 'worker', to: crashedAt })
  t.equal(Math.round(turn!.to - turn!.from), 50)
})
