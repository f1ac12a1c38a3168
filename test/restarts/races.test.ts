/**
 * Whatever a turn waits for side by side comes in the same order when its thread or its process has died: it pays for
 * the same, and once.
 *
 *   npm test: 300 programs, one death each      npm run test:deep: 10,000, and 500 of them at each entry of their log
 *   SEED=7 AT=12 DIES=process node dist/test/restarts/races.test.js
 */
import t from 'tap'
import { howMany } from '../how-many.ts'
import { type Dies, playRaces, programOf } from './races.ts'

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
  const programs = howMany(300, 10_000)
  for (let seed = 1; seed <= programs; seed++) {
    const entries = await entriesOf(seed)
    await judge(t, seed, diesOf(seed), 1 + ((seed * 7919) % entries))
  }
  t.pass(`${programs} programs`)
})

t.test('some of them at each entry of their log', { skip: SEED !== undefined }, async (t) => {
  t.setTimeout(3_600_000)
  const programs = howMany(2, 500)
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
