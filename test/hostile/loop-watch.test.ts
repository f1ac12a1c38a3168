/** What the hostile game takes for a block of the loop: work without a turn, and no wait of any kind. */
import t from 'tap'
import { now } from './loop-gaps.ts'
import { LoopWatch } from './loop-watch.ts'

const turn = () => new Promise((resolve) => setTimeout(resolve, 10))

t.test('a loop that works without a turn is found, with how long', async (t) => {
  const watch = await LoopWatch.start(t, 100)
  await turn()
  const began = process.cpuUsage()
  const from = now()
  while (workedSince(began) < 600);
  const to = now()
  await turn()
  const blocks = await watch.blocks()
  t.ok(
    blocks.some((block) => block.from < to && block.to > from && block.ms > 100),
    JSON.stringify(blocks),
  )
  t.same(await watch.blocks(), [], 'each is told once')
})

t.test('a process that sleeps has not worked', async (t) => {
  const watch = await LoopWatch.start(t, 100)
  await turn()
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 400)
  await turn()
  t.same(await watch.blocks(), [])
  t.ok(watch.longest.slept > 0)
})

function workedSince(began: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(began)
  return (user + system) / 1_000
}
