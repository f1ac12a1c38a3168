/** Processes that are killed at random moments, and agents that end their process each time. */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { howMany } from '../how-many.ts'
import { play } from './killed-depot.ts'
import { folderOf } from './log-folders.ts'

// A service on real threads that is killed with SIGKILL again and again and started again: while it starts, while it
// takes
// up what its log has, in the middle of a write, between an effect and the word of it. Its runs end as those that
// were
// never disturbed, and nothing is done a second time whose outcome stood in the log.
//
// npm test: 3 kills      npm run test:deep: 200, and 100 runs at once
// DRAMATIS_KILLS=50 SEED=3 node dist/test/durability/kills.test.js

const { DRAMATIS_KILLS, SEED } = process.env
const kills = Number(DRAMATIS_KILLS ?? howMany(3, 200))
const some = Math.max(1, Math.floor(kills / 6))
const seed = Number(SEED ?? 11)

t.test('a run goes on after each death of its process, as if nobody had killed it', (t) =>
  play(t, { runs: 1, kills: Math.max(1, kills - 2 * some), seed, honours: false }),
)

t.test('a provider that honours idempotency keys generates each answer once, however often the service dies', (t) =>
  play(t, { runs: 1, kills: some, seed: seed + 1, honours: true }),
)

t.test('many runs at once go on after each death of their process', (t) =>
  play(t, { runs: howMany(2, 100), kills: some, seed: seed + 2, honours: false }),
)

// A service whose agents share a few threads, and lose theirs when they are idle, killed with SIGKILL again and
// again.
//
// npm test: a kill      npm run test:deep: 60

const passivatedKills = Number(DRAMATIS_KILLS ?? howMany(1, 60))
const passivatedKillsSeed = Number(SEED ?? 21)

t.test('runs go on after each death of their process, though agents have no thread most of the time', (t) =>
  play(t, { runs: 1, kills: passivatedKills, seed: passivatedKillsSeed, honours: false, threads: 2 }),
)

// Services on real threads whose process an agent ends natively, each time its turn is tried.

const program = fileURLToPath(new URL('../fixtures/durability/crash-service.js', import.meta.url))

interface Line {
  run?: string
  success?: boolean
  finalOutput?: string
  error?: string
  letters?: string[]
}

/** A life of the service. `died`: a signal has ended it. */
async function live(t: Test, folder: string, how: string, queries: readonly string[]) {
  // A core that is dumped stays in the folder.
  const child = spawn(process.execPath, [program, join(folder, 'log'), how, ...queries], {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  const exited = once(child, 'exit')
  const lines: Line[] = []
  for await (const line of createInterface(child.stdout)) lines.push(JSON.parse(line))
  const [code, signal] = await exited
  return { lines, code, died: signal !== null || code === 134 || code === 139 }
}

async function untilAlive(t: Test, queries: readonly string[]) {
  const folder = folderOf(t)
  for (let deaths = 0; deaths < 10; deaths++) {
    const { lines, died } = await live(t, folder, 'ends', queries)
    if (!died) return { lines, deaths }
  }
  throw new Error('the service dies again and again')
}

t.test(
  'a turn that ends the process each time becomes a dead letter, and those beside it come to their end',
  async (t) => {
    const { lines, deaths } = await untilAlive(t, ['one work', 'two ask', 'bad crash', 'three sleep', 'four work'])
    t.ok(deaths >= 3 && deaths <= 6, `${deaths} deaths`)
    t.match(lines, [
      { run: 'one work', finalOutput: 'worked' },
      { run: 'two ask', finalOutput: 'yes' },
      { run: 'bad crash', success: false, error: /died \d times in a row while agent "bad" worked on this message/ },
      { run: 'three sleep', finalOutput: 'slept' },
      { run: 'four work', finalOutput: 'worked' },
      { letters: ['poison'] },
    ])
  },
)

t.test('a turn whose tool ends the process each time becomes a dead letter', async (t) => {
  const { lines, deaths } = await untilAlive(t, ['bad tool'])
  t.ok(deaths === 3 || deaths === 4, `${deaths} deaths`)
  t.match(lines, [{ run: 'bad tool', success: false }, { letters: ['poison'] }])
})

t.test('a service that ends by itself, however often, costs no turn', async (t) => {
  const folder = folderOf(t)
  for (const how of ['exits', 'throws', 'exits', 'throws'])
    t.equal((await live(t, folder, how, ['one work'])).code, 1, how)
  const { lines } = await live(t, folder, 'ends', ['one work'])
  t.match(lines, [{ run: 'one work', finalOutput: 'worked' }, { letters: [] }])
})
