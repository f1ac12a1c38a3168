/** `dramatis rehearse`: its threads, its models, how far it is, and what it reports. */
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import t from 'tap'
import type { Injected } from '../../src/runtime/testing/faults.ts'
import { main } from '../../src/service/commands/program.ts'
import { countOn, type Failure, isFailure, type Played } from '../../src/service/rehearsal/job.ts'
import { RehearsingThread } from '../../src/service/rehearsal/rehearsing-thread.ts'
import { rehearsalData, rehearsalReport, seedReport } from '../../src/service/rehearsal/report.ts'
import {
  DeadlockError,
  type DramatisError,
  errorData,
  LivelockError,
  RequestTimeoutError,
  StallError,
} from '../../src/shared/errors.ts'
import { modelServer } from '../fixtures/model-server.ts'
import { howMany } from '../how-many.ts'
import { collectGarbage } from '../soak/samples.ts'
import { dramatis } from './command-line.ts'
import { fakeScreen, fakeSurroundings } from './fake-team.ts'

// `dramatis rehearse`: its threads are real; a process of its own has it where the process is the point.

const compiled = (name: string) => fileURLToPath(new URL(`../fixtures/${name}.js`, import.meta.url))
const planted = ['examples/planted-deadlock/team.ts', 'Dinner for forty']

/** The command in this process. */
async function rehearse(args: string[], folder = process.cwd()) {
  const { surroundings, stdout, stderr } = fakeSurroundings()
  const code = await main(['rehearse', ...args], { ...surroundings, folder })
  return { code, stdout: stdout(), stderr: stderr() }
}

interface Report {
  runs: number
  outcomes: Record<string, number>
  failures: { seed: number; outcome: string; error: { code: string; message: string }; replay: string }[]
  shortest: { seed: number; diagram: string; replay: string } | null
}

t.test('it finds the planted deadlock, shows the shortest run and the command that plays it again', async (t) => {
  const { code, stdout, stderr } = await dramatis(['rehearse', ...planted, '--seeds', '30'])
  t.equal(code, 1, stderr)
  t.equal(stderr, '')
  const [, done, deadlock, seed] =
    /^30 runs\n\ndone +(\d+)\ndeadlock +(\d+)\nlivelock +0\nstall +0\nfailed +0\n[\s\S]*that of seed (\d+), with \d+ messages:\n\nsequenceDiagram\n/m.exec(
      stdout,
    ) ?? []
  t.ok(Number(done) > 0 && Number(deadlock) > 0, stdout)
  const replay = `npx dramatis rehearse examples/planted-deadlock/team.ts "Dinner for forty" --seed ${seed}`
  const none = 'No faults were played: --faults plays crash,delay,duplicate.'
  t.ok(stdout.endsWith(`Play it again:\n  ${replay}\n\n${none}\n`), stdout)
  const [first, second] = [await rehearse([...planted, '--seed', seed!]), await rehearse([...planted, '--seed', seed!])]
  t.equal(first.code, 1)
  t.match(first.stdout, /^sequenceDiagram\n[\s\S]*produce_buyer[\s\S]*No faults\.\n/)
  t.match(first.stdout, `Seed ${seed}: deadlock: DEADLOCK: Agents wait for each other in a circle: `)
  t.match(
    first.stdout,
    /(produce_buyer -> fish_buyer -> produce_buyer|fish_buyer -> produce_buyer -> fish_buyer)\.\n\n/,
  )
  t.ok(first.stdout.endsWith(`\n\n${none}\n`), first.stdout)
  t.equal(second.stdout, first.stdout)
})

t.test('a team that works exits with 0', async (t) => {
  const { code, stdout, stderr } = await rehearse([
    'examples/hello/team.ts',
    'world',
    '--seeds',
    '10',
    '--faults',
    'crash, delay,duplicate',
  ])
  t.equal(code, 0, stderr)
  t.match(stdout, /^10 runs\n\ndone +10\ndeadlock +0\nlivelock +0\nstall +0\nfailed +0\n$/)
})

t.test('--faults without a list plays crashes, delays and duplicates, wherever it stands', async (t) => {
  const team = ['examples/planted-deadlock/team.ts', 'Dinner for forty', '--seed', '7']
  const listed = await rehearse([...team, '--faults', 'crash,delay,duplicate'])
  t.match(listed.stdout, /\nFaults:\n/)
  t.notMatch(listed.stdout, /No faults/)
  for (const args of [
    ['--faults', ...team],
    [...team.slice(0, 2), '--faults', ...team.slice(2)],
    [...team, '--faults'],
  ].slice(0, howMany(2, 3)))
    t.same(await rehearse(args), listed)
})

t.test('--json has the same as data', async (t) => {
  const all = await rehearse([...planted, '--seeds', '20', '--json'])
  t.equal(all.code, 1)
  const report: Report = JSON.parse(all.stdout)
  t.equal(report.runs, 20)
  t.equal(report.failures.length, 20 - report.outcomes.done!)
  t.match(report.shortest, { diagram: /^sequenceDiagram/, replay: `--seed ${report.shortest?.seed}` })
  const one = await rehearse([...planted, '--seed', String(report.failures[0]?.seed), '--json'])
  t.match(JSON.parse(one.stdout), { ...report.failures[0], replay: undefined, trace: { messageFlow: Array } })
})

t.test('an endless loop ends its own seed, and names whose turn it was', async (t) => {
  const args = [compiled('rehearsal/looping-team'), 'go', '--seeds', '2', '--seed-timeout', '3000', '--json']
  const { code, stdout, stderr } = await rehearse(args)
  t.equal(code, 1, stderr)
  const { outcomes, failures }: Report = JSON.parse(stdout)
  t.match(outcomes, { done: 1, failed: 1 }, stdout)
  for (const { error } of failures)
    t.match(error, { code: 'AGENT_CRASHED', message: /blocked its thread.*agent "looper"/ })
})

t.test('real input is refused where it is called, and may be imported', async (t) => {
  const team = compiled('rehearsal/importing-team')
  const fine = await rehearse([team, 'packed', '--seeds', '1', '--json'])
  t.strictSame([fine.code, fine.stderr], [0, ''])
  for (const [query, call] of [
    ['read', 'agent "imports": node:fs/promises.readFile'],
    ['request', 'agent "imports": node:http.request'],
    ['look', 'the team file: node:fs.existsSync'],
  ] as const) {
    const { code, stdout, stderr } = await rehearse([team, query, '--seeds', '1'])
    t.equal(code, 1)
    t.match(stdout, /^failed +1$/m)
    t.match(stdout, `: ${call} is real input or output`)
    t.match(stderr, `refused: ${call} is real input or output`)
  }
})

t.test('real input while it is imported keeps the team from working at all', async (t) => {
  const { code, stdout, stderr } = await rehearse([compiled('rehearsal/reading-team'), 'go', '--seeds', '1'])
  t.strictSame({ code, stdout }, { code: 2, stdout: '' }, stderr)
  t.match(stderr, /^error: the team file: node:fs\.readFileSync is real input or output/m)
})

t.test('a promise that nobody keeps fails the run, and one seed alone shows what was printed', async (t) => {
  const { code, stdout, stderr } = await rehearse([compiled('rehearsal/restless-team'), 'me', '--seed', '5'])
  t.equal(code, 1)
  t.match(stdout, /Seed 5: failed: AGENT_FAILED: Something threw outside of any turn.*nobody heard me/)
  t.match(stderr, /^info printed by the team file$/m)
})

t.test('a logger of the team itself hears what goes on, as in life', async (t) => {
  const { code, stderr } = await rehearse([compiled('rehearsal/logging-team'), 'me', '--seed', '5'])
  t.equal(code, 0, stderr)
  t.match(stderr, /^info heard: a run begins$/m)
})

t.test('--record keeps what fetch was answered, and answers from it', async (t) => {
  const server = createServer((_request, response) => response.end('{ "word": "recorded" }'))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const cwd = t.testdir()
  const args = [
    compiled('rehearsal/fetching-team'),
    `http://127.0.0.1:${port}/`,
    '--seeds',
    '4',
    '--record',
    'kept.json',
  ]
  t.match(await rehearse(args, cwd), { code: 0, stdout: /^4 runs\n\ndone +4$/m })
  t.ok(existsSync(join(cwd, 'kept.json')))
  const kept = readFileSync(join(cwd, 'kept.json'), 'utf8')
  server.close()
  t.match(await rehearse(args, cwd), { code: 0, stdout: /^4 runs\n\ndone +4$/m })
  t.equal(readFileSync(join(cwd, 'kept.json'), 'utf8'), kept)
})

t.test('--record keeps what steps came to, from whichever thread', async (t) => {
  const cwd = t.testdir({ word: 'one' })
  const word = join(cwd, 'word')
  const args = [compiled('rehearsal/stepping-team'), `twice ${word}`, '--record', 'kept.json']
  t.match(await rehearse([...args, '--seeds', '6'], cwd), { code: 0, stdout: /^6 runs\n\ndone +6$/m })
  rmSync(word)
  t.match(await rehearse([...args, '--seed', '3', '--json'], cwd), { code: 0, stdout: /"outcome": ?"done"/ })
  const kept: Record<string, { result: string }> = JSON.parse(readFileSync(join(cwd, 'kept.json'), 'utf8'))
  const whose = Object.keys(kept).map((key) => key.split('"')[1])
  t.same(whose.sort(), ['$orchestrator', 'steps', 'steps'])
})

t.test('Ctrl-C ends it with 130', async (t) => {
  const args = ['rehearse', compiled('rehearsal/looping-team'), 'always', '--seed', '4']
  const { code, stdout } = await dramatis(args, { interruptAt: 'info looper looping' })
  t.strictSame({ code, stdout }, { code: 130, stdout: '' })
})

t.test('wrong usage exits with 2 and says why', async (t) => {
  const file = 'examples/hello/team.ts'
  const oneSeed = ['q', '--seed', '1'] // on one thread
  const wrong: [string[], RegExp][] = [
    [[file], /What is to be played\? Give a query in quotes, or an old run with --from/],
    [['nowhere.ts', 'q'], /^error: Team file "nowhere\.ts": there is no such file/m],
    [['package.json', 'q'], /accepted: \.js/],
    [[compiled('cli/no-default-export'), ...oneSeed], /has no default export/],
    [[compiled('cli/throws-while-loaded'), ...oneSeed], /^error: Team file .*TypeError: no such key/m],
    [[compiled('cli/no-agents-team'), ...oneSeed], /^error: agents: /m],
    [[compiled('cli/no-module-team'), ...oneSeed], /nowhere\.js/],
    [[file, 'q', '--seeds', '0'], /^error: --seeds: 0; accepted: a whole number from 1/m],
    [[file, 'q', '--seeds', 'NaN'], /--seeds.*whole number/],
    [[file, 'q', '--seeds', '1.5'], /--seeds.*whole number/],
    [[file, 'q', '--seed', '-1'], /--seed/],
    [[file, 'q', '--seed', '4294967296'], /^error: --seed: /m],
    [[file, 'q', '--seed', '1', '--seeds', '2'], /^error: --seed plays one run and --seeds many/m],
    [
      [file, 'q', '--faults', 'fire'],
      /^error: --faults: there is no fault "fire"; there are crash, delay, duplicate, hang, refuse/m,
    ],
    [[file, 'q', '--faults', ''], /^error: --faults: there is no fault ""/m],
    [[file, 'q', '--record', '.'], /^error: record: .* cannot be read/m],
    [[file, 'q', '--seed-timeout', '0'], /--seed-timeout.*milliseconds/],
  ]
  for (const [args, why] of wrong) {
    const { code, stdout, stderr } = await rehearse(args)
    t.strictSame({ code, stdout }, { code: 2, stdout: '' }, stderr)
    t.match(stderr, why)
    t.notMatch(stderr, /^ +at /m, 'no stack')
  }
})

// `dramatis rehearse`, models that cost money, and tools that change something.

const rehearseModelsCompiled = (name: string) =>
  fileURLToPath(new URL(`../fixtures/rehearsal/${name}.js`, import.meta.url))
const team = rehearseModelsCompiled('paid-team')

async function rehearseModelsRehearse(args: string[]) {
  const { surroundings, stdout, stderr } = fakeSurroundings()
  const code = await main(['rehearse', ...args], surroundings)
  return { code, stdout: stdout(), stderr: stderr() }
}

t.test('it asks no model that costs money, and says so; with --real-models it does', async (t) => {
  const server = await modelServer(t)
  server.always('Certainly.')
  process.env.PAID_MODELS = server.baseURL
  t.teardown(() => {
    delete process.env.PAID_MODELS
    delete process.env.PAID_KEY
  })
  const args = [team, 'hello', '--seeds', '1', '--faults', 'crash,delay']
  const rehearsed = await rehearseModelsRehearse(args)
  t.match(rehearsed, { code: 0, stdout: /^done +1$/m }, 'it needs no key')
  t.equal(rehearsed.stderr, 'the rehearsal model answered in place of default, other; --real-models asks them\n')
  t.equal(server.calls.length, 0)

  process.env.PAID_KEY = 'key'
  const real = await rehearseModelsRehearse([...args, '--real-models'])
  t.strictSame([real.code, real.stderr], [0, ''], real.stdout)
  t.ok(server.calls.length >= 2)
  t.same(new Set(server.calls.map(({ body }) => body.model)), new Set(['large', 'small']))
})

t.test('tools that change something, or work outside, do not run, and are named', async (t) => {
  const { code, stdout, stderr } = await rehearseModelsRehearse([
    rehearseModelsCompiled('tools-team'),
    'hello',
    '--seeds',
    '1',
    '--json',
  ])
  t.strictSame([code, JSON.parse(stdout).outcomes.done], [0, 1], stdout)
  const names = 'calculator, list_dir, read_file, record, refund, run_cmd, weather, write_file'
  t.equal(stderr, `these tools did not run, but were answered with made-up values: ${names}; --real-tools runs them\n`)
})

// How far a rehearsal is: one line on a terminal, nothing elsewhere.

const terminal = { columns: 80, rows: 24 }

t.test('a terminal shows how many runs were played, and how many are not done', async (t) => {
  const { screen, text } = fakeScreen(terminal)
  const count = await countOn(screen, { TERM: 'xterm' })
  count.show(3, 10, 1)
  t.match(text(), '3 of 10 runs, 1 of them not done')
  count.print('a line that stays\n')
  t.match(text(), /a line that stays\n$/)
  count.end()
  count.end()
})

t.test('a pipe, and a terminal that cannot move its cursor, get what stays alone', async (t) => {
  for (const [size, TERM] of [
    [undefined, 'xterm'],
    [terminal, 'dumb'],
  ] as const) {
    const { screen, text } = fakeScreen(size)
    const count = await countOn(screen, { TERM })
    count.show(3, 10, 1)
    count.print('a line\n')
    count.end()
    t.equal(text(), 'a line\n')
  }
})

// What a rehearsal says of its failures: the same mistake once, and what was made to go wrong with it.

const replay = (seed: number) => `--seed ${seed}`
const id = (seed: number) => `01941f29-7c00-7000-8000-${String(seed).padStart(12, '0')}`

function failed(seed: number, error: DramatisError, faults: readonly Injected[] = []): Failure {
  const trace = { events: [], decisions: [], agentActivations: [], messageFlow: [], syncPointsReached: [] }
  const played: Played = {
    seed,
    kind: 'failed',
    error: errorData(error),
    messages: 1,
    faults,
    standsInFor: [],
    simulatedTools: [],
    refused: [],
    trace,
  }
  if (isFailure(played)) return played
  throw new Error('not a failure')
}

const stall = (seed: number, ...evidence: string[]) =>
  failed(seed, new StallError(`Nothing goes on any more: ${evidence.join('; ')}.`, { evidence }))
const waits = (agent: string, seed: number) => `"${agent}" (message ${id(seed)}) waits for "next" on the blackboard`

const groups = (failures: Failure[]) =>
  rehearsalReport(failures, undefined, replay, ['crash']).split('\n\n').slice(2, -1).join('\n')

t.test('failures that differ in ids alone are one group', async (t) => {
  const seeds = Array.from({ length: 13 }, (_, i) => i + 1)
  t.equal(
    groups(seeds.map((seed) => stall(seed, waits('barber', seed), waits('customer', seed + 20)))),
    '13 x STALL: Nothing goes on any more: "barber" waits for "next" on the blackboard; "customer" waits for "next" on the blackboard.\n' +
      '  seeds 1, 2, 3, 4, 5, 6, 7, 8, ...',
  )
  const late = (seed: number) =>
    failed(seed, new RequestTimeoutError(`Seed ${seed}: no answer to ${id(seed)} in run "seed-${seed}".`))
  t.equal(groups([late(1), late(2)]), '2 x REQUEST_TIMEOUT: The seed: no answer to … in run "…".\n  seeds 1, 2')
})

t.test('one circle is one group wherever it begins, and one stall in whatever order it is told', async (t) => {
  const circle = (seed: number, ...cycle: string[]) => failed(seed, new DeadlockError(`A circle: ${cycle}.`, { cycle }))
  const found = groups([circle(1, 'b', 'c', 'a'), circle(2, 'a', 'b', 'c'), circle(3, 'a', 'c', 'b')])
  t.equal(found, '2 x DEADLOCK: A circle: b,c,a.\n  seeds 1, 2\n1 x DEADLOCK: A circle: a,c,b.\n  seed 3')
  const [one, other] = [stall(1, waits('a', 1), waits('b', 2)), stall(2, waits('b', 3), waits('a', 4))]
  t.match(groups([one, other]), /^2 x STALL/)
})

t.test('failures that say something else are groups of their own, the most frequent first', async (t) => {
  const sign = (seed: number, name: string) => {
    const evidence = [`"${name}" asked 4 times (the last: message ${id(seed)})`]
    return failed(seed, new LivelockError(`Busy: ${evidence}.`, { evidence }))
  }
  t.equal(
    groups([sign(1, 'ann'), sign(2, 'bob'), sign(3, 'bob')]),
    '2 x LIVELOCK: Busy: "bob" asked 4 times.\n  seeds 2, 3\n1 x LIVELOCK: Busy: "ann" asked 4 times.\n  seed 1',
  )
})

t.test('the shortest run is shown with what was made to go wrong in it, as one seed alone is', async (t) => {
  const shown = failed(7, new RequestTimeoutError('late'), [{ fault: 'refuse', agent: 'ann', at: 5 }])
  const text = 'Faults:\n  refuse of ann, 5 ms after the begin\n'
  t.match(rehearsalReport([shown], shown, replay, ['crash']), `nothing happened\n\n${text}\nPlay it again:`)
  t.match(seedReport(shown, ['crash']), `nothing happened\n\n${text}\nSeed 7: failed: REQUEST_TIMEOUT: late`)
  t.match(rehearsalData([shown], shown, replay), {
    shortest: { seed: 7, faults: [{ fault: 'refuse', agent: 'ann' }] },
  })
  const plain = failed(8, new RequestTimeoutError('late'))
  t.match(rehearsalReport([plain], plain, replay, []), 'nothing happened\n\nNo faults.\n\nPlay it again:')
})

// A thread that rehearses, as the command has it.

t.test('what a thread has played is let go of while it plays on', async (t) => {
  const file = 'examples/hello/team.ts'
  const job = {
    href: pathToFileURL(file).href,
    file,
    query: 'world',
    faults: [],
    recorded: false,
    realModels: false,
    realTools: false,
    shown: false,
  }
  const thread = new RehearsingThread(job, undefined, 30_000, () => {})
  t.teardown(() => thread.end())
  const played = new WeakRef(await thread.play(1, false))
  await thread.play(2, false)
  for (let looks = 0; looks < 100 && played.deref(); looks++) {
    await new Promise((resolve) => setImmediate(resolve))
    collectGarbage()
  }
  t.equal(played.deref(), undefined)
})
