/**
 * The same races in a service that is killed with SIGKILL, at a write to its log, and started again.
 *
 *   npm test: 10 programs      npm run test:deep: 300      SEED=7 node dist/test/restarts/races-killed.test.js
 */
import { spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import t from 'tap'
import { Dice } from '../dice.ts'
import { folderOf } from '../durability/log-folders.ts'
import { ISOLATED, type RaceProgram, type RaceResult, raceProgram, wrongIn } from '../fixtures/durability/races.ts'
import { howMany } from '../how-many.ts'

const UNIT_MS = 8
const LIMIT_MS = 3_600_000
const service = fileURLToPath(new URL('../fixtures/durability/race-service.js', import.meta.url))
const preload = new URL('../fixtures/durability/dies-at-write.js', import.meta.url).href
const { SEED } = process.env
const programs = howMany(10, 300)
const seeds = SEED ? [Number(SEED)] : Array.from({ length: programs }, (_, i) => i + 1)

/** Starts the service. It dies at that write to its log, or says what its run came to. */
async function live(t: Test, folder: string, program: RaceProgram, diesAt: string): Promise<RaceResult | undefined> {
  const env = {
    ...process.env,
    RACE_EFFECTS: join(folder, 'effects'),
    RACE_PROGRAM: JSON.stringify(program),
    DIES_AT_WRITE: diesAt,
  }
  const child = spawn(process.execPath, ['--import', preload, service, join(folder, 'log')], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  const said = await text(child.stdout)
  return said === '' ? undefined : JSON.parse(said)
}

const linesIn = (file: string) => (existsSync(file) ? readFileSync(file, 'utf8').split('\n').filter(Boolean) : [])

t.test('random races come out the same after their process was killed', async (t) => {
  t.setTimeout(LIMIT_MS)
  let kills = 0
  for (const seed of seeds) {
    const dice = new Dice(seed)
    const program = raceProgram(dice, UNIT_MS, [ISOLATED])
    const folder = folderOf(t)
    const moment = `${2 + dice.upTo(25)} ${dice.pick(['before', 'within', 'after'])}`
    let result = await live(t, folder, program, moment)
    if (!result) kills += 1
    result ??= await live(t, folder, program, '')
    const wrong = result ? wrongIn(linesIn(join(folder, 'effects')), result) : ['it ends without a word']
    if (wrong.length > 0)
      t.fail(
        `${wrong.join('; ')}, killed at ${moment}. Again: SEED=${seed} node dist/test/restarts/races-killed.test.js`,
      )
  }
  t.ok(kills > seeds.length / 3, `${kills} kills`)
})
