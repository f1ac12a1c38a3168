/**
 * A desk with triage, a specialist and an approval by a second person, killed with SIGKILL at each write of records to
 * its log and started again: it gives the same typed answers, has paid once, and a server that is strict about history
 * has taken it all.
 *
 *   npm test: each 20th write       npm run test:deep: each      SEED=2: the other half of each
 */
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import t from 'tap'
import { Dice } from '../dice.ts'
import { folderOf } from '../durability/log-folders.ts'
import { modelServer, type SeenCall } from '../fixtures/model-server.ts'
import type { Answer } from '../fixtures/model-wire.ts'
import { faultsOf } from '../fixtures/strict-history.ts'
import { howMany } from '../how-many.ts'

const desk = fileURLToPath(new URL('../fixtures/durability/refund-desk.js', import.meta.url))
const preload = new URL('../fixtures/durability/dies-at-write.js', import.meta.url).href
const { SEED = '1' } = process.env

/** Starts the desk. It dies at that write to its log, or says what it came to. */
async function live(t: Test, given: readonly string[], diesAt: string): Promise<object | undefined> {
  const child = spawn(process.execPath, ['--import', preload, desk, ...given], {
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
  const dice = new Dice(Number(SEED))
  const answers = speakers.map((speaker) => ({ success: true, data: { order: 'order-7', euros: 49 }, speaker }))
  const step = Math.round(20 / howMany(1, 20))
  let killed = 0
  let isOver = false
  for (let nth = 1 + dice.upTo(step); !isOver; nth += step) {
    const how = ['within', 'after'][(nth + Number(SEED)) % 2]
    const folder = folderOf(t)
    const moments = [`${nth} ${how}`, ...(step === 1 ? [`${1 + dice.upTo(8)} ${how}`] : []), '']
    let result: object | undefined
    for (const [life, moment] of moments.entries()) {
      result = await live(t, [folder, server.baseURL, strategy], moment)
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
