/** Random programs whose calls race, and a refund desk, in processes that die. */
import { spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { Dice } from '../dice.ts'
import { folderOf } from '../durability/log-folders.ts'
import { ISOLATED, type RaceProgram, type RaceResult, raceProgram, wrongIn } from '../fixtures/durability/races.ts'
import { modelServer, type SeenCall } from '../fixtures/model-server.ts'
import type { Answer } from '../fixtures/model-wire.ts'
import { faultsOf } from '../fixtures/strict-history.ts'
import { howMany } from '../how-many.ts'
import { type Dies, playRaces, programOf } from './races.ts'

// Whatever a turn waits for side by side comes in the same order when its thread or its process has died: it pays
// for the same, and once.
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

// A desk with triage, a specialist and an approval by a second person, killed with SIGKILL at each write of records
// to its log and started again: it gives the same typed answers, has paid once, and a server that is strict about
// history has taken it all.
//
// npm test: each 20th write       npm run test:deep: each      DESK_SEED=2: the other half of each

const refundDesk = fileURLToPath(new URL('../fixtures/durability/refund-desk.js', import.meta.url))
const { DESK_SEED = '1' } = process.env

/** Starts the desk. It dies at that write to its log, or says what it came to. */
async function liveDesk(t: Test, given: readonly string[], diesAt: string): Promise<object | undefined> {
  const child = spawn(process.execPath, ['--import', preload, refundDesk, ...given], {
    env: { ...process.env, DIES_AT_WRITE: diesAt },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  const said = await text(child.stdout)
  return said === '' ? undefined : JSON.parse(said)
}

/** What the models say: triage hands off once, the specialist pays at the second try, and each answers in the schema. */
function answerTo({ number, body, prompt }: SeenCall): Answer {
  const call = (name: string, input: object | string) => ({ toolCalls: [{ id: `call-${number}`, name, input }] })
  const done = '{"order":"order-7","euros":49}'
  const isTriage = String(body.messages[0]?.content).startsWith('You are triage')
  const isAnswered = body.messages.some(({ role, content }) => role === 'assistant' && content === done)
  if (isAnswered) return { text: done }
  if (isTriage) {
    return { text: 'One moment.', ...call('handoff', { to: 'refunds', task: 'Refund order-7.' }) }
  }
  if (body.messages.at(-1)?.role !== 'tool') return call('pay', '{"order":"order-7"') // cut off
  return prompt.startsWith('Error') ? call('pay', { order: 'order-7', euros: 49 }) : { text: done }
}

/** Kills the desk at each 20th write to its log, in the middle of it or behind it; deep: at each, and then once more. */
async function play(t: Test, strategy: string, speakers: readonly string[]): Promise<SeenCall[]> {
  const asked: SeenCall[] = []
  const server = await modelServer(t)
  const faults: string[] = []
  server.always((call) => {
    asked.push(call)
    const found = faultsOf(call.body)
    faults.push(...found)
    return found.length === 0 ? answerTo(call) : { status: 400, body: { object: 'error', message: found.join('; ') } }
  })
  const dice = new Dice(Number(DESK_SEED))
  const answers = speakers.map((speaker) => ({ success: true, data: { order: 'order-7', euros: 49 }, speaker }))
  const step = Math.round(20 / howMany(1, 20))
  let killed = 0
  let isOver = false
  for (let nth = 1 + dice.upTo(step); !isOver; nth += step) {
    const how = ['within', 'after'][(nth + Number(DESK_SEED)) % 2]
    const folder = folderOf(t)
    const moments = [`${nth} ${how}`, ...(step === 1 ? [`${1 + dice.upTo(8)} ${how}`] : []), '']
    let result: object | undefined
    for (const [life, moment] of moments.entries()) {
      result = await liveDesk(t, [folder, server.baseURL, strategy], moment)
      if (result)
        isOver ||= life === 0 // it has no such write
      else killed += 1
      if (result) break
    }
    t.match(result, answers, `killed at ${moments.join(', ')}`)
    const keys = new Set(readFileSync(join(folder, 'payments'), 'utf8').trim().split('\n'))
    t.equal(keys.size, 1, `killed at ${moments.join(', ')}: ${[...keys].join()}`)
  }
  t.ok(killed >= howMany(2, 15), `${killed} kills`)
  t.same(faults, [])
  return asked
}

t.test('a desk that was killed gives the same answers, and has paid once', async (t) => {
  t.setTimeout(3_600_000)
  await play(t, 'sequential', ['refunds', 'triage'])
})

t.test('so does one whose agents share the conversation: the specialist has the second message', async (t) => {
  t.setTimeout(3_600_000)
  const asked = await play(t, 'handoff', ['refunds', 'refunds'])
  const ofTriage = asked.filter(({ body }) => String(body.messages[0]?.content).startsWith('You are triage'))
  t.notOk(ofTriage.some(({ body }) => body.messages.some(({ content }) => content === 'How much was it?')))
})
