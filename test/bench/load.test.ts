/** The loads that `npm run bench` plays, and the sizes of teams that it measures. */
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { runChild } from '../../bench/child.ts'
import { main } from '../../bench/load/command.ts'
import { Generator } from '../../bench/load/generator.ts'
import { growingOf, type Loaded } from '../../bench/load/load.ts'
import { loadText } from '../../bench/load/load-report.ts'
import type { Plan } from '../../bench/load/options.ts'
import type { Sample } from '../../bench/load/sampler.ts'
import { Tally } from '../../bench/load/tally.ts'
import { ENOUGH_SAMPLES, growthOf } from '../../bench/load/trend.ts'
import { main as measureSizes } from '../../bench/team-size/command.ts'
import { JOBS, sections } from '../../bench/team-size/jobs.ts'
import { sweep } from '../../bench/team-size/sweep.ts'
import { textOf } from '../../src/actors/definition/content.ts'
import { countTokens } from '../../src/actors/model/tokens.ts'
import { type ModelClient, TeamOverloadedError } from '../../src/index.ts'
import { virtualClock } from '../../src/testing.ts'
import { pluck } from '../kit/lists.ts'
import { fakeSurroundings } from '../service/fake-team.ts'

// The load test as its user has it. Real threads; counts and structure, no times.

const compiled = (name: string) => fileURLToPath(new URL(`../fixtures/cli/${name}.js`, import.meta.url))

t.test('--json prints one object and nothing else, whatever the team prints', async (t) => {
  const bench = new URL('../../bench/main.js', import.meta.url)
  const { stdout } = await runChild(bench, ['load', compiled('echo-team'), '--rate', '20', '--seconds', '2', '--json'])
  const loaded: Loaded = JSON.parse(stdout)
  t.match(loaded, {
    machine: { cores: Number, cpu: String, node: process.version },
    plan: { file: compiled('echo-team'), concurrency: null, rate: 20, seconds: 2, size: 200 },
    interrupted: false,
    failed: 0,
    failures: [],
    unfinished: 0,
    restarts: 0,
    deadLetters: 0,
    growing: null,
  })
  t.equal(loaded.begun + loaded.notBegun, 40)
  t.equal(loaded.answered, loaded.begun)
  t.ok(loaded.throughput > 0)
  t.ok(loaded.hostBusy > 0 && loaded.hostBusy <= 1)
  const { p50, p90, p99, p999, max } = loaded.latenciesMs!
  const ascending = [0, p50, p90, p99, p999, max]
  t.strictSame(
    ascending,
    [...ascending].sort((a, b) => a - b),
  )
  t.ok(loaded.samples.length > 0)
  for (const sample of loaded.samples)
    t.match(sample, { seconds: Number, rss: Number, heap: Number, external: Number, queued: Number, busy: Number })
})

t.test('as text it shows every figure, and memory over time', async (t) => {
  const { code, stdout } = await load(compiled('crashing-team'), '--rate', '2', '--seconds', '0.5', '--size', '5')
  t.equal(code, 0)
  t.match(stdout, /crashing-team\.js: 2 executes per second, 5 bytes each, for 0\.5 s$/m)
  t.match(stdout, /^executes +1 begun, 1 answered, 0 failed$/m)
  t.match(stdout, /^throughput +[\d.]+ answered\/s over [\d.]+ s$/m)
  t.match(stdout, /^latency +p50 [\d.,]+ ms, p90 [\d.,]+ ms, p99 [\d.,]+ ms, p99\.9 [\d.,]+ ms, max [\d.,]+ ms$/m)
  t.match(stdout, /^restarts +1$/m, 'its agent dies once for each message')
  t.match(stdout, /^dead letters +0$/m)
  t.match(stdout, /^host busy +\d+% of the time/m)
  t.match(stdout, /^growing +too short to tell/m)
  t.match(stdout, /^ +s +rss MB +heap MB +external MB +queued +host busy\n( +[\d.]+){5} +\d+%$/m)
})

t.test('a team that answers nothing is a failure, with each kind of error counted', async (t) => {
  const { code, stdout } = await load(compiled('failing-team'), '--rate', '10', '--seconds', '0.3', '--json')
  t.equal(code, 1)
  const loaded: Loaded = JSON.parse(stdout)
  t.match(loaded, { answered: 0, throughput: 0, latenciesMs: null, failed: loaded.begun })
  t.match(loaded.failures, [{ code: 'AGENT_FAILED', count: loaded.begun, message: String }])
})

t.test('Ctrl-C ends it with what there is', async (t) => {
  const fake = fakeSurroundings()
  const loading = loadIn(fake, [compiled('slow-team'), '--seconds', '3600', '--concurrency', '2', '--json'])
  await once(fake.surroundings.stderr, 'data') // now it says that the load has begun
  process.emit('SIGINT')
  const { code, stdout, stderr } = await loading
  t.equal(code, 130)
  t.match(stderr, 'Interrupted')
  const loaded: Loaded = JSON.parse(stdout)
  t.match(loaded, { interrupted: true, begun: 2, answered: 0, failed: 0, unfinished: 2, latenciesMs: null })
})

t.test('--help says what there is', async (t) => {
  const { code, stdout, stderr } = await load('--help')
  t.strictSame({ code, stderr }, { code: 0, stderr: '' })
  t.match(stdout, /--concurrency <n>[\s\S]*--rate <r>[\s\S]*--seconds <s>[\s\S]*--size <bytes>[\s\S]*--json/)
})

t.test('a wrong option is named, with what came and what is accepted', async (t) => {
  const wrong: [string[], RegExp][] = [
    [[], /missing required argument 'team-file'/],
    [['a.ts', 'b.ts'], /too many arguments/],
    [['a.ts', '--secnds', '3'], /unknown option '--secnds'[\s\S]*Did you mean --seconds/],
    [['a.ts', '--rate'], /'--rate <r>' argument missing/],
    [['a.ts', '--concurrency', '0'], /'--concurrency <n>' argument '0' is invalid\. .*whole number from 1 to 100000/],
    [['a.ts', '--concurrency', '1.5'], /'--concurrency <n>' argument '1\.5' is invalid/],
    [['a.ts', '--rate', 'fast'], /'--rate <r>' argument 'fast' is invalid\. .*executes per second above 0/],
    [['a.ts', '--seconds', '-1'], /'--seconds <s>' argument '-1' is invalid\. .*seconds above 0, up to 86400/],
    [['a.ts', '--seconds', '0'], /'--seconds <s>' argument '0' is invalid/],
    [['a.ts', '--rate', '1000001'], /'--rate <r>' argument '1000001' is invalid/],
    [['a.ts', '--seconds', '1e9'], /'--seconds <s>' argument '1e9' is invalid/],
    [['a.ts', '--size', '99999999'], /'--size <bytes>' argument '99999999' is invalid\. .*bytes from 1 to 16000000/],
    [['nowhere.ts'], /^error: Team file "nowhere\.ts": there is no such file/m],
    [[compiled('no-agents-team')], /^error: agents: /m],
    [[compiled('no-module-team')], /nowhere\.js/],
  ]
  for (const [args, why] of wrong) t.match(await load(...args), { code: 2, stdout: '', stderr: why }, args.join(' '))
})

async function load(...args: string[]) {
  return loadIn(fakeSurroundings(), args)
}

async function loadIn({ surroundings, stdout, stderr }: ReturnType<typeof fakeSurroundings>, args: string[]) {
  const code = await main(args, surroundings)
  return { code, stdout: stdout(), stderr: stderr() }
}

// How growth gets from samples to a reader.

const MB = 2 ** 20
/** Four samples a second. */
const samplesFor = (count: number, grow: (seconds: number) => Partial<Sample>): Sample[] =>
  Array.from({ length: count }, (_, i) => {
    const seconds = i / 4
    return { seconds, rss: 100 * MB, heap: 20 * MB, external: 5 * MB, queued: 0, busy: 0.5, ...grow(seconds) }
  })

t.test('what grows is named, and nothing else is', async (t) => {
  t.strictSame(growing(samplesFor(120, () => ({}))), 'nothing')
  t.strictSame(
    growing(samplesFor(120, (seconds) => ({ heap: 20 * MB + seconds * MB }))),
    "the host's heap: +1 MB/s over the last 14.8 s",
  )
  t.strictSame(
    growing(samplesFor(120, (seconds) => ({ rss: 90 * MB + seconds * 3 * MB, queued: seconds * 40 }))),
    'memory of the process (rss): +3 MB/s over the last 14.8 s; what waits (queued): +40/s over the last 14.8 s',
  )
  t.strictSame(
    growing(samplesFor(120, (seconds) => ({ external: seconds * MB }))),
    "the host's external memory: +1 MB/s over the last 14.8 s",
  )
})

t.test('of a short test nothing is said', async (t) => {
  t.match(growing(samplesFor(20, (seconds) => ({ queued: seconds * 100 }))), /^too short to tell/)
})

t.test('counts that are not zero are told, and an error stays on its line', async (t) => {
  const text = loadText(
    loaded(
      samplesFor(1, () => ({})),
      {
        interrupted: true,
        unfinished: 2,
        notBegun: 3,
        failed: 7,
        failures: [{ code: 'TEAM_OVERLOADED', count: 7, message: 'all\nthis team takes' }],
      },
    ),
  )
  t.match(text, /^team\.ts: 5 executes per second, 2 at a time, 200 bytes each, for 10 s, interrupted$/m)
  t.match(text, /^executes +12 begun, 3 answered, 7 failed, 2 not finished, 3 due but never begun$/m)
  t.match(text, /^ +7 TEAM_OVERLOADED, the first: all this team takes$/m)
  t.match(text, /^latency +nothing was answered$/m)
  t.match(text, /^ +0\.0 +100\.0 +20\.0 +5\.0 +0 +50%$/m, 'one sample is one row')
})

function growing(samples: Sample[]): string | undefined {
  return loadText(loaded(samples, {})).match(/^growing +(.+)$/m)?.[1]
}

function loaded(samples: Sample[], fields: Partial<Loaded>): Loaded {
  return {
    plan: { file: 'team.ts', concurrency: 2, rate: 5, seconds: 10, size: 200 },
    interrupted: false,
    seconds: 10,
    begun: 12,
    answered: 3,
    failed: 0,
    failures: [],
    unfinished: 0,
    notBegun: 0,
    throughput: 0.3,
    latenciesMs: null,
    restarts: 0,
    deadLetters: 0,
    hostBusy: 0.5,
    samples,
    growing: growingOf(samples),
    ...fields,
  }
}

// Percentiles and failures of a load test.

t.test('percentiles hold to three digits, over the whole range', async (t) => {
  const tally = new Tally()
  t.equal(tally.latencies, null, 'of nothing')
  for (let i = 1; i <= 10_000; i++) tally.answer(i)
  const { p50, p90, p99, p999, max } = tally.latencies!
  const expected: [number, number][] = [
    [p50, 5_000],
    [p90, 9_000],
    [p99, 9_900],
    [p999, 9_990],
    [max, 10_000],
  ]
  for (const [measured, exact] of expected) t.ok(Math.abs(measured / exact - 1) < 0.001, `${measured} for ${exact}`)
})

t.test('no percentile is beyond the largest, and no time is too short or too long', async (t) => {
  for (const tookMs of [0, 0.0004, 24.578, 7_200_000]) {
    const tally = new Tally()
    tally.answer(tookMs)
    const { p50, p999, max } = tally.latencies!
    t.ok(p50 <= max && p999 <= max, `${tookMs} ms`)
    t.ok(Math.abs(max - tookMs) <= 0.001)
  }
})

t.test('failures are counted by their code, the most frequent first, with the first message', async (t) => {
  const tally = new Tally()
  tally.fail(new TypeError('of somebody else'))
  tally.fail(new TeamOverloadedError('first', {}))
  tally.fail(new TeamOverloadedError('second', {}))
  t.equal(tally.failed, 3)
  t.strictSame(tally.failures, [
    { code: 'TEAM_OVERLOADED', count: 2, message: 'first' },
    { code: 'UNKNOWN', count: 1, message: 'of somebody else' },
  ])
})

// What a load test calls growing, and what it does not.

/** Four samples a second for 30 s. */
const samples = (value: (seconds: number) => number) =>
  Array.from({ length: 120 }, (_, i): [number, number] => [i / 4, value(i / 4)])
/** Up and down by 1, without a pattern that a line could follow. */
const noise = (seconds: number) => Math.sin(seconds * 1_000)

t.test('a steady rise is named with its slope and how long it was seen', async (t) => {
  const growth = growthOf(
    samples((seconds) => 100 * MB + seconds * 2 * MB + noise(seconds) * MB),
    4 * MB,
  )
  t.ok(growth)
  t.ok(Math.abs(growth!.perSecond / MB - 2) < 0.1, `${growth!.perSecond}`)
  t.ok(Math.abs(growth!.rise / MB - 29.5) < 1.5, `${growth!.rise}`)
  t.equal(growth!.overSeconds, 14.75)
})

t.test('what levels off, falls or only wavers does not grow', async (t) => {
  const steady: Record<string, (seconds: number) => number> = {
    constant: () => 100 * MB,
    zero: () => 0,
    wavering: (seconds) => (100 + 20 * noise(seconds)) * MB,
    'growing in the first half alone': (seconds) => Math.min(seconds, 14) * 20 * MB,
    falling: (seconds) => (500 - seconds * 10) * MB,
    'a saw of a collector, 3 s long': (seconds) => (50 + (seconds % 3) * 20) * MB,
  }
  for (const [name, value] of Object.entries(steady)) t.equal(growthOf(samples(value), 4 * MB), null, name)
})

t.test('a rise that is small, by itself or beside what is there, does not count', async (t) => {
  const rising = samples((seconds) => 1_000 + seconds * 2) // 29.5 over the second half
  t.equal(growthOf(rising, 1), null, 'less than a tenth of the mean')
  const fromNothing = samples((seconds) => seconds * 2)
  t.ok(growthOf(fromNothing, 29))
  t.equal(growthOf(fromNothing, 30), null, 'less than the least rise')
})

t.test('a rise with one step back is a rise all the same', async (t) => {
  const growth = growthOf(
    samples((seconds) => (seconds * 10 - (seconds > 22 ? 20 : 0)) * MB),
    4 * MB,
  )
  t.ok(growth)
})

t.test('too few samples say nothing', async (t) => {
  const rising = samples((seconds) => seconds * MB)
  t.equal(growthOf([], 1), undefined)
  t.equal(growthOf(rising.slice(0, 2 * (ENOUGH_SAMPLES - 1)), 1), undefined)
  t.ok(growthOf(rising.slice(0, 2 * ENOUGH_SAMPLES), 1))
})

// How many executes begin, and when, on a clock of the test's own.

const LINGER_MS = 500
const never = () => new Promise<void>(() => {})

/** Runs a plan of one second to its end. `execute` is told when it was due, and that there is a clock. */
async function generate(
  fields: Partial<Plan>,
  execute: (dueAt: number, clock: ReturnType<typeof virtualClock>) => Promise<void>,
  controller = new AbortController(),
) {
  const clock = virtualClock()
  const plan: Plan = { file: 'team.ts', concurrency: null, rate: null, seconds: 1, size: 1, ...fields }
  const generator = new Generator(plan, clock)
  const before = generator.behind
  const began: { at: number; dueAt: number }[] = []
  let endedAt: number | undefined
  const run = async (dueAt: number) => {
    began.push({ at: clock.monotonic(), dueAt })
    await execute(dueAt, clock)
  }
  const ended = generator.run(run, LINGER_MS, controller.signal).then(() => {
    endedAt = clock.monotonic()
  })
  await clock.runToIdle()
  await ended
  return { generator, before, began, endedAt }
}

t.test('without a rate the next begins when one has ended, and so many are under way at a time', async (t) => {
  const { generator, began, endedAt } = await generate({ concurrency: 3 }, (_, clock) => clock.sleep(50))
  t.strictSame(
    pluck(began, 'at'),
    Array.from({ length: 60 }, (_, i) => Math.floor(i / 3) * 50),
  )
  t.ok(
    began.every(({ at, dueAt }) => at === dueAt),
    'due when it begins',
  )
  t.match(generator, { begun: 60, running: 0, behind: 0, notBegun: 0 })
  t.equal(endedAt, 1_000)
})

t.test('with a rate they begin at fixed times, whether or not others have ended', async (t) => {
  const { generator, began, endedAt } = await generate({ rate: 50 }, never)
  t.strictSame(
    began,
    Array.from({ length: 50 }, (_, i) => ({ at: i * 20, dueAt: i * 20 })),
  )
  t.match(generator, { begun: 50, running: 50, behind: 0, notBegun: 0 })
  t.equal(endedAt, 1_000 + LINGER_MS, 'those under way have so long')
})

t.test('what is due while too many are under way waits its turn, which counts from when it was due', async (t) => {
  const { generator, before, began } = await generate({ rate: 20, concurrency: 1 }, (_, clock) => clock.sleep(100))
  t.equal(before, 0)
  t.strictSame(
    began,
    Array.from({ length: 10 }, (_, i) => ({ at: i * 100, dueAt: i * 50 })),
  )
  t.match(generator, { begun: 10, running: 0, behind: 10, notBegun: 10 })
})

t.test('an abort ends it at once: nothing new begins, and nobody waits for those under way', async (t) => {
  const controller = new AbortController()
  const abortSoon = async (_: number, clock: ReturnType<typeof virtualClock>) => {
    await clock.sleep(30)
    controller.abort()
    await never()
  }
  const { generator, endedAt } = await generate({ rate: 50 }, abortSoon, controller)
  t.equal(endedAt, 30)
  t.match(generator, { begun: 2, running: 2, notBegun: 0 })
})

// The sweep over team sizes as its user has it: counts and structure, no times.

/** Keeps who was asked for what, and answers at once. */
function recorder() {
  const asked: { agent?: string; about: string }[] = []
  const model: ModelClient = {
    rehearsal: true,
    async *complete({ agent, messages }) {
      const about = textOf(messages.at(-1)?.content ?? '')
      asked.push({ ...(agent && { agent }), about })
      await new Promise(setImmediate) // another worker may come first
      yield {
        text: `about ${countTokens(about)}`,
        usage: { inputTokens: 1, outputTokens: 2, totalTokens: 3, calls: 1 },
      }
    },
  }
  return { asked, model }
}

t.test('each section is summarized once, by whoever is free, and an editor gets all in their order', async (t) => {
  const parts = await sections()
  t.ok(parts.length > 10)
  const { asked, model } = recorder()
  const plan = { job: await JOBS.parts(), sizes: [1, 3], rounds: 2, models: { default: model } }
  const told: number[] = []
  const reports = await sweep(plan, new AbortController().signal, ({ workers }) => told.push(workers))
  t.same(told, [1, 3, 1, 3])
  const calls = parts.length + 1
  t.match(reports, [
    { workers: 1, calls, tokens: 3 * calls },
    { workers: 3, calls, tokens: 3 * calls },
  ])
  const questions = parts.map((part) => `Summarize this section:\n${part}`)
  const first = asked.slice(0, calls)
  t.same(
    first.slice(0, -1),
    questions.map((about) => ({ agent: 'worker-1', about })),
  )
  const second = asked.slice(calls, 2 * calls)
  t.same(
    second
      .slice(0, -1)
      .map(({ about }) => about)
      .sort(),
    [...questions].sort(),
  )
  t.same([...new Set(second.map(({ agent }) => agent))].sort(), ['editor', 'worker-1', 'worker-2', 'worker-3'])
  const summaries = questions.map((about) => `about ${countTokens(about)}`).join('\n')
  for (const at of [calls, 2 * calls])
    t.same(asked[at - 1], { agent: 'editor', about: `Make an overview of these summaries:\n${summaries}` })
})

t.test('it can be ended', async (t) => {
  const { model } = recorder()
  const plan = { job: await JOBS.parts(), sizes: [2], rounds: 1, models: { default: model } }
  await t.rejects(
    sweep(plan, AbortSignal.abort(new Error('enough')), () => {}),
    { code: 'RUN_ABORTED' },
  )
})

t.test('wrong options are named, with what is accepted', async (t) => {
  const wrong: [args: string[], text: RegExp][] = [
    [['--sizes', '1,x'], /--sizes.*whole numbers from 1 to 64/],
    [['--job', 'dig'], /--job.*parts, question, chain/],
    [['--sizes', '65'], /--sizes.*whole numbers from 1 to 64/],
    [['--rounds', '0'], /--rounds.*whole number from 1 to 100/],
    [['--nonsense'], /unknown option '--nonsense'/],
    [['extra'], /too many arguments/],
  ]
  for (const [args, text] of wrong) {
    const { surroundings, stderr } = fakeSurroundings()
    t.equal(await measureSizes(args, surroundings), 2, args.join(' '))
    t.match(stderr(), text)
  }
})

t.test('a question with one right answer is put to all, and a chain to one after the other', async (t) => {
  const job = await JOBS.question()
  const plan = { job, sizes: [1, 5], rounds: 1, models: { default: job.simulated } }
  const [one, five] = await sweep(plan, new AbortController().signal, () => {})
  t.match([one?.calls, five?.calls], [100, 500])
  t.ok(one!.right! > 0.5 && five!.right! > one!.right!, `${one?.right} and ${five?.right}`)
  const { asked, model } = recorder()
  const chain = { job: await JOBS.chain(), sizes: [3], rounds: 1, models: { default: model } }
  const [report] = await sweep(chain, new AbortController().signal, () => {})
  t.equal(report?.right, undefined)
  t.same(
    pluck(asked, 'agent'),
    Array.from({ length: 12 }, (_, at) => `worker-${(at % 3) + 1}`),
  )
  t.match(asked[1]?.about, /^Improve this text \(step 2\):\nabout \d+$/)
})
