/**
 * A desk works through the night, and its process is killed three times on purpose: while models answer, while money is
 * paid, while a person is asked. Each next process goes on with the log. Prints what the log says of it in the morning.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { hasModel } from '../lib/has-model.ts'
import { type Death, pageOf } from './page.ts'
import type { Answer, Night, Word } from './service.ts'
import { type Arrival, openWorld } from './world.ts'

/** The request of its kind at which the process dies. */
const FATAL: Readonly<Record<Arrival, number>> = { 'model call': 2, refund: 2 }
const WHAT: Readonly<Record<Arrival, string>> = {
  'model call': 'a model was asked, and the desk had no answer yet',
  refund: 'a refund was booked, and the desk did not know it yet',
}

const { OPENAI_API_KEY: apiKey, OPENAI_BASE_URL, DRAMATIS_MODEL } = process.env
const provider = hasModel() ? { baseURL: OPENAI_BASE_URL || 'https://api.openai.com/v1', apiKey } : undefined
if (!provider) console.error('No OPENAI_API_KEY: a few rules answer in the place of a model.\n')

const deaths: Death[] = []
let child: ChildProcess | undefined
/** Set while the process is meant to die: what still arrives then has no answer. */
let isDying = false

const folder = await mkdtemp(join(tmpdir(), 'night-desk-'))
const world = await openWorld({
  provider,
  async onArrival(what, number) {
    const isFirst = deaths.every((death) => death.what !== WHAT[what])
    if (!isDying && (number < FATAL[what] || !isFirst)) return
    if (!isDying) kill(WHAT[what])
    await new Promise(() => {}) // the process that asked is dead
  },
})

function kill(what: string): void {
  isDying = true
  deaths.push({ what })
  console.error(`  SIGKILL: ${what}.`)
  child?.kill('SIGKILL')
}

/** One life of the service. Resolves to its night if it has reached the end of it. */
function live(): Promise<Night | undefined> {
  return new Promise((resolve, reject) => {
    isDying = false
    let night: Night | undefined
    const env = {
      ...process.env,
      NIGHT_DESK_WORLD: world.origin,
      NIGHT_DESK_MODEL: DRAMATIS_MODEL || 'rules',
      NIGHT_DESK_LOG: join(folder, 'log'),
    }
    const service = fork(fileURLToPath(new URL('./service.js', import.meta.url)), { env, silent: true })
    child = service
    let errors = ''
    service.stderr?.setEncoding('utf8').on('data', (text: string) => {
      errors += text
    })
    service.on('message', (word: Word) => {
      if (word.kind === 'done') night = word.night
      else if (word.kind === 'begun') console.error(word.goesOn ? '  It goes on with the log.' : '  The night begins.')
      else decide(service, word)
    })
    service.on('exit', (code, signal) => {
      if (night || signal === 'SIGKILL') resolve(night)
      else reject(new Error(`The desk ended with ${signal ?? code}.\n${errors}`))
    })
  })
}

/** The person is asked in the evening, and answers in the morning: in another process. */
function decide(service: ChildProcess, { questionId, text }: Extract<Word, { kind: 'question' }>): void {
  if (isDying) return
  const what = 'a question to a person was open'
  if (deaths.every((death) => death.what !== what)) return kill(what)
  console.error(`  ${text} A person says yes.`)
  service.send({ questionId, answer: 'yes' } satisfies Answer)
}

async function main(): Promise<void> {
  try {
    for (let life = 1; ; life++) {
      console.error(`Process ${life}:`)
      const night = await live()
      if (night) return console.log(pageOf(night, deaths, world.counts))
    }
  } finally {
    child?.kill('SIGKILL')
    await world.close()
    await rm(folder, { recursive: true, force: true })
  }
}

process.once('SIGINT', () => {
  child?.kill('SIGKILL')
  process.exit(130)
})
await main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = 1
})
