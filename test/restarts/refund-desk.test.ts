/**
 * A desk that pays after an approval, killed with SIGKILL at random moments and started again: it gives the same typed
 * answer, and has paid once.
 *
 *   npm test: 10 kills      npm run test:deep: 50      SEED=7 node dist/test/restarts/refund-desk.test.js
 */
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { Dice } from '../dice.ts'
import { folderOf } from '../durability/log-folders.ts'
import { howMany } from '../how-many.ts'

const desk = fileURLToPath(new URL('../fixtures/durability/refund-desk.js', import.meta.url))
const preload = new URL('../fixtures/durability/dies-at-write.js', import.meta.url).href
const kills = howMany(10, 50)
const { SEED = '1' } = process.env

/** Starts the desk. It dies at that write to its log, or says what it came to. */
async function live(t: Test, folder: string, diesAt: string): Promise<object | undefined> {
  const child = spawn(process.execPath, ['--import', preload, desk, folder], {
    env: { ...process.env, DIES_AT_WRITE: diesAt },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  const said = await text(child.stdout)
  return said === '' ? undefined : JSON.parse(said)
}

t.test('a desk that was killed gives the same answer, and has paid once', async (t) => {
  t.setTimeout(3_600_000)
  const dice = new Dice(Number(SEED))
  let killed = 0
  for (let round = 1; killed < kills; round++) {
    const folder = folderOf(t)
    let result: object | undefined
    const moments: string[] = []
    for (let death = 1; !result && death <= 3; death++) {
      moments.push(`${1 + dice.upTo(death === 1 ? 22 : 8)} ${dice.pick(['before', 'within', 'after'])}`)
      result = await live(t, folder, moments.at(-1)!)
      if (!result) killed += 1
    }
    result ??= await live(t, folder, '')
    const how = `killed at ${moments.join(', ')}`
    t.match(result, { success: true, data: { order: 'order-7', euros: 49 } }, how)
    const keys = new Set(readFileSync(join(folder, 'payments'), 'utf8').trim().split('\n'))
    t.equal(keys.size, 1, `${how}: ${[...keys].join()}`)
    if (round > 4 * kills) t.fail(`${killed} kills in ${round} rounds`)
  }
})
