/** The load test as its user has it. Real threads; counts and structure, no times. */
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { runChild } from '../../bench/child.ts'
import { main } from '../../bench/load/command.ts'
import type { Loaded } from '../../bench/load/load.ts'
import { fakeSurroundings } from '../service/fake-team.ts'

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
