/** Tapes: what is kept of a case, plays without a call, and what a tape does not have. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { z } from 'zod'
import { textOf } from '../../src/actors/definition/content.ts'
import {
  called,
  type EvalSuite,
  evalRun,
  exact,
  handedTo,
  noAlarms,
  runEval,
  type Scorer,
  scorer,
  within,
} from '../../src/evals/index.ts'
import { defineTeam, defineTool, type MultiAgentPatternOptions } from '../../src/index.ts'
import type { ModelClient } from '../../src/models.ts'
import { folderOf } from '../durability/log-folders.ts'
import { gate, silent } from '../kit/team.ts'
import { callerModule, recordModule } from '../toolbox/desk.ts'

const SECRET = 'correct-horse-battery-staple'

interface World {
  team: MultiAgentPatternOptions<string>
  /** Names of models and tools, as they were asked. */
  asked: string[]
}

/** A team of two who answer at the same time, a tool, an approval, a handoff, and models that never say the same. */
function world(prompt = 'Talk.'): World {
  const asked: string[] = []
  let count = 0
  const model: ModelClient = {
    async *complete({ messages, agent = '', stream }) {
      asked.push(agent)
      count += 1
      const last = messages.at(-1)!
      const said = textOf(last.content)
      const call = (name: string, input: object) => ({
        toolCall: { id: `c${count}`, name, input: JSON.stringify(input) },
      })
      await new Promise((resolve) => setTimeout(resolve, agent === 'ann' ? 5 : 1))
      if (last.role === 'tool') yield { text: `${said} (${count})` }
      else if (said.startsWith('find')) yield call('find', { what: said.slice(5) })
      else if (said.startsWith('pay')) yield call('pay', { what: said.slice(4) })
      else if (said.startsWith('hand') && agent === 'ann') yield call('handoff', { to: 'bob', task: 'Say yes.' })
      else if (stream) for (const word of said.split(' ')) yield { text: `${word} ` }
      else yield { text: `${said} (${count})` }
      yield { usage: { inputTokens: 6, outputTokens: 4, totalTokens: 10, calls: 1 } }
    },
  }
  const tool = (name: string, approval: boolean) =>
    defineTool({
      name,
      description: 'Does it.',
      input: z.object({ what: z.string() }),
      approval,
      run: async ({ what }) => {
        asked.push(name)
        if (what === 'nothing') throw new Error('There is none.')
        return { what, at: Math.random(), key: `Bearer ${SECRET}`, env: process.env.DESK_TOKEN }
      },
    })
  const tools = [tool('find', false), tool('pay', true)]
  const team = defineTeam({
    agents: [
      { name: 'ann', systemPrompt: prompt, tools, canHandoffTo: ['bob'] },
      { name: 'bob', systemPrompt: prompt, tools },
    ],
    models: { default: { client: model, model: 'big' } },
    prices: { currency: 'EUR', models: { big: { input: 1, output: 2 } } },
    logger: silent,
    orchestration: { strategy: 'sequential', agentOrder: ['ann'] },
  })
  return { team, asked }
}

const CASES = [
  { id: 'find', input: 'find lamp', gates: [called('find')] },
  { id: 'none', input: 'find nothing' },
  { id: 'talk/..', input: ['Hi.', 'find bed', 'Hi.'] },
  { id: 'pays', input: 'pay lamp', answers: [{ tool: 'pay', answer: { approved: true }, by: 'bob' }] },
  { id: 'hand', input: 'hand it', gates: [handedTo('bob')] },
]

const suiteOf = ({ team }: World, more: Partial<EvalSuite> = {}): EvalSuite => ({
  team,
  name: 'desk',
  cases: CASES,
  gates: [noAlarms(), within({ tokens: 100, money: 1, ms: 60_000 })],
  scorers: [exact()],
  ...more,
})

async function recorded(t: Test, more: Partial<EvalSuite> = {}) {
  const folder = folderOf(t)
  process.env.DESK_TOKEN = SECRET
  t.teardown(() => delete process.env.DESK_TOKEN)
  const first = await runEval(suiteOf(world(), more), { record: folder })
  t.equal(first.verdict, 'passed', first.reasons.join())
  return { folder, first }
}

/** What is the same in a play as when it was recorded: not the times. */
const essence = ({ results }: Awaited<ReturnType<typeof runEval>>) =>
  JSON.parse(JSON.stringify(results, (name, value) => (name === 'ms' ? 0 : value)))

t.test('a tape plays to the same report, without a call, as often as it is played', async (t) => {
  const { folder, first } = await recorded(t)
  const reports = new Set<string>()
  for (let play = 0; play < 20; play++) {
    const again = world()
    const report = await runEval(suiteOf(again), { playback: folder })
    t.same(again.asked, [], 'no model and no tool is asked')
    if (play === 0) t.same(essence(report), JSON.parse(JSON.stringify(essence(first)).replaceAll(SECRET, '[redacted]')))
    reports.add(JSON.stringify(report))
  }
  t.equal(reports.size, 1)
})

t.test('a tape has no secrets, and a file for each play', async (t) => {
  const folder = join((await recorded(t)).folder, 'desk')
  const files = readdirSync(folder)
  t.equal(files.length, CASES.length)
  for (const file of files) t.notMatch(readFileSync(join(folder, file), 'utf8'), SECRET, file)
  t.match(JSON.parse(readFileSync(join(folder, 'find.1.json'), 'utf8')), {
    version: 1,
    entries: [
      { agent: 'ann', kind: 'model', name: 'default', digest: /^[\da-f]{64}$/, place: 1 },
      { agent: 'ann', kind: 'tool', name: 'find', input: { what: 'lamp' }, answer: { what: 'lamp' } },
      { agent: 'ann', kind: 'model' },
    ],
  })
})

const ofAnn = { agent: 'ann', kind: 'model', name: 'default' }
const misses: [title: string, changed: (world: World) => Partial<EvalSuite>, says: RegExp][] = [
  [
    'a word of a prompt',
    () => ({ team: world('Talk now.').team }),
    /Case "find": Agent "ann" asks its model \(default\), .*find\.1\.json has no answer to that: the nearest differs in messages\[0\]\.content \(system\), from character 5 on: it has "Talk\.\\n.*, and now is "Talk now\..*record the case again \(--record\)/,
  ],
  [
    'what is asked',
    () => ({ cases: [{ id: 'find', input: 'find lamb' }] }),
    /the nearest differs in messages\[1\]\.content \(user\), from character 9 on: it has "find lamp", and now is "find lamb"/,
  ],
  [
    'a tool that a model has',
    ({ team }) => ({ team: { ...team, agents: [{ ...team.agents[0]!, tools: [] }, team.agents[1]!] } }),
    /Agent "ann" asks its model .*differs in tools/,
  ],
  [
    'an agent',
    ({ team }) => ({
      team: { ...team, orchestration: { strategy: 'sequential', agentOrder: ['bob'] } as never },
    }),
    /Agent "bob" asks its model .*: it has none of that agent for it\./,
  ],
  ['more repeats', () => ({ repeats: 2 }), /there is no tape of case "find", repeat 2: .*--record/],
]

t.test('what a tape does not have breaks the suite, and says what differs', async (t) => {
  const cases = [CASES[0]!]
  const { folder } = await recorded(t, { cases })
  for (const [title, changed, says] of misses) {
    const now = world()
    const { verdict, reasons } = await runEval(suiteOf(now, { cases, ...changed(now) }), { playback: folder })
    t.match({ verdict, reason: reasons[0] }, { verdict: 'broken', reason: says }, title)
    t.same(now.asked, [], `${title}: nobody is asked`)
  }
})

t.test('a case alone is recorded and played', async (t) => {
  const folder = folderOf(t)
  const run = await evalRun(world().team, 'find lamp', { record: folder })
  const { team, asked } = world()
  const again = await evalRun(team, 'find lamp', { playback: folder })
  t.match(again, { success: true, output: run.output?.replace(/Bearer [\w-]+/, '[redacted]'), money: run.money })
  t.same(asked, [])
  const changed = world('Talk now.').team
  await t.rejects(evalRun(changed, 'find lamp', { playback: folder }), {
    code: 'TAPE_MISS',
    details: { ...ofAnn, path: 'messages[0].content', at: 4 },
  })
  await t.rejects(evalRun(team, 'Hi.', { record: folder, playback: folder }), /a folder of tapes, without record/)
  writeFileSync(join(folder, '1.1.json'), '{}')
  await t.rejects(evalRun(team, 'find lamp', { playback: folder }), /is no tape of this version/)
})

const good: ModelClient = {
  async *complete({ jsonSchema }) {
    yield { reasoning: 'hm' }
    for (const text of jsonSchema ? ['{"a":', '1}'] : ['Yes, ', 'no.']) yield { text }
    yield { usage: { inputTokens: 1, outputTokens: 2, totalTokens: 3, calls: 1 } }
  },
}
const down: ModelClient = {
  async *complete() {
    yield* []
    throw new Error('It is down.')
  },
}
const answered: [title: string, model: ModelClient, run: NonNullable<EvalSuite['run']>, wanted: object][] = [
  ['a stream', good, { stream: true }, { output: 'Yes, no.', tokens: 3 }],
  ['data', good, { output: z.object({ a: z.number() }) }, { data: { a: 1 } }],
  ['a failure', down, {}, { error: { code: 'AGENT_FAILED', message: /"ann": Error: It is down/ } }],
  ['a budget', good, { budget: { tokens: 1 } }, { error: { code: 'BUDGET_EXCEEDED' }, models: [] }],
]

t.test('answers in pieces, in a schema and failed ones are on the tape', async (t) => {
  const orchestration = { strategy: 'sequential' } as const
  for (const [title, model, run, wanted] of answered) {
    const of = (given: ModelClient) => ({
      ...{ agents: [{ name: 'ann', systemPrompt: 'Talk.' }], models: { default: given }, logger: silent },
      orchestration,
    })
    const folder = folderOf(t)
    const without = (each: object) => JSON.parse(JSON.stringify(each, (name, value) => (name === 'ms' ? 0 : value)))
    const first = await evalRun(of(model), 'Hi.', { run, record: folder })
    t.match(first, wanted, title)
    const again = await evalRun(of(model === good ? down : good), 'Hi.', { run, playback: folder })
    t.same(without(again), without(first), title)
  }
})

t.test('a play of a tape costs nothing', async (t) => {
  const cases = CASES.slice(0, 1)
  const { folder } = await recorded(t, { cases, budget: { tokens: 30 } })
  const suite = suiteOf(world(), { cases, budget: { tokens: 30 } })
  const played = await runEval(suite, { playback: folder, seeds: 2 })
  t.match(played, { verdict: 'passed', tokens: 40 })
  t.equal((await runEval(suite, { repeats: 2 })).verdict, 'broken')
})

t.test('scorers have their answers of then, and need no key', async (t) => {
  const folder = folderOf(t)
  let asked = 0
  const judge: ModelClient = {
    async *complete() {
      asked += 1
      yield { text: `${asked / 4}` }
    },
    async embed({ texts }) {
      asked += 1
      return { vectors: texts.map(() => [asked]) }
    },
  }
  const graded = (prompt: string) =>
    scorer('graded', async (_run, { complete, embed }) => {
      const [[vector = 0] = []] = await embed(['good'])
      return Number(await complete(prompt)) / vector
    })
  const suite = (scores: Scorer, models: EvalSuite['models'] = { judge }) =>
    suiteOf(world(), { cases: CASES.slice(0, 1), scorers: [scores], models })
  const first = await runEval(suite(graded('Is it good?')), { record: folder })
  t.match([first.verdict, first.scores.graded?.mean, asked], ['passed', 0.5, 2])
  const again = await runEval(suite(graded('Is it good?')), { playback: folder })
  t.match([again.verdict, again.scores.graded?.mean, asked], ['passed', 0.5, 2])
  const miss = /Case "find": A scorer asks the model "judge", and the tape .*scorers\.jsonl has no answer to that\./
  const changed = suite(graded('Is it bad?'))
  t.match(await runEval(changed, { playback: folder }), { verdict: 'broken', reasons: [miss] })
  t.equal(asked, 2)
  t.equal((await runEval(changed, { playback: folder, seeds: 1 })).verdict, 'passed')
  t.equal(asked, 3, 'schedules may bring what was not asked then')
  const keyed = { judge: { model: 'big', baseURL: 'http://127.0.0.1:9', apiKeyEnv: 'NO_SUCH_KEY' } }
  t.equal((await runEval(suite(exact(), keyed), { playback: folder })).verdict, 'passed')
  await t.rejects(runEval(suite(exact(), keyed)), /NO_SUCH_KEY is not set/)
  for (const seeds of [undefined, 1]) {
    const report = await runEval(suite(graded('Is it good?'), keyed), { playback: folder, ...(seeds && { seeds }) })
    t.match(report, { verdict: 'broken', reasons: [/A scorer asks the model "big"/] })
  }
})

t.test('a tape is of one suite', async (t) => {
  const suite = suiteOf(world())
  await t.rejects(runEval(suite, { record: folderOf(t), against: suite }), /against: got a suite/)
})

t.test('tools in threads, isolated ones, agents elsewhere, and agents at one time are on the tape', async (t) => {
  const folder = folderOf(t)
  const file = join(folder, 'marks')
  let count = 0
  const models: MultiAgentPatternOptions['models'] = {
    default: {
      async *complete({ messages, agent }) {
        await new Promise((resolve) => setTimeout(resolve, agent === 'ann' ? 20 : 1))
        count += 1
        yield { text: `${textOf(messages.at(-1)!.content).slice(-40)} ${count}` }
      },
    },
  }
  const coder = {
    command: process.execPath,
    args: [fileURLToPath(new URL('../fixtures/remote/coder.js', import.meta.url))],
  }
  const call = (tool: string) => JSON.stringify({ tool, input: { file }, times: 2 })
  const tools = [{ module: recordModule }, { module: recordModule, export: 'again', isolate: true as const }]
  const plays: [input: string, agents: MultiAgentPatternOptions['agents'], strategy: 'sequential' | 'parallel'][] = [
    [call('record'), [{ name: 'cid', module: callerModule, tools }], 'sequential'],
    [call('again'), [{ name: 'cid', module: callerModule, tools }], 'sequential'],
    ['Write it.', [{ name: 'cid', remote: { acp: { ...coder, cwd: folder, env: { EFFECTS: file } } } }], 'sequential'],
    ['Hi.', ['ann', 'bob', 'eve'].map((name) => ({ name, systemPrompt: 'Talk.' })), 'parallel'],
  ]
  for (const [input, agents, strategy] of plays) {
    const team: MultiAgentPatternOptions = { agents, models, logger: silent, orchestration: { strategy } as never }
    const tape = join(folder, 'tape')
    const first = await evalRun(team, input, { record: tape })
    t.ok(first.success, `${first.error?.message}`)
    const marks = readFileSync(file, 'utf8')
    const asked = count
    const again = await evalRun(team, input, { playback: tape })
    t.same(
      [again.output, again.calls.map(({ output }) => output)],
      [first.output, first.calls.map(({ output }) => output)],
      strategy,
    )
    t.same([readFileSync(file, 'utf8'), count], [marks, asked], 'nothing is done')
  }
})

t.test('who answered first does so again, and ids may differ', async (t) => {
  const folder = folderOf(t)
  for (const quick of ['ann', 'bob']) {
    const answered = gate()
    const model: ModelClient = {
      async *complete({ messages, agent = '' }) {
        if (agent !== quick) await answered.opened.then(() => new Promise((resolve) => setTimeout(resolve, 60)))
        yield { text: `${agent} ${textOf(messages.at(-1)!.content).slice(0, 3)}` }
      },
    }
    const team: MultiAgentPatternOptions<string> = {
      agents: ['ann', 'bob', 'eve'].map((name) => ({ name, systemPrompt: 'Talk.' })),
      models: { default: model },
      logger: silent,
      orchestration: {
        strategy: 'custom',
        async run(script, query) {
          const both = ['ann', 'bob'].map((name) => script.request(name, query))
          const { content } = await Promise.race(both)
          answered.open()
          await Promise.all(both)
          const { content: last } = await script.request('eve', `${content} of ${crypto.randomUUID()}`)
          return `${content}, ${last}`
        },
      },
    }
    const tape = join(folder, quick)
    const first = await evalRun(team, 'Hi.', { record: tape })
    t.equal(first.output, `${quick} Hi., eve ${quick}`)
    const again = await evalRun(team, 'Hi.', { playback: tape })
    t.equal(again.output, first.output)
    t.ok(again.ms >= 50, 'it takes as long')
    const race: EvalSuite = { team, name: 'race', cases: [{ input: 'Hi.' }] }
    t.equal((await runEval(race, { record: folder })).verdict, 'passed')
    const { results } = await runEval(race, { playback: folder, seeds: 20 })
    t.equal(new Set(results.map(({ run }) => run.output?.slice(0, 3))).size, 2, 'seeds have others come first')
  }
})

t.test('a step that reaches outside has what it had, and others run', async (t) => {
  const folder = folderOf(t)
  const path = join(folder, 'note')
  writeFileSync(path, 'of then')
  const module = new URL('../fixtures/rehearsal/steps.js', import.meta.url)
  const orchestration = { strategy: 'sequential' } as const
  const team: MultiAgentPatternOptions<string> = { agents: [{ name: 'ann', module }], logger: silent, orchestration }
  const plays: [input: string, output: string | RegExp][] = [
    [`read ${path}`, 'of then'],
    [`read ${path}.gone`, /ENOENT/],
    ['pure', '1000'],
  ]
  for (const [input, output] of plays) {
    writeFileSync(path, 'of then')
    await evalRun(team, input, { record: join(folder, 'tape') })
    writeFileSync(path, 'of now')
    const again = await evalRun(team, input, { playback: join(folder, 'tape') })
    t.match(again.output ?? again.error?.message, output, input)
  }
  await t.rejects(evalRun(team, `read ${path}`, { playback: join(folder, 'tape') }), {
    code: 'TAPE_MISS',
    message: /Agent "ann" reaches outside in the step "read", and the tape .* has no answer/,
  })
})

/** A team that may pay twice when it crashes, and the tape of it. */
function payingSuite(extra: object = {}): EvalSuite {
  const pay = defineTool({
    name: 'pay',
    description: 'Pays.',
    input: z.object({ key: z.string(), what: z.string() }),
    run: async ({ what }) => `paid ${what}`,
  })
  return {
    name: 'till',
    team: {
      agents: [{ name: 'ann', module: new URL('../fixtures/rehearsal/pays-again.js', import.meta.url), tools: [pay] }],
      logger: silent,
      orchestration: { strategy: 'sequential' },
    },
    cases: [{ id: 'pays', input: 'a lamp', expected: 'a lamp' }],
    gates: [called('pay', { times: { max: 1 } })],
    scorers: [exact()],
    ...extra,
  }
}

t.test('seeds find a team that pays twice when it crashes, and the worst seed shows it alone', async (t) => {
  const tapes = folderOf(t)
  const recorded = await runEval(payingSuite(), { record: tapes })
  t.equal(recorded.verdict, 'passed')
  const bound = { scorers: [{ scorer: exact(), atLeast: 0.9 }] } // of all cases, and so none of one
  const calm = await runEval(payingSuite(bound), { playback: tapes, seeds: 20 })
  t.match(calm, { verdict: 'passed', seeds: { plays: 20, asked: 20, untaped: 0, worst: null } })
  const options = { playback: tapes, faults: ['crash', 'delay'] } as const
  const { verdict, reasons, seeds, results } = await runEval(payingSuite(), { ...options, seeds: 40 })
  t.match(
    { verdict, reason: reasons[0] },
    { verdict: 'failed', reason: /First: case "pays", seed \d+: "pay" was called 2/ },
  )
  t.match(seeds, {
    plays: 40,
    untaped: 0,
    scores: { exact: { least: 1, median: 1, most: 1 } },
    worst: { case: 'pays' },
  })
  const worst = results.find(({ run }) => run.seed === seeds!.worst!.seed)!
  const alone = await runEval(payingSuite(), { ...options, seeds: [seeds!.worst!.seed] })
  t.same(alone.results, [worst], 'the same seed is the same play')
  t.match(worst.run.faults, [{ fault: /crash|delay/, agent: 'ann' }])
})

t.test('what tapes do not have is answered by what is near, and breaks the suite where it is too much', async (t) => {
  const { folder } = await recorded(t, { cases: CASES.slice(0, 1) })
  const near = suiteOf(world(), { cases: [{ id: 'find', input: 'find lamb' }] })
  const { verdict, reasons, seeds } = await runEval(near, { playback: folder, seeds: 3 })
  t.match({ verdict, seeds }, { verdict: 'broken', seeds: { plays: 3, asked: 9, untaped: 6 } })
  t.match(reasons[0], /6 of 9 asks are not on the tapes, which is more than 5 %\. First: Agent "ann" .*find lamb/)
  const refusals: [options: object, says: RegExp][] = [
    [{ seeds: 3 }, /seeds, faults: got no tapes/],
    [{ playback: folder, faults: ['crash'] }, /faults: got no seeds/],
    [{ playback: folder, seeds: 0 }, /seeds: 0/],
    [{ playback: folder, seeds: 3, faults: ['late'] }, /People answer as the case says/],
  ]
  for (const [options, says] of refusals) await t.rejects(runEval(near, options), says)
})
