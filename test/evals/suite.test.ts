/** Suites: what is played and told, gates, scores, comparisons, reports, and what breaks a suite. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { DOMParser } from 'linkedom'
import t from 'tap'
import { z } from 'zod'
import { textOf } from '../../src/actors/definition/content.ts'
import {
  answers,
  asked,
  askedPeople,
  called,
  defineEval,
  describeEval,
  type EvalSuite,
  evalRun,
  evalText,
  exact,
  expectRun,
  type Gate,
  gate,
  handedTo,
  inOrder,
  junitXml,
  matches,
  noAlarms,
  notCalled,
  runEval,
  type ScorerContext,
  sameJson,
  scorer,
  within,
} from '../../src/evals/index.ts'
import { defineTeam, defineTool, ModelError, type MultiAgentPatternOptions } from '../../src/index.ts'
import type { ModelClient } from '../../src/models.ts'
import { folderOf } from '../durability/log-folders.ts'
import { silent } from '../kit/team.ts'

const usage = { inputTokens: 6, outputTokens: 4, totalTokens: 10, calls: 1 }

/** Says what it is told: `use TOOL WHAT` calls a tool, `hand WHAT` hands over, and all else is the answer itself. */
const model: ModelClient = {
  offline: true,
  async *complete({ messages, agent }) {
    const last = messages.at(-1)!
    const [verb = '', first = '', ...rest] = textOf(last.content).split(' ')
    const call = (name: string, input: object) => ({ toolCall: { id: 'c', name, input: JSON.stringify(input) } })
    if (last.role === 'tool') yield { text: textOf(last.content) }
    else if (verb === 'use') yield call(first, { what: rest.join(' ') })
    else if (verb === 'hand' && agent === 'ann') yield call('handoff', { to: 'bob', task: first })
    else yield { text: textOf(last.content) }
    yield { usage }
  },
}

const tool = (name: string, approval: boolean | { quorum: number }) =>
  defineTool({
    name,
    description: 'Does it.',
    input: z.object({ what: z.string() }),
    approval,
    run: async ({ what }) => ({ done: what }),
  })

const team: MultiAgentPatternOptions<string> = defineTeam({
  agents: [
    { name: 'ann', systemPrompt: 'Talk.', tools: [tool('find', false), tool('pay', true)], canHandoffTo: ['bob'] },
    { name: 'bob', systemPrompt: 'Talk.' },
  ],
  models: { default: model },
  logger: silent,
  orchestration: { strategy: 'sequential', agentOrder: ['ann'] },
})

const outcome = async (suite: Partial<EvalSuite>, options = {}) =>
  runEval({ team, cases: [{ input: 'Hi.' }], ...suite }, options)

t.test('a run tells what the team has done', async (t) => {
  const answers = [{ tool: 'pay', answer: { approved: true }, by: 'bob' }]
  const paid = await evalRun(team, { input: 'use pay lamp', answers, expected: { done: 'lamp' }, tags: ['money'] })
  t.match(paid, {
    case: { id: '1', input: 'use pay lamp', expected: { done: 'lamp' }, tags: ['money'] },
    repeat: 1,
    success: true,
    output: '{"done":"lamp"}',
    error: null,
    speaker: 'ann',
    calls: [{ agent: 'ann', tool: 'pay', input: { what: 'lamp' }, output: { done: 'lamp' }, error: null }],
    questions: [{ agent: 'ann', kind: 'approval', answer: '{"approved":true}' }],
    handoffs: [],
    alarms: [],
    deadLetters: 0,
    tokens: 20,
    money: null,
  })
  t.match(paid.models, [{ agent: 'ann', tokens: 10 }, { tokens: 10 }])
  const handed = await evalRun(team, 'hand it')
  t.match(handed, { speaker: 'bob', handoffs: [{ from: 'ann', to: 'bob' }] })
  t.same(JSON.parse(JSON.stringify(paid)), paid, 'it is plain JSON')
})

t.test('a question without an answer fails the case at once', async (t) => {
  const run = await evalRun(team, 'use pay lamp')
  t.match(run, { success: false, error: { code: 'UNANSWERED', message: /no answer to a question\. Agent "ann" asks/ } })
  t.match(run.questions, [{ answer: null }])
  const another = await evalRun(team, { input: 'use pay lamp', answers: [{ tool: 'find', answer: 'yes' }] })
  t.equal(another.error?.code, 'UNANSWERED')
  t.rejects(expectRun(run), /has an answer: UNANSWERED/)
})

t.test('an approval by several people takes an answer of each', async (t) => {
  const rule = { quorum: 2 }
  const agents = [{ name: 'ann', systemPrompt: 'Talk.', tools: [tool('pay', rule)] }]
  const yes = (by: string) => ({ tool: 'pay', answer: { approved: true }, by })
  const given = { ...team, agents }
  const run = await evalRun(given, { input: 'use pay lamp', answers: [yes('bob'), yes('cid')] })
  t.match(run, { success: true, calls: [{ tool: 'pay', error: null }] })
  const one = await evalRun(given, { input: 'use pay lamp', answers: [yes('bob')] })
  t.match(one, { success: false, error: { code: 'UNANSWERED', message: /has no answer/ } })
})

t.test('cases of a file are looked for beside the file of the suite', async (t) => {
  const folder = folderOf(t)
  const entry = new URL('../../src/evals/index.js', import.meta.url)
  writeFileSync(join(folder, 'cases.jsonl'), '{"input":"Hi."}\n\n{"input":"Yes.","expected":"Yes."}\n')
  const suite = `(evals, team) => evals.defineEval({ team, cases: 'cases.jsonl' })`
  writeFileSync(join(folder, 'esm.mjs'), `export default ${suite}`)
  writeFileSync(join(folder, 'common.cjs'), `exports.default = ${suite}`)
  const evals = await import(entry.href)
  for (const name of ['esm.mjs', 'common.cjs']) {
    const module = await import(pathToFileURL(join(folder, name)).href)
    const define = module.default.default ?? module.default
    t.match(await runEval(define(evals, team)), { verdict: 'passed', results: { length: 2 } }, name)
  }
})

t.test('a case leaves nothing behind', async (t) => {
  const path = join(folderOf(t), 'log')
  const conversations = { load: async () => t.fail('it was read'), save: async () => t.fail('it was written') }
  const run = await evalRun({ ...team, stateManagement: { path }, conversations } as never, { input: ['Hi.', 'Yes.'] })
  t.ok(run.success)
  t.notOk(existsSync(path))
})

t.test('a case may be a conversation', async (t) => {
  const run = await evalRun(team, { input: ['One.', 'use find lamp'] })
  t.match(run, { success: true, output: '{"done":"lamp"}', tokens: 30, calls: [{ tool: 'find' }] })
})

/** Of a scorer that asks no model. */
const context: ScorerContext = {
  complete: async () => 'none',
  embed: async () => [],
  signal: new AbortController().signal,
}

const lookup = () => evalRun(team, 'use find lamp')

const gates: [title: string, gate: Gate, wrong: RegExp | null][] = [
  ['called', called('find'), null],
  ['by an agent', called('find', { agent: 'ann', times: 1 }), null],
  ['with an input', called('find', { input: { what: /^la/ } }), null],
  ['by a function', called('find', { input: (input: unknown) => Reflect.get(Object(input), 'what') === 'lamp' }), null],
  ['not called', notCalled('pay'), null],
  ['in order', inOrder('find'), null],
  ['no alarms', noAlarms(), null],
  ['within', within({ tokens: 20, modelCalls: 2, ms: 60_000 }), null],
  ['asked', asked('$orchestrator', 'ann'), null],
  ['nobody asked', askedPeople(0), null],
  ['in a schema', answers(z.object({ done: z.string() })), null],
  ['of my own', gate('mine', ({ output }) => output === '{"done":"lamp"}'), null],
  [
    'called by another',
    called('find', { agent: 'bob' }),
    /"find" was called 0 times by bob; wanted: at least 1 \(seen: ann/,
  ],
  [
    'with another input',
    called('find', { input: { what: /^bed/ } }),
    /called 0 times with \{"what":"\/\^bed\/"\}; wanted: at least 1 \(seen: ann with \{"what":"lamp"\}\)\./,
  ],
  ['mistyped', called('fnd'), /"fnd" was called 0 times; wanted: at least 1\. Did you mean "find"\?/],
  ['far from all', called('pay'), /"pay" was called 0 times; wanted: at least 1\.$/],
  ['at most', called('find', { times: { max: 0 } }), /1 times; wanted: 0/],
  ['too often', called('find', { times: { min: 2, max: 3 } }), /1 times; wanted: 2 to 3/],
  ['called all the same', notCalled('find'), /1 times; wanted: 0/],
  [
    'out of order',
    inOrder('find', { agent: 'bob', tool: 'pay' }),
    /"bob.pay" did not come in its place; calls: ann.find/,
  ],
  ['beyond', within({ tokens: 19 }), /tokens: 20; at most 19/],
  ['without prices', within({ money: 1 }), /money: not known; give the team prices/],
  ['not asked', asked('ann', 'bob'), /"ann" asked "bob" 0 times/],
  ['not handed', handedTo('bob'), /handed to nobody; wanted: bob/],
  ['in another schema', answers(z.object({ gone: z.string() })), /does not fit: .*lamp/],
  ['false', gate('mine', () => false), /"mine" does not hold/],
]

t.test('gates hold, or say what was wrong', async (t) => {
  const run = await lookup()
  for (const [title, gate, wrong] of gates) {
    const said = await gate.check(run)
    if (wrong) t.match(said, wrong, title)
    else t.equal(said, null, title)
  }
  const alike = [called('find', { times: { max: 1 } }), called('find', { input: { what: 'bed' } }), called('find')]
  t.same(
    alike.map(({ name }) => name),
    ['called find (times: at most 1)', 'called find with {"what":"bed"}', 'called find'],
  )
  await t.rejects(expectRun(run, called('pay'), notCalled('find')), /called pay: .*\nnot called find: .*\nSeen: /)
  await expectRun(run, called('find'))
})

const scores: [title: string, of: ReturnType<typeof exact>, given: object, score: unknown][] = [
  ['the same', exact(), { expected: ' Hi. ' }, true],
  ['another', exact(), { expected: 'hi.' }, false],
  ['in capitals', exact({ ignoreCase: true }), { expected: 'hi.' }, true],
  ['nothing expected', exact(), {}, null],
  ['a pattern', matches(/^H/g), {}, true],
  ['equal JSON', sameJson(), { expected: { a: [1, { b: 2 }], c: 3 }, data: { c: 3, a: [1, { b: 2 }] } }, 1],
  ['a field alone', sameJson({ only: ['/a'] }), { expected: { a: 1 }, data: { a: 1, b: 2 } }, 1],
  [
    'but for a field',
    sameJson({ ignore: ['/l/*/id'] }),
    { expected: { l: [{ n: 1 }] }, data: { l: [{ id: 7, n: 1 }] } },
    1,
  ],
  [
    'another leaf',
    sameJson(),
    { expected: { a: { b: 1 } }, data: { a: { b: 2 } } },
    { score: 0, why: '/a/b is 2, not 1' },
  ],
  ['too much', sameJson(), { expected: {}, data: { a: 1 } }, { score: 0, why: 'the answer is not there, not {}' }],
  ['in a text', sameJson(), { expected: { a: 1 }, output: '{"a":1}' }, 1],
]

t.test('scorers measure the answer', async (t) => {
  const run = await evalRun(team, 'Hi.')
  for (const [title, of, { expected, ...more }, score] of scores as [
    string,
    ReturnType<typeof exact>,
    { expected?: unknown },
    unknown,
  ][])
    t.same(await of.score({ ...run, ...more, case: { ...run.case, expected } }, context), score, title)
})

t.test('a suite passes or fails by its gates and scores', async (t) => {
  const cases = [
    { id: 'a', input: 'yes', expected: 'yes' },
    { id: 'b', input: 'no', expected: 'yes' },
  ]
  const passed = await outcome({ name: 'desk', cases, scorers: [exact()], gates: [noAlarms()], repeats: 2 })
  t.match(passed, { name: 'desk', verdict: 'passed', reasons: [], tokens: 40, compared: null })
  t.match(passed.scores, { exact: { mean: 0.5, n: 2, method: 'wilson' } })
  t.match(passed.gates, { 'has an answer': { held: 4, of: 4, first: null }, 'no alarms': { held: 4, of: 4 } })
  t.same(
    passed.results.map(({ run, scores }) => [run.case.id, run.repeat, scores.exact?.score]),
    [
      ['a', 1, 1],
      ['b', 1, 0],
      ['a', 2, 1],
      ['b', 2, 0],
    ],
  )
  const low = await outcome({ cases, scorers: [{ scorer: exact(), atLeast: 0.3 }] })
  t.match(low, { verdict: 'failed', reasons: [/"exact" is 0\.500, and with 95 % not below 0\.0\d\d; at least 0\.3/] })
  const none = await outcome({ scorers: [{ scorer: exact(), atLeast: 0.3 }] })
  t.match(none, { verdict: 'broken', reasons: [/No case has a score of "exact", of which at least 0\.3 is wanted/] })
  const silent = await outcome({ scorers: [exact()] })
  t.equal(silent.verdict, 'passed')
  t.match(evalText(silent), /^ {2}exact: no case has a score \(null for all 1\)$/m)
  const wrong = await outcome({ cases: [{ id: 'a', input: 'yes', gates: [called('pay')] }, cases[1]!] })
  t.match(wrong.reasons, [
    /Gate "called pay" held in 0 of 1 runs\. First: case "a", repeat 1: "pay" was called 0 times/,
  ])
  const some = await outcome({ cases: [{ ...cases[0]!, tags: ['x'] }, cases[1]!] }, { only: { tags: ['x'] } })
  t.equal(some.results.length, 1)
})

t.test('a score is compared with that of an earlier report, or of another suite', async (t) => {
  const cases = Array.from({ length: 8 }, () => ({ input: 'no', expected: 'yes' }))
  const better = cases.map((each) => ({ ...each, input: 'yes' }))
  const scorers = [exact(), scorer('always', () => 1)]
  const before = await outcome({ cases: better, scorers })
  const worse = await outcome({ cases, scorers }, { against: before })
  t.match(worse.compared, { exact: { difference: -1, n: 8 }, always: { difference: 0, p: 1 } })
  t.match(worse, { verdict: 'failed', reasons: [/"exact" is worse by 1\.000 \(p 0\.016\)/] })
  t.equal((await outcome({ cases, scorers }, { against: before, margin: 1 })).verdict, 'passed')
  const other = await outcome({ cases: [{ id: 'other', input: 'yes' }], scorers }, { against: before })
  t.match(other.reasons, [/has no case and score of this suite/])
  t.notMatch(evalText(worse), /too few|no difference can be found/)
  t.equal((await outcome({ cases: better, scorers }, { against: { team, cases, scorers } })).verdict, 'passed')
})

t.test('a comparison says what it cannot find, and what it has left out', async (t) => {
  const cases = ['a', 'b', 'c', 'd'].map((id) => ({ id, input: 'yes', expected: 'yes' }))
  const worse = cases.map((each) => ({ ...each, input: 'no' }))
  const before = await outcome({ cases, scorers: [exact()] })
  const notesOf = async (suite: Partial<EvalSuite>, options = {}) => {
    const report = await outcome({ scorers: [exact()], ...suite }, { against: before, alpha: 0.3, ...options })
    for (const note of report.notes) t.ok(evalText(report).includes(note))
    return report.notes.map((note) => note.replace(/ Gates or atLeast decide\.$/, ''))
  }
  const changed = 'Compared, but with another input or `expected` than before:'
  t.same(await notesOf({ cases }), [])
  t.same(await notesOf({ cases }, { only: { cases: ['a', 'b'] }, alpha: undefined }), [
    'Score "exact": with 0 differing cases of 2 no difference can be found at alpha 0.05: at least 6 are needed.',
  ])
  const [first, ...others] = before.results
  const secret = { ...first!, run: { ...first!.run, case: { ...first!.run.case, input: '[redacted]' } } }
  const against = { ...before, results: [secret, ...others] }
  t.same(await notesOf({ cases: [...worse.slice(0, 2), ...cases.slice(2)] }, { against }), [
    'Score "exact": with 2 differing cases of 4 no difference can be found at alpha 0.3: at least 3 are needed.',
    `${changed} case "b".`,
  ])
  t.same(await notesOf({ cases: worse }), [`${changed} cases "a", "b", "c", "d".`])
  const another = [...cases.slice(2), { id: 'new', input: 'yes' }]
  t.same(await notesOf({ cases: another, scorers: [matches(/yes/)] }), [
    'Not in both, so not compared: scores "exact", "matches /yes/"; cases "a", "b", "new".',
  ])
})

t.test('a scorer asks the models of the suite', async (t) => {
  const folder = folderOf(t)
  const asked: string[] = []
  const client: ModelClient = {
    async *complete({ messages, model, temperature }) {
      asked.push(`${model} ${temperature}: ${messages.map(({ content }) => textOf(content)).join(' | ')}`)
      if (temperature === 0) throw new ModelError('The temperature 0 is not supported.', { reason: 'rejected' })
      yield { text: 'key-of-mine says 0.5' }
      yield { usage }
    },
  }
  const models = { judge: { client, model: 'wise', secrets: ['key-of-mine'] } }
  const asks = scorer('asks', async ({ output }, { complete }) => {
    const ask = { model: 'judge', system: 'Grade.', temperature: 0, keepIf: (answer: string) => answer.endsWith('5') }
    const answer = await complete(`${output}`, ask)
    return { score: Number(/[0-9.]+$/.exec(answer)?.[0]), why: answer }
  })
  const prices = { currency: 'EUR', models: { wise: { input: 0, output: 0, perCall: 2 } } }
  const suite = { team: { ...team, prices }, scorers: [asks], models }
  const report = await outcome(suite, { folder })
  t.match(report, { scores: { asks: { mean: 0.5 } }, tokens: 20, money: 2 })
  t.match(report.results[0]?.scores.asks, { why: '[redacted] says 0.5' })
  t.same(asked, ['wise 0: Grade. | Hi.', 'wise undefined: Grade. | Hi.'])
  t.match(await outcome(suite, { folder }), { tokens: 10, scores: { asks: { mean: 0.5 } } }, 'the answer is kept')
  t.equal(asked.length, 2)
  t.notMatch(readFileSync(join(folder, '.dramatis/answers.jsonl'), 'utf8'), /Grade|Hi\.|key-of-mine/)
  asked.length = 0
  await outcome({ ...suite, cases: [{ input: 'A' }, { input: 'B' }], concurrency: 1 }, { folder: folderOf(t) })
  t.same(
    asked.map((each) => each.slice(0, 10)),
    ['wise 0: Gr', 'wise undef', 'wise undef'],
    'it refuses a temperature once',
  )
  t.match(await outcome({ ...suite, budget: { money: 1 } }, { folder: folderOf(t) }), {
    verdict: 'broken',
    reasons: [/has cost 2; its budget is 1/],
  })
  const failing = {
    complete: () => {
      throw new Error('key-of-mine fails')
    },
  }
  const wrong: [models: NonNullable<EvalSuite['models']>, says: RegExp][] = [
    [{ other: { client, secrets: ['key-of-mine'] } }, /no model of this team is named "judge"; there are other/],
    [{ a: client, b: client, judge: { anyOf: ['a', 'b'] } }, /got the list "judge"; .*the name of one model/],
    [{ judge: { client: failing, secrets: ['key-of-mine'] } }, /^Case "1": (?!.*key-of-mine).*fails/],
  ]
  for (const [models, says] of wrong) {
    const { verdict, reasons } = await outcome({ ...suite, models }, { folder: folderOf(t) })
    t.equal(verdict, 'broken')
    t.match(reasons[0], says)
  }
})

t.test('what cannot be played breaks a suite', async (t) => {
  const broken: [title: string, suite: Partial<EvalSuite>, says: RegExp][] = [
    ['a team that cannot be', { team: { ...team, orchestration: { strategy: 'none' } as never } }, /strategy/],
    ['a score out of bounds', { scorers: [scorer('mine', () => 2)] }, /score of "mine": got 2/],
    [
      'a scorer that throws',
      { scorers: [scorer('mine', () => Promise.reject(new Error('No.')))] },
      /Case "[12]": .*No\./,
    ],
    [
      'a gate that throws',
      {
        gates: [
          gate('mine', () => {
            throw new TypeError('No.')
          }),
        ],
      },
      /^Case "[12]", gate "mine": .*No\./,
    ],
    ['a budget', { budget: { tokens: 9 } }, /has used 10 tokens; its budget is 9/],
  ]
  for (const [title, suite, says] of broken) {
    const cases = [{ input: 'Hi.' }, { input: 'Hi.' }]
    const { verdict, reasons } = await outcome({ cases, ...suite })
    t.equal(verdict, 'broken', title)
    t.match(reasons, [says], title)
    t.equal(reasons.length, 1, `${title}, once`)
  }
})

t.test('a suite that is none is refused', async (t) => {
  const path = join(folderOf(t), 'cases.jsonl')
  writeFileSync(path, '{"input":"Hi."}\n{"inptu":"Hi."}\n')
  const refusals: [suite: object, says: RegExp][] = [
    [{ cases: [] }, /suite\.cases: got no case/],
    [{ cases: [{ input: '' }] }, /suite\.cases\[0\]\.input/],
    [
      {
        cases: [
          { id: 'a', input: 'x' },
          { id: 'a', input: 'y' },
        ],
      },
      /"a" is there twice/,
    ],
    [{ cases: path }, /cases\.jsonl, line 2/],
    [{ cases: `${path}.gone` }, /cannot be read/],
    [{ gates: [exact()] }, /suite\.gates\[0\]/],
    [{ scorers: [noAlarms()] }, /suite\.scorers\[0\]/],
    [{ scorers: [exact(), exact()] }, /"exact" is there twice/],
    [{ repeats: 0 }, /suite\.repeats/],
    [{ models: 'rehearsal' }, /suite\.models: got "rehearsal"/],
    [{ models: { judge: { model: 7 } } }, /suite\.models\.judge/],
    [{ scorer: [] }, /suite\.scorer: there is no such option|Did you mean "scorers"/],
  ]
  for (const [suite, says] of refusals) await t.rejects(outcome(suite as Partial<EvalSuite>), says)
  t.throws(() => defineEval({ team, cases: [{}] as never }), { code: 'CONFIGURATION' })
})

t.test('each case is a test of whatever runner', async (t) => {
  const seen: string[] = []
  const bodies: (() => Promise<void>)[] = []
  const suite = { team, name: 'desk', cases: [{ input: 'Hi.' }, { id: 'pays', input: 'use pay lamp' }] }
  describeEval(suite, {
    describe: (name, body) => {
      seen.push(name)
      body()
    },
    it: (name, body) => {
      seen.push(name)
      bodies.push(body)
    },
  })
  t.same(seen, ['desk', '1', 'pays'])
  await bodies[0]!()
  await t.rejects(bodies[1]!(), { name: 'AssertionError', message: /UNANSWERED/ })
})

/** What the schema of JUnit lets an element have. Source: junit-10.xsd of the xUnit plugin of Jenkins. */
const JUNIT: Record<string, { parent: string | null; fields: string; needs: string[] }> = {
  testsuites: { parent: null, fields: 'name time tests failures disabled errors', needs: [] },
  testsuite: {
    parent: 'testsuites',
    fields: 'name tests failures errors group time skipped timestamp hostname id package file log url version',
    needs: ['name', 'tests'],
  },
  testcase: {
    parent: 'testsuite',
    fields: 'name time classname group file line assertions status',
    needs: ['name'],
  },
  failure: { parent: 'testcase', fields: 'message type', needs: [] },
  error: { parent: 'testcase', fields: 'message type', needs: [] },
}

t.test('a report is JUnit, whatever an agent has said', async (t) => {
  const report = await outcome({
    name: 'a<b>',
    cases: [{ id: '"&\u0000', input: 'Hi.', gates: [gate('g', () => '<&"\u0001>')] }],
  })
  const broken = await outcome({ name: 'b', scorers: [scorer('mine', () => 2)] })
  const xml = junitXml([report, broken])
  t.match(
    xml,
    /^<\?xml version="1\.0" encoding="UTF-8"\?>\n<testsuites><testsuite name="a&lt;b&gt;" tests="2" failures="2" errors="0"/,
  )
  const document = new DOMParser().parseFromString(xml, 'text/xml')
  for (const element of document.querySelectorAll('*')) {
    const { parent = '', fields = '', needs = [] } = JUNIT[element.localName] ?? {}
    const names = [...element.attributes].map(({ name }) => name)
    t.equal(element.parentElement?.localName ?? null, parent)
    t.same(
      [names.filter((name) => !fields.split(' ').includes(name)), needs.filter((name) => !names.includes(name))],
      [[], []],
    )
  }
  for (const suite of document.querySelectorAll('testsuite'))
    for (const [field, children] of [
      ['tests', 'testcase'],
      ['failures', 'failure'],
      ['errors', 'error'],
    ] as const)
      t.equal(suite.getAttribute(field), `${suite.querySelectorAll(children).length}`, field)
  t.match(xml, 'name="&quot;&amp;\ufffd, repeat 1"')
  t.match(xml, 'message="g: &lt;&amp;&quot;\ufffd&gt;"')
})
