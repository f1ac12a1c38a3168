/** What the dashboard makes of figures and names, without a browser. */
import t from 'tap'
import { defineAgent } from '../../src/index.ts'
import { DigestFold } from '../../src/service/digest/digest-fold.ts'
import { toldWaits } from '../../src/service/digest/moment.ts'
import { busyLoops, deadlocksOf, loopSeconds } from '../../src/service/pictures/deadlocks.ts'
import { doingAt, storyOf } from '../../src/service/pictures/run-story.ts'
import { rehearsalCommand } from '../../src/service/pictures/run-words.ts'
import { roomyLabels } from '../../src/service/pictures/spending.ts'
import {
  BOX,
  BULGE,
  edgeBetween,
  layoutOf,
  matrixLayout,
  pairAt,
  ringSides,
  SCRIPT_BOX,
} from '../../src/service/pictures/team-layout.ts'
import { testTeam } from '../../src/testing.ts'
import { pluck } from '../kit/lists.ts'
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

t.test('between a crash and the new thread an agent restarts; the turn that was cut off was work', async (t) => {
  const facts = [
    { type: 'agent.crashed', at: 10, agent: 'a', restartInMs: 5 },
    { type: 'agent.ready', at: 20, agent: 'a' },
    { type: 'agent.crashed', at: 30, agent: 'a', restartInMs: null },
  ]
  const story = { fold: { facts }, crashed: [{ agent: 'a', from: 5, to: 10 }], isOver: true } as never
  const doing = (time: number) => doingAt(story, { name: 'a', inMailbox: 1, turns: [] }, time, false)
  t.same([3, 7, 10, 19, 20, 30].map(doing), ['idle', 'works', 'restarts', 'restarts', 'idle', 'crashed'])
  t.equal(doingAt(story, { name: 'a', inMailbox: 1, turns: [4] }, 21, true), 'waits')
})

t.test('a label for which there is no room is left out, and the earlier one stays', async (t) => {
  const labels = [
    { text: '7.8 s idle', at: 500, align: 'center' },
    { text: '+0 ms', at: 0, align: 'left' },
    { text: '+8.5 s', at: 520, align: 'center' },
    { text: '+8.8 s', at: 600, align: 'right' },
  ] as const
  const shown = roomyLabels(labels, (text) => text.length * 6)
  t.same(pluck(shown, 'text'), ['7.8 s idle', '+0 ms', '+8.8 s'])
})

t.test('of the waits of an agent, what its turn waits for is told before limits, and the oldest first', async (t) => {
  const wait = (agent: string | null, kind: string, since: number, subject = '') =>
    ({ runId: 'r', agent, turn: null, kind, for: [subject], since }) as const
  const told = toldWaits(
    [
      wait('buyer', 'limit', 1, 'instances of "buyer"'),
      wait('buyer', 'request', 5, 'seller'),
      wait('buyer', 'request', 3, 'bank'),
      wait('queued', 'limit', 2, 'maxConcurrentAgents'),
      wait(null, 'limit', 1),
    ].map((each) => ({ ...each, for: [...each.for] })),
    10,
  )
  t.same(
    [...told].map(
      ([
        name,
        {
          kind,
          for: [subject],
        },
      ]) => `${name}: ${kind} ${subject}`,
    ),
    ['buyer: request bank', 'queued: limit maxConcurrentAgents'],
  )
})

t.test('a deadlock that stands is there once, and none says too early that no wait could be given up', async (t) => {
  const fold = new DigestFold()
  const wait = (agent: string, subject: string) => ({
    runId: 'r',
    agent,
    turn: null,
    kind: 'request',
    for: [subject],
    since: 5,
  })
  fold.read({ seq: 0, at: 0, waits: [wait('buyer', 'bank'), wait('bank', 'buyer')], facts: [] } as never)
  const fact = { type: 'deadlock', seq: 3, at: 10, runId: 'r', cycle: ['bank', 'buyer'], tail: [], victim: null }
  const facts = [fact] as never
  t.same(pluck(deadlocksOf(fold, facts), 'isOpen'), [true])
  fold.read({ seq: 1, at: 20, waits: [], facts: [] } as never)
  t.same(
    deadlocksOf(fold, facts).map(({ isOpen, victim }) => [isOpen, victim]),
    [[false, null]],
  )
  const broken = [fact, { ...fact, seq: 4, at: 11, victim: 'bank' }] as never
  t.same(pluck(deadlocksOf(fold, broken), 'victim'), ['bank'])
})

t.test('lines end at the boxes that they join, and the lines of a ring bend outwards', async (t) => {
  const { spots, script } = layoutOf({ strategy: 'sequential', agents: ['a', 'b', 'c'], roles: {} })
  const line = edgeBetween(spots.get('b'), script, 0, BOX, SCRIPT_BOX)!
  const end = Number(line.path.split(' ').at(-1))
  t.equal(Math.round(end - script.y), SCRIPT_BOX.height / 2 + 5, 'right below the box of the script')

  const corners = [
    { x: 0, y: 0 },
    { x: 600, y: 0 },
    { x: 300, y: 500 },
  ]
  for (const around of [corners, corners.toReversed()]) {
    const lines = around.map((from, at) => [from, around[(at + 1) % around.length]!] as const)
    const sides = ringSides(lines)
    for (const [at, [from, to]] of lines.entries()) {
      const { x, y } = edgeBetween(from, to, sides[at]! * BULGE, BOX, BOX)!
      const straight = { x: (from.x + to.x) / 2, y: (from.y + to.y) / 2 }
      const far = (spot: { x: number; y: number }) => Math.hypot(spot.x - 300, spot.y - 167)
      t.ok(far({ x, y }) > far(straight), `the age of line ${at} is outside`)
    }
  }
  t.same(
    ringSides([
      [corners[0], corners[1]],
      [corners[1], corners[0]],
    ]),
    [1, 1],
    'two lines between two are apart',
  )
})
