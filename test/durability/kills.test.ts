/**
 * A service that is killed with SIGKILL again and again, at moments of chance, and started again: the run goes on, ends
 * as one that was never disturbed, and nothing is done a second time whose outcome stood in the log.
 *
 *   DRAMATIS_KILLS=200 node dist/test/durability/kills.test.js   npm run test:deep   200 kills      npm test   12
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { v5 } from 'uuid'
import { jsonIn } from '../../src/mailbox/codec.ts'
import {
  CALL,
  correlationOf,
  kindOf,
  lengthOf,
  RESULT,
  recipientOf,
  STEP_DONE,
  senderOf,
} from '../../src/mailbox/frame.ts'
import { readBody } from '../../src/mailbox/frame-body.ts'
import { idOf } from '../../src/mailbox/frame-id.ts'
import { decodeEntries } from '../../src/runtime/log/entry-codec.ts'
import { FileStore } from '../../src/runtime/store/file-store.ts'
import { Dice } from '../dice.ts'
import { modelServer } from '../fixtures/model-server.ts'
import { folderOf } from './log-folders.ts'

const { DRAMATIS_KILLS, DRAMATIS_DEEP } = process.env
const KILLS = Number(DRAMATIS_KILLS ?? (DRAMATIS_DEEP ? 200 : 12))
/** Lines that the service prints in a run that nobody kills, at most. */
const LINES = 140

const program = fileURLToPath(new URL('../fixtures/durability/desk.js', import.meta.url))

interface Said {
  pid?: number
  event?: string
  success?: boolean
  finalOutput?: string
  error?: string
}

/** Starts the service and kills it behind that line. Returns its last line, if it came so far. */
async function played(t: Test, folder: string, baseURL: string, killAfter: number): Promise<Said | undefined> {
  const env = { ...process.env, DESK_EFFECTS: join(folder, 'effects') }
  const child = spawn(process.execPath, [program, join(folder, 'log'), baseURL], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env,
  })
  t.teardown(() => child.kill('SIGKILL'))
  const exited = once(child, 'exit')
  let last: Said | undefined
  let lines = 0
  for await (const line of createInterface(child.stdout)) {
    const said: Said = JSON.parse(line)
    if (said.success !== undefined) last = said
    lines += 1
    if (lines === killAfter) child.kill('SIGKILL')
  }
  await exited
  return last
}

/** What stands in the log: keys of model calls with an answer, and steps with a result. */
async function outcomes(folder: string): Promise<{ keys: Set<string>; steps: Set<string> }> {
  const store = new FileStore(join(folder, 'log'))
  await store.open()
  const calls = new Map<string, string>()
  const [keys, steps] = [new Set<string>(), new Set<string>()]
  const names = new Map<number, string>()
  for await (const block of store.read())
    for (const entry of decodeEntries(block.entries)) {
      if (entry.kind === 'name') names.set(entry.index, entry.name)
      if (entry.kind !== 'frames') continue
      const { memory } = entry
      for (let at = entry.from; at < entry.to; at += lengthOf(memory, at)) {
        const kind = kindOf(memory, at)
        const { content, data } = readBody(memory, at)
        if (kind === CALL && content === 'model')
          calls.set(
            `${senderOf(memory, at)} ${correlationOf(memory, at)}`,
            JSON.stringify(['the day', names.get(senderOf(memory, at)), idOf(memory, at)]),
          )
        if (kind === RESULT) keys.add(calls.get(`${recipientOf(memory, at)} ${correlationOf(memory, at)}`) ?? '')
        if (kind === STEP_DONE && jsonIn(data) !== null) steps.add(content)
      }
    }
  await store.close()
  return { keys: new Set(Array.from(keys, keyOf)), steps }
}

const keyOf = (name: string) => v5(name, '0f7d3a52-6c1e-5b8d-9a47-c2e4f1b86d35')

const effectsIn = (folder: string): string[] => {
  try {
    return readFileSync(join(folder, 'effects'), 'utf8').split('\n').filter(Boolean)
  } catch {
    return [] // nothing was done yet
  }
}

t.test('a run goes on after each death of its process, as if nobody had killed it', async (t) => {
  const server = await modelServer(t)
  server.always(({ prompt }) => `You said ${prompt}`)
  const undisturbed = await played(t, folderOf(t), server.baseURL, Number.POSITIVE_INFINITY)
  t.match(undisturbed, { success: true })

  const dice = new Dice(11)
  let kills = 0
  while (kills < KILLS) {
    const folder = folderOf(t)
    let ended: Said | undefined
    for (let lives = 0; !ended && lives < 40; lives += 1) {
      const before = await outcomes(folder)
      const [calls, effects] = [server.calls.length, effectsIn(folder).length]
      const isKilled = kills < KILLS
      ended = await played(t, folder, server.baseURL, isKilled ? 1 + dice.upTo(LINES) : Number.POSITIVE_INFINITY)
      if (!ended) kills += 1
      const askedAgain = server.calls.slice(calls).map(({ headers }) => String(headers['idempotency-key']))
      t.same(
        askedAgain.filter((key) => before.keys.has(key)),
        [],
        'no answer that stood in the log is asked for again',
      )
      t.same(
        effectsIn(folder)
          .slice(effects)
          .filter((step) => before.steps.has(step)),
        [],
        'no step whose result stood in the log is done again',
      )
    }
    t.same(ended, undisturbed, `after ${kills} kills`)
  }
})
