/** Random programs whose calls race, in one process and in processes that die. */

import { spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { Dice } from '../dice.ts'
import { folderOf } from '../durability/log-folders.ts'
import { ISOLATED, type RaceProgram, type RaceResult, raceProgram, wrongIn } from '../fixtures/durability/races.ts'
import { howMany } from '../how-many.ts'
import { type Dies, playRaces, programOf } from './races.ts'

// Whatever a turn waits for side by side comes in the same order when its thread or its process has died: it pays
// for
// the same, and once.
//
// npm test: 30 programs, one death each      npm run test:deep: 10,000, and 500 of them at each entry of their log
// SEED=7 AT=12 DIES=process node dist/test/restarts/races.test.js

const { SEED, AT, DIES } = process.env

async function judge(t: { fail(why: string): unknown }, seed: number, dies: Dies, at: number) {
  const { wrong } = await playRaces(seed, dies, at)
  if (wrong.length === 0) return
  const again = `SEED=${seed} AT=${at} DIES=${dies} node dist/test/restarts/races.test.js`
  t.fail(`${wrong.join('; ')}. Again: ${again}`)
}

/** The entry at which the program of that seed dies. */
async function entriesOf(seed: number): Promise<number> {
  const { wrong, entries } = await playRaces(seed, 'thread', 0)
  if (wrong.length > 0) throw new Error(`seed ${seed}, undisturbed: ${wrong.join('; ')}`)
  return entries
}

const diesOf = (n: number): Dies => (n % 2 === 0 ? 'thread' : 'process')

t.test('random races come out the same after a death', { skip: SEED !== undefined }, async (t) => {
  t.setTimeout(3_600_000)
  const programs = howMany(30, 10_000)
  for (let seed = 1; seed <= programs; seed++) {
    const entries = await entriesOf(seed)
    await judge(t, seed, diesOf(seed), 1 + ((seed * 7919) % entries))
  }
  t.pass(`${programs} programs`)
})

t.test('some of them at each entry of their log', { skip: SEED !== undefined }, async (t) => {
  t.setTimeout(3_600_000)
  const programs = howMany(1, 500)
  for (let seed = 1; seed <= programs; seed++) {
    const entries = await entriesOf(seed)
    for (let at = 1; at <= entries; at++) await judge(t, seed, diesOf(seed + at), at)
  }
  t.pass(`${programs} programs`)
})

t.test('one of them again', { skip: SEED === undefined }, async (t) => {
  const seed = Number(SEED)
  t.comment(JSON.stringify(programOf(seed)))
  t.comment(`${await entriesOf(seed)} entries`)
  await judge(t, seed, DIES as Dies, Number(AT))
})

// The same races in a service that is killed with SIGKILL, at a write to its log, and started again.
//
// npm test: 2 programs      npm run test:deep: 300      SEED=7 node dist/test/restarts/races.test.js

const UNIT_MS = 8
const LIMIT_MS = 3_600_000
const service = fileURLToPath(new URL('../fixtures/durability/race-service.js', import.meta.url))
const preload = new URL('../fixtures/durability/dies-at-write.js', import.meta.url).href
const programs = howMany(2, 300)
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
      t.fail(`${wrong.join('; ')}, killed at ${moment}. Again: SEED=${seed} node dist/test/restarts/races.test.js`)
  }
  t.ok(kills > seeds.length / 3, `${kills} kills`)
})
