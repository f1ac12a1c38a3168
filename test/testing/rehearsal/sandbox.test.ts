/** What code finds in a rehearsal, that it reaches nothing outside, and the people who are played in it. */
import child from 'node:child_process'
import dgram from 'node:dgram'
import dns from 'node:dns'
import net from 'node:net'
import { Script } from 'node:vm'
import { createAnthropic } from '@ai-sdk/anthropic'
import t, { type Test } from 'tap'
import { z } from 'zod'
import { fromAiSdk } from '../../../src/ai-sdk/index.ts'
import { type ApprovalPolicy, defineAgent, defineTool, type MultiAgentPatternOptions } from '../../../src/index.ts'
import { wrapModel } from '../../../src/models.ts'
import { refusingFetch } from '../../../src/runtime/testing/recording.ts'
import { Sandbox } from '../../../src/runtime/testing/sandbox.ts'
import { SteppedClock } from '../../../src/runtime/testing/virtual-clock.ts'
import { DramatisError } from '../../../src/shared/errors.ts'
import { Dice } from '../../../src/shared/random.ts'
import { rehearse, testTeam } from '../../../src/testing.ts'
import { runCode, weather, workspace } from '../../../src/tools/index.ts'
import { modelServer } from '../../fixtures/model-server.ts'
import { chatWire } from '../../fixtures/model-wire.ts'
import { anthropicWire } from '../../fixtures/wires/anthropic.ts'
import { howMany } from '../../how-many.ts'
import { silent } from '../../kit/team.ts'
import { calls, FakeModel } from '../../models/fake-model.ts'

// What code of a user finds in a rehearsal: time, chance and timers of the run, and no way outside.

const DAY = Date.UTC(2025, 0, 1)

/** Runs code in a sandbox; what it assigns to `exports` comes back. */
function play(code: string, { seed = 1, env = {} as Record<string, string> } = {}) {
  const clock = new SteppedClock(1, DAY)
  const printed: string[] = []
  const refused: string[] = []
  const deaths: { code: number; error: Error | undefined }[] = []
  const sandbox = new Sandbox({
    who: 'agent "a"',
    clock,
    dice: new Dice(seed, 'a'),
    env,
    fetch: refusingFetch,
    print: (line) => printed.push(line),
    refused: (error) => refused.push(error.message),
    died: (code, error) => deaths.push({ code, error }),
  })
  const exports = () => sandbox.run(new Script(`(function (exports, require, module) {${code}\n})`))
  return { clock, sandbox, printed, refused, deaths, exports }
}

/** What an expression is worth in a sandbox of its own. */
const worth = (expression: string, seed?: number): unknown =>
  play(`exports.value = ${expression}`, { seed }).exports().value

t.test('the date is the date of the run, in every way to ask for it', async (t) => {
  for (const now of [
    'Date.now()',
    'new Date().getTime()',
    'Number(new Date())',
    'new (new Date(5).constructor)().getTime()',
    'Reflect.construct(Date, []).getTime()',
    'new (class extends Date {})().getTime()',
    'globalThis.Date.now()',
    'performance.timeOrigin',
  ])
    t.equal(worth(now), DAY, now)
  t.equal(worth('Date()'), new Date(DAY).toString())
  t.equal(worth("new Intl.DateTimeFormat('en', { timeZone: 'UTC' }).format()"), '1/1/2025')
  t.match(worth("new Intl.DateTimeFormat('en', { timeZone: 'UTC' }).formatToParts()"), [{ value: '1' }])
  t.equal(worth("Date.parse('2020-01-01')"), Date.parse('2020-01-01'))
  t.equal(worth('new Date(2020, 1, 1).getFullYear()'), 2020)
  t.equal(worth('new Date() instanceof Date'), true)
})

t.test('it goes on with the clock of the run', async (t) => {
  const { clock, exports } = play(
    'exports.read = () => [Date.now(), performance.now(), process.uptime(), process.hrtime()]',
  )
  const read = exports().read as () => unknown
  await clock.advance(1_500)
  t.same(read(), [DAY + 1_500, 1_500, 1.5, [1, 500_000_000]])
})

t.test('chance follows from the seed', async (t) => {
  for (const drawn of [
    'Math.random()',
    'crypto.randomUUID()',
    'Array.from(crypto.getRandomValues(new Uint8Array(8))).join()',
    "require('node:crypto').randomBytes(8).toString('hex')",
    "require('crypto').randomUUID()",
    "require('node:crypto').randomInt(1_000_000)",
    "Array.from(require('node:crypto').randomFillSync(new Uint8Array(8))).join()",
    "Array.from(require('node:crypto').randomFillSync(new Uint32Array(8), 4, 2)).join()",
    "Array.from(new Uint8Array(require('node:crypto').randomFillSync(new ArrayBuffer(8)))).join()",
    "Array.from(require('node:crypto').webcrypto.getRandomValues(new Uint8Array(8))).join()",
  ]) {
    t.equal(worth(drawn, 7), worth(drawn, 7), drawn)
    t.not(worth(drawn, 7), worth(drawn, 8), drawn)
  }
  t.match(worth('crypto.randomUUID()'), /^[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/)
  t.equal(worth("require('node:crypto').createHash('sha256').update('a').digest('hex').slice(0, 8)"), 'ca978112')
})

t.test('randomFill takes the arguments that Node takes', async (t) => {
  const filled = play(`
    const { randomFill } = require('node:crypto')
    const drawn = (...range) =>
      new Promise((resolve, reject) =>
        randomFill(new Uint16Array(8), ...range, (error, array) => (error ? reject(error) : resolve(Array.from(array)))))
    exports.drawn = () => Promise.all([drawn(), drawn(6), drawn(2, 3)])
    exports.beyond = () => randomFill(new Uint8Array(8), 6, 3, () => {})`).exports() as {
    drawn(): Promise<number[][]>
    beyond(): void
  }
  const set = (await filled.drawn()).map((array) => array.map((value, i) => (value === 0 ? '' : i)).join(''))
  t.same(set, ['01234567', '67', '234'])
  t.throws(filled.beyond, { code: 'ERR_OUT_OF_RANGE' })
})

t.test('timers ring when the clock of the run is there', async (t) => {
  const { clock, exports } = play(`
    const rung = exports.rung = []
    const note = (name) => () => rung.push(name + ' ' + performance.now())
    setTimeout(note('timeout'), 50)
    setTimeout((a, b) => rung.push(a + b), 60, 'ar', 'gs')
    setImmediate(note('immediate'))
    const interval = setInterval(note('interval'), 40)
    setTimeout(() => clearInterval(interval), 90)
    clearTimeout(setTimeout(note('never'), 10))
    clearImmediate(setImmediate(note('never')))
    setTimeout(note('refreshed'), 100).refresh().unref().ref()
    require('node:timers').setTimeout(note('module'), 70)
    require('node:timers/promises').setTimeout(75, 'promise').then((value) => rung.push(value))
    require('node:util').promisify(setTimeout)(85, 'promisified').then((value) => rung.push(value))
    AbortSignal.timeout(95).addEventListener('abort', () => rung.push('signal'))
  `)
  const { rung } = exports()
  t.same(rung, [])
  await clock.advance(200)
  t.same(rung, [
    'immediate 0',
    'interval 40',
    'timeout 50',
    'args',
    'module 70',
    'promise',
    'interval 80',
    'promisified',
    'signal',
    'refreshed 100',
  ])
})

t.test('a signal ends a wait, and tells a timeout by its name', async (t) => {
  const { clock, exports } = play(`
    const told = exports.told = []
    const { setTimeout, setInterval } = require('timers/promises')
    setTimeout(1_000, 0, { signal: AbortSignal.timeout(10) }).catch((error) => told.push(error.name, error.cause.name))
    ;(async () => { for await (const tick of setInterval(4, 'tick')) if (told.push(tick) > 2) return })()
    told.push(AbortSignal.timeout(1) instanceof AbortSignal)
  `)
  const { told } = exports()
  await clock.advance(20)
  t.same(told, [true, 'tick', 'tick', 'AbortError', 'TimeoutError'])
})

t.test('a life that has ended has no timers', async (t) => {
  const { clock, sandbox, exports } = play(`
    exports.rung = []
    setTimeout(() => exports.rung.push('timeout'), 10)
    setInterval(() => exports.rung.push('interval'), 10)
    process.nextTick(() => exports.rung.push('tick'))
    queueMicrotask(() => exports.rung.push('microtask'))`)
  const { rung } = exports()
  sandbox.close()
  await clock.runToIdle()
  t.same(rung, [])
  t.equal(clock.monotonic(), 0)
})

t.test('what a timer throws, and process.exit, end the life', async (t) => {
  const { clock, deaths, exports } = play("setTimeout(() => { throw new RangeError('too far') }, 5)")
  exports()
  await clock.advance(5)
  t.match(deaths, [{ code: 1, error: { name: 'RangeError', message: 'too far' } }])
  const exiting = play('exports.leave = () => { process.exit(3); exports.after = true }')
  const left = exiting.exports()
  t.throws(left.leave as () => void)
  t.match(exiting.deaths, [{ code: 3, error: undefined }])
  t.notOk(left.after)
})

t.test('modules of Node that compute are there', async (t) => {
  for (const name of [
    'path',
    'node:util',
    'node:events',
    'assert',
    'node:buffer',
    'url',
    'querystring',
    'string_decoder',
    'stream',
  ])
    t.ok(worth(`require('${name}')`), name)
  t.equal(worth("require('node:path').join('a', 'b')"), 'a/b')
})

t.test(
  'modules that reach outside can be imported, and refuse to be used: whose they are, and what to do',
  async (t) => {
    for (const call of [
      'fs.readFileSync',
      'fs/promises.readFile',
      'fs.promises.readFile',
      'net.connect',
      'http.request',
      'https.get',
      'child_process.exec',
      'dns.promises.lookup',
      'worker_threads.receiveMessageOnPort',
      'os.hostname',
      'vm.runInThisContext',
      'dgram.createSocket',
      'zlib.createGzip',
    ]) {
      const [name, ...path] = call.split('.')
      const { refused, exports } = play(`
      const given = require('node:${name}')
      exports.call = () => given.${path.join('.')}('x')
      exports.make = () => new given.${path.join('.')}('x')`)
      const used = exports()
      t.same(refused, [], `${name} is imported`)
      const message = new RegExp(`^agent "a": node:${call} is real input or output`)
      t.throws(used.call as () => void, { code: 'CONFIGURATION', message }, call)
      t.throws(used.make as () => void, { message })
      t.match(refused[0], / (Do it in context\.step and play with --record|Take the function for a whole buffer)/)
    }
    t.throws(play("require('fs').readFileSync('x')").exports, /node:fs\.readFileSync/)
    t.throws(play("require('nowhere')").exports, /the module "nowhere", which was not bundled,.* plain name/)
  },
)

t.test('what is no function of such a module is there, unless it reaches outside itself', async (t) => {
  t.equal(worth("require('fs').constants.O_RDONLY"), 0)
  t.equal(worth("require('http').STATUS_CODES[404]"), 'Not Found')
  t.equal(worth("require('http').METHODS.includes('GET')"), true)
  t.match(worth("require('os').EOL + require('os').platform()"), `\n${process.platform}`)
  t.equal(worth("require('tty').isatty(1)"), false)
  t.same(worth("(({ parentPort, workerData }) => [parentPort, workerData])(require('worker_threads'))"), [null, null])
  t.throws(play("require('http').globalAgent.destroy()").exports, /agent "a": node:http\.globalAgent is real input/)
  t.equal(worth("typeof class Own extends require('net').Socket {}"), 'function')
  t.equal(worth("(require('fs').close = () => 'patched', require('fs').close())"), 'patched')
})

t.test('zlib works on whole buffers, and takes no time of the run', async (t) => {
  const { clock, exports } = play(`
    const { gunzipSync, gzipSync, brotliCompress } = require('node:zlib')
    exports.order = [gunzipSync(gzipSync('here')).toString()]
    setTimeout(() => exports.order.push('timer'), 1)
    brotliCompress('elsewhere', (error, packed) => exports.order.push(require('zlib').brotliDecompressSync(packed).toString()))`)
  const { order } = exports()
  await clock.runToIdle()
  t.same(order, ['here', 'elsewhere', 'timer'])
})

t.test('fetch is refused with the address, and the globals that open connections are', async (t) => {
  const { refused, exports } = play(
    "exports.told = fetch('https://example.org/a', { method: 'post' }).catch((error) => error)",
  )
  const told = await (exports().told as Promise<DramatisError>)
  t.ok(told instanceof DramatisError)
  t.match(told.message, /^agent "a": fetch \(POST https:\/\/example\.org\/a\).*--record/)
  t.equal(refused.length, 1)
  for (const name of ['WebSocket', 'BroadcastChannel', 'MessageChannel', 'EventSource'])
    t.throws(play(`new ${name}('x')`).exports, new RegExp(`agent "a": ${name} is real`), name)
  for (const drawing of [
    "generateKeyPairSync('ed25519')",
    'generatePrimeSync(32)',
    "createECDH('secp256k1')",
    'createDiffieHellman(64)',
    "getDiffieHellman('modp14')",
  ])
    t.throws(play(`require('crypto').${drawing}`).exports, new RegExp(drawing.replace(/\(.*/, '')), drawing)
})

t.test('errors and promises are those of the host on both sides', async (t) => {
  const seen = play(`
    exports.thrown = () => { null.field }
    exports.own = new (class Mine extends Error {})('mine')
    exports.isError = (value) => value instanceof Error
    exports.isBytes = (value) => value instanceof Uint8Array && value instanceof ArrayBuffer === false
    exports.isList = (value) => value instanceof Array
    exports.later = (async () => 1)()
  `).exports() as {
    thrown(): void
    own: unknown
    isError(value: unknown): boolean
    isBytes(value: unknown): boolean
    isList(value: unknown): boolean
    later: unknown
  }
  t.throws(seen.thrown, TypeError)
  t.ok(seen.own instanceof Error)
  t.ok(seen.isError(new RangeError('ours')))
  t.ok(seen.isBytes(Buffer.from('a')))
  t.ok(seen.isList([]))
  t.ok(seen.later instanceof Promise)
})

t.test('it prints as its agent, and sees the environment that it was granted', async (t) => {
  const { printed, exports } = play(
    "console.log('one', { two: 2 }); console.error('three'); process.stdout.write('fo'); process.stdout.write('ur\\n'); exports.env = process.env",
    { env: { GRANTED: 'yes' } },
  )
  t.same(exports().env, { GRANTED: 'yes' })
  t.same(printed, ['one { two: 2 }', 'three', 'four'])
})

t.test('each sandbox has globals of its own', async (t) => {
  play('globalThis.left = 1; Array.prototype.left = 1; Math.left = 1').exports()
  t.equal(worth('[typeof left, [].left, Math.left].join()'), 'undefined,,')
})

t.test('what the machine computes elsewhere takes no time of the run', async (t) => {
  const { clock, exports } = play(`
    exports.order = []
    setTimeout(() => exports.order.push('timer'), 1)
    crypto.subtle.digest('SHA-256', new Uint8Array(4)).then(() => exports.order.push('digest'))
    const empty = new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0])
    WebAssembly.compile(empty).then((module) => exports.order.push('compiled ' + (module instanceof WebAssembly.Module)))
    WebAssembly.instantiate(empty).then(({ instance }) => exports.order.push(typeof instance.exports))
    require('crypto').pbkdf2('a', 'b', 1_000, 8, 'sha256', (error, key) => exports.order.push('key ' + key.length))`)
  const { order } = exports()
  await clock.runToIdle()
  t.same(order, ['digest', 'compiled true', 'object', 'key 8', 'timer'])
})

// A rehearsal never touches the world: every connection, name look-up, datagram and process of this program is
// counted.

/** Counts what reaches the system until the test is over. */
function watchTheWorld(t: Test): { touched: string[] } {
  const touched: string[] = []
  const watch = (owner: object, name: string) => {
    const real: unknown = Reflect.get(owner, name)
    if (typeof real !== 'function') throw new Error(`There is no ${name}.`)
    Reflect.set(owner, name, function (this: unknown, ...args: unknown[]) {
      touched.push(name)
      return Reflect.apply(real, this, args)
    })
    t.teardown(() => Reflect.set(owner, name, real))
  }
  watch(net.Socket.prototype, 'connect')
  watch(dns, 'lookup')
  watch(dgram, 'createSocket')
  watch(child.ChildProcess.prototype, 'spawn')
  return { touched }
}

const shape = z.object({ url: z.string() })

/** A tool that pays, by a request to that address. */
const paying = (url: string, more: object = {}) =>
  defineTool({ name: 'pay', description: 'Pays.', input: shape, run: () => fetch(url).then(() => 'paid'), ...more })

/** A team that reaches out in every way that there is: models at addresses, clients, tools, and code. */
async function worldly(t: Test): Promise<MultiAgentPatternOptions> {
  const chat = await modelServer(t, chatWire)
  const messages = await modelServer(t, anthropicWire)
  for (const server of [chat, messages]) server.always('Certainly.')
  const claude = fromAiSdk(createAnthropic({ baseURL: messages.baseURL, apiKey: 'a-key-of-them' })('claude-sonnet-4-5'))
  return {
    agents: [
      { name: 'ann', tools: [paying(chat.baseURL), weather()] },
      { name: 'bob', model: 'claude', tools: [paying(chat.baseURL, { name: 'look', readOnly: true, outside: true })] },
      { name: 'cid', model: 'wrapped', tools: [...workspace({ root: 'nowhere', allow: ['ls'] }), runCode] },
      { name: 'dan', module: new URL('../../fixtures/rehearsal/fetches.js', import.meta.url) },
    ],
    orchestration: { strategy: 'parallel' },
    models: {
      default: { model: 'small', baseURL: chat.baseURL, apiKey: 'a-key-of-ours' },
      claude,
      wrapped: wrapModel(claude, (request, next) => next(request)),
    },
    logger: silent,
  }
}

t.test('rehearse() opens no connection, looks up no name and starts no process', async (t) => {
  const options = await worldly(t)
  await rehearse(options, { query: 'https://example.org', seeds: 1 }) // the bundler has its process from now on
  const { touched } = watchTheWorld(t)
  const { runs, standsInFor, simulatedTools } = await rehearse(options, { query: 'https://example.org', seeds: 5 })
  t.equal(runs, 5)
  t.same([...standsInFor].sort(), ['claude', 'default', 'wrapped'])
  const tools = ['list_dir', 'look', 'pay', 'read_file', 'run_cmd', 'run_code', 'weather', 'write_file']
  t.same([...simulatedTools].sort(), tools)
  t.same(touched, [])
  await rehearse(options, { query: 'https://example.org', seeds: 1, realModels: true })
  t.ok(touched.includes('connect'), 'with realModels the same watch sees them')
})

t.test('without a model, a team calls no tool with effects: it opens no connection', async (t) => {
  const server = await modelServer(t)
  const asking = defineAgent({
    receive: async (_message, context) => (await context.think({ prompt: 'Pay.', tools: ['pay'] })).text,
  })
  const team = testTeam(
    {
      agents: [
        { name: 'ann', tools: [paying(server.baseURL)] },
        { name: 'bob', tools: [paying(server.baseURL)] },
      ],
      orchestration: { strategy: 'parallel' },
      models: 'rehearsal',
      logger: silent,
    },
    { modules: { bob: asking } },
  )
  t.teardown(() => team.close())
  const { touched } = watchTheWorld(t)
  const calls: string[] = []
  team.events.subscribe((event) => void (event.type === 'tool.finished' && calls.push(event.agent)))
  t.equal((await team.execute('Pay.')).failures.length, 0)
  t.same(new Set(calls), new Set(['ann', 'bob']), 'the model has called the tool of both')
  t.same(touched, [])
})

// Rehearsed people: words to a run while it works, which the seed moves, answers that come too late, and those of who
// began the run.

const SEEDS = Math.max(16, howMany(16, 200)) // in fewer the words may come too late each time

const look = defineTool({
  name: 'look',
  description: 'Looks.',
  input: z.object({}),
  readOnly: true,
  run: () => 'seen',
})

/** Two agents that look twice each; `seen` gets the place of the words in each prompt that has them. */
function teamOf(seen: string[]): MultiAgentPatternOptions {
  const model = new FakeModel(({ agent, messages }) => {
    const looks = messages.filter(({ role }) => role === 'tool').length
    const said = messages.filter(({ role, content }) => role === 'user' && content === 'In metres.').length
    seen.push(`${agent} ${looks} ${said}`)
    return looks < 2 ? calls(['look', {}]) : `by ${agent}`
  })
  return {
    agents: ['ann', 'bob'].map((name) => ({ name, tools: [look] })),
    orchestration: { strategy: 'sequential' },
    models: { default: Object.assign(model, { offline: true }) },
  }
}

t.test('the seed moves the words, no prompt has them twice, and each run is done', async (t) => {
  for (const after of ['model', 5] as const) {
    const plays: string[] = []
    const seen: string[] = []
    const { failures } = await rehearse(() => teamOf(seen), {
      query: 'How long?',
      seeds: SEEDS,
      faults: ['crash', 'delay', 'duplicate'],
      steer: [{ text: 'In metres.', after }],
      check: () => void plays.push(seen.splice(0).join()),
    })
    t.same(failures, [])
    t.notOk(plays.some((play) => / [2-9]\b(?=,|$)/.test(play.replace(/ \d (\d)/g, ' $1'))))
    t.ok(
      plays.some((play) => / 1(,|$)/.test(play)),
      'some runs have read them',
    )
    t.ok(new Set(plays).size > 1, 'and not all at the same place')
  }
})

t.test('the same seed is the same play', async (t) => {
  const play = async () => {
    const seen: string[] = []
    await rehearse(() => teamOf(seen), {
      query: 'How long?',
      seeds: [7],
      steer: [{ text: 'In metres.', after: 'model', when: 'interrupt' }],
    })
    return seen
  }
  t.same(await play(), await play())
})

t.test('words of a plan are checked, and stand in what plays a failure again', async (t) => {
  const plan = { query: 'How long?', seeds: 1, steer: [{ text: 'In metres.', after: 'model' as const }] }
  for (const steer of ['now', [{ text: 'x' }], [{ text: 'x', after: -1 }], [{ text: 'x', after: 1, who: 'me' }]])
    await t.rejects(
      rehearse(() => teamOf([]), { ...plan, steer: steer as never }),
      {
        code: 'CONFIGURATION',
        details: { path: 'steer' },
      },
    )
  const { failures } = await rehearse(() => teamOf([]), {
    ...plan,
    check() {
      throw new Error('no')
    },
  })
  t.match(failures[0]!.replay, '"steer":[{"text":"In metres.","after":"model"}]')
})

/** An agent that pays if it may, and says what came of it. */
function payer(approval: true | ApprovalPolicy): () => MultiAgentPatternOptions {
  const pay = defineTool({
    name: 'pay',
    description: 'Pays.',
    input: z.object({}),
    approval,
    answerWithinMs: 60_000,
    readOnly: true,
    run: () => 'paid',
  })
  return () => ({
    agents: [{ name: 'ann', tools: [pay] }],
    orchestration: { strategy: 'sequential' },
    models: {
      default: Object.assign(
        new FakeModel(({ messages }) => {
          const result = messages.find(({ role }) => role === 'tool')
          return result ? `${result.content}` : calls(['pay', {}])
        }),
        { offline: true },
      ),
    },
  })
}

t.test('a person may be late: the call of the tool is not approved then', async (t) => {
  const outputs: string[] = []
  const check = (outcome: object) => void outputs.push(JSON.stringify(outcome))
  const { failures } = await rehearse(payer(true), { query: 'Pay.', seeds: SEEDS, faults: ['late'], check })
  t.same(failures, [])
  const late = outputs.filter((output) => output.includes('within 60000 ms')).length
  t.ok(late > 0 && late < SEEDS, `${late} of ${SEEDS} are late`)
})

t.test('who began the run tries to approve its calls, and is one of those who may, or changes nothing', async (t) => {
  const played = async (by: 'others' | 'anybody' | 'caller', caller?: string) => {
    const outputs: string[] = []
    const { failures } = await rehearse(payer({ by, groups: ['finance'] }), {
      query: 'Pay.',
      ...(caller !== undefined && { caller }),
      seeds: SEEDS,
      check: (outcome) => void outputs.push(outcome.ok ? outcome.message.content : outcome.error.code),
    })
    t.same(failures, [])
    const paid = outputs.filter((output) => output === 'paid').length
    t.ok(paid > 0 && paid < SEEDS, `${by}: ${paid} of ${SEEDS} are paid`)
    return outputs
  }
  t.same(await played('others', 'joe'), await played('others'))
  t.strictNotSame(await played('anybody', 'joe'), await played('anybody'))
  await played('caller', 'joe')
})
