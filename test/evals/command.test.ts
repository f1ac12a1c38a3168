/** `dramatis eval`: reports, exit codes, and what is refused. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { z } from 'zod'
import { textOf } from '../../src/actors/definition/content.ts'
import { exact, runEval, sameJson } from '../../src/evals/index.ts'
import { createTeam, defineTool } from '../../src/index.ts'
import type { ModelClient } from '../../src/models.ts'
import { main } from '../../src/service/commands/program.ts'
import { folderOf } from '../durability/log-folders.ts'
import { silent } from '../kit/team.ts'
import { fakeSurroundings } from '../service/fake-team.ts'

const entry = (path: string) => JSON.stringify(new URL(`../../src/${path}`, import.meta.url).href)

const ZOD = JSON.stringify(import.meta.resolve('zod'))

/** Writes a suite whose team says `{ says }`, in a file of a folder of its own. */
function write(t: Test, suite: string): string {
  const folder = folderOf(t)
  const model = '{ offline: true, async *complete({ messages }) { yield { text: messages.at(-1).content } } }'
  const team = `{ agents: [{ name: 'ann', systemPrompt: 'Talk.' }], models: { default: ${model} }, orchestration: { strategy: 'sequential' } }`
  const imports = `import { called, defineEval, exact, gate, judge } from ${entry('evals/index.js')}\nimport { defineTool } from ${entry('index.js')}\nimport { z } from ${ZOD}\nconst team = ${team}`
  writeFileSync(join(folder, 'desk.eval.mjs'), `${imports}\nexport default ${suite}\n`)
  return folder
}

async function evaluate(folder: string, ...args: string[]) {
  const { surroundings, stdout, stderr } = fakeSurroundings()
  const code = await main(['eval', 'desk.eval.mjs', ...args], { ...surroundings, folder })
  return { code, stdout: stdout(), stderr: stderr() }
}

const CASES = "[{ id: 'a', input: 'yes', expected: 'yes', tags: ['x'] }, { input: 'no', expected: 'yes' }]"

t.test('it reports, writes reports, and compares with them', async (t) => {
  const folder = write(t, `defineEval({ name: 'desk', team, cases: ${CASES}, scorers: [exact()] })`)
  const first = await evaluate(folder, '--json', 'r.json', '--junit', 'r.xml', '--repeats', '2')
  t.match(first, {
    code: 0,
    stderr: '',
    stdout: /^desk: passed \(2 cases, 4 runs, 0 tokens\)\n {2}ok {3}has an answer: 4 of 4/,
  })
  t.match(first.stdout, /exact: 0\.500 \(95 %: 0\.095 to 0\.905, 2 cases\)\n$/)
  t.match(JSON.parse(readFileSync(join(folder, 'r.json'), 'utf8')), [{ name: 'desk', verdict: 'passed' }])
  t.match(readFileSync(join(folder, 'r.xml'), 'utf8'), '<testcase classname="desk" name="a, repeat 2"')
  const second = await evaluate(folder, '--against', 'r.json', '--tag', 'x')
  t.match(second, {
    code: 0,
    stdout: /before: \+0\.000 .*\n.*with 0 differing cases of 1 no difference can be found at alpha 0\.05/,
  })
  const html = ['--case', '2', '--html', 'r.html']
  for (const against of ['desk.eval.mjs', 'r.json']) {
    const third = await evaluate(folder, '--against', against, ...html)
    t.match(third, { code: 0, stdout: /1 cases, 1 runs/ })
    t.match(readFileSync(join(folder, 'r.html'), 'utf8'), /before 0\.\d+ \(95 %/)
  }
})

t.test('the exit code says what has failed, and what is broken', async (t) => {
  const cases: [suite: string, code: number, says: RegExp][] = [
    [`defineEval({ team, cases: ${CASES}, gates: [called('pay')] })`, 1, /FAIL called pay: 0 of 2/],
    [
      `defineEval({ team, cases: ${CASES}, scorers: [{ scorer: judge({ rubric: 'Kind?', model: 'j' }), atLeast: 0.1 }] })`,
      2,
      /^$/,
    ],
    [`defineEval({ team, cases: ${CASES}, scorers: [{ scorer: exact(), atLeast: 1 }] })`, 1, /at least 1 is wanted/],
    [
      `defineEval({ team, cases: [{ input: 'Hi.' }], scorers: [{ scorer: exact(), atLeast: 1 }] })`,
      2,
      /null for all 1/,
    ],
    [`defineEval({ team: { ...team, agents: [] }, cases: ${CASES} })`, 2, /broken/],
    [
      `[{ team, cases: ${CASES} }, { team, name: 'b', cases: ${CASES}, gates: [gate('no', () => false)] }]`,
      1,
      /suite: passed[\s\S]*b: failed/,
    ],
  ]
  for (const [suite, code, says] of cases) {
    const folder = write(t, suite)
    t.match(await evaluate(folder, '--html', 'r.html'), { code, stdout: says }, suite)
    if (says.source.startsWith('FAIL'))
      t.match(readFileSync(join(folder, 'r.html'), 'utf8'), /npx dramatis rehearse desk\.eval\.mjs --case a /)
  }
})

t.test('a tape is played without a call, and what it does not have is exit 2', async (t) => {
  const suite = `defineEval({ name: 'desk', team, cases: ${CASES} })`
  const folder = write(t, suite)
  const tapes = join(folder, 'tapes')
  t.match(await evaluate(folder, '--record', 'tapes'), { code: 0 })
  const changed = (what: string, to: string) => {
    const other = write(t, suite)
    const path = join(other, 'desk.eval.mjs')
    writeFileSync(path, readFileSync(path, 'utf8').replace(what, to))
    return other
  }
  const played = await evaluate(folder, '--playback', 'tapes', '--json', 'r.json')
  t.match(played, { code: 0, stdout: /^desk: passed \(2 cases, 2 runs/ })
  const dumb = changed('yield { text: messages', 'yield { text: "no" ?? messages')
  t.match(await evaluate(dumb, '--playback', tapes, '--json', 'r.json'), { code: 0 })
  t.same(readFileSync(join(dumb, 'r.json')), readFileSync(join(folder, 'r.json')))
  const says = /Case "a": Agent "ann" asks .*messages\[0\]\.content \(system\), from character 5 on/
  const other = changed("'Talk.'", "'Talk now.'")
  t.match(await evaluate(other, '--playback', tapes), { code: 2, stdout: says })
  const two = write(t, `[{ team, cases: ${CASES} }, { team, cases: ${CASES} }]`)
  t.match(await evaluate(two, '--record', 'tapes'), { code: 2, stderr: /two suites are named "suite"/ })
})

/** Runs the commands that an output ends with. */
async function printed(folder: string, stdout: string) {
  const outcomes = []
  for (const [, line = ''] of stdout.matchAll(/^ {4}npx dramatis (.+)$/gm)) {
    const { surroundings, stdout: said, stderr } = fakeSurroundings()
    outcomes.push({ code: await main(line.split(' '), { ...surroundings, folder }), stdout: said(), stderr: stderr() })
  }
  return outcomes
}

t.test('a case that failed is rehearsed as printed, and the worst seed shows what is wrong', async (t) => {
  const module = JSON.stringify(new URL('../fixtures/rehearsal/pays-again.js', import.meta.url).href)
  const pay = `defineTool({ name: 'pay', description: 'Pays.', input: z.object({ key: z.string(), what: z.string() }), run: () => 'paid' })`
  const suite = (times: string) => `(() => {
    const logger = { debug() {}, info() {}, warn() {}, error() {} }
    const team = { agents: [{ name: 'ann', module: ${module}, tools: [${pay}] }], logger, orchestration: { strategy: 'sequential' } }
    return defineEval({ name: 'till', team, cases: [{ id: 'a', input: 'one' }], gates: [called('pay', { times: ${times} })] })
  })()`
  const folder = write(t, suite('{ max: 1 }'))
  t.match(await evaluate(folder, '--record', 'tapes'), {
    code: 0,
    stdout: /ok {3}called pay \(times: at most 1\): 1 of 1\n$/,
  })
  const seeded = await evaluate(folder, '--playback', 'tapes', '--seeds', '30', '--faults', 'crash')
  t.match(seeded, {
    code: 1,
    stdout:
      /Play the worst, seed \d+ of case "a", alone:\n {4}npx dramatis rehearse desk\.eval\.mjs --case a --playback tapes --seed \d+ --faults crash\n$/,
  })
  t.match(await printed(folder, seeded.stdout), [
    { code: 1, stdout: /crash of ann, \d+ ms after the begin\n(.*\n)*.*"pay" was called 2 times/, stderr: '' },
  ])
  const wrong = write(t, suite('0'))
  const failed = await evaluate(wrong, '--repeats', '2')
  t.match(failed, { code: 1, stdout: /FAIL called pay \(times: 0\): 0 of 2\n.*\n {2}Rehearse case "a":\n/ })
  const again = await evaluate(wrong, '--repeats', '2', '--record', 'tapes')
  t.match(again.stdout, / {4}npx dramatis rehearse desk\.eval\.mjs --case a --playback tapes\n$/)
  t.match(await printed(wrong, failed.stdout), [
    { code: 1, stdout: /FAIL called pay \(times: 0\): 0 of 1/ },
    { code: 1, stdout: /FAIL called pay \(times: 0\): 0 of 100/, stderr: '' },
  ])
})

t.test('a rehearsal of a case takes what is of a case', async (t) => {
  const folder = write(t, `defineEval({ team, cases: ${CASES} })`)
  const refusals: [args: string[], says: RegExp][] = [
    [['--case', 'a'], /which tapes\? Name their folder with --playback/],
    [['--case', 'a', '--playback', 'x', '--real-models'], /--real-models: a case takes none/],
    [['a query', '--case', 'a', '--playback', 'x'], /a case has its own query/],
    [['a query', '--playback', 'x'], /--playback: it is for a case/],
  ]
  for (const [args, says] of refusals) {
    const { surroundings, stderr } = fakeSurroundings()
    t.equal(await main(['rehearse', 'desk.eval.mjs', ...args], { ...surroundings, folder }), 2)
    t.match(stderr(), says)
  }
})

t.test('what is no suite is refused', async (t) => {
  const folder = write(t, `defineEval({ team, cases: ${CASES} })`)
  t.match(await evaluate(write(t, '{ agents: [] }')), {
    code: 2,
    stderr: /exports no suite\. Write: export default defineEval/,
  })
  t.match(await evaluate(write(t, "{ team, cases: 'gone.jsonl' }")), { code: 2, stderr: /gone\.jsonl cannot be read/ })
  t.match(await evaluate(folder, 'gone.eval.js'), {
    code: 2,
    stderr: /Eval file "gone\.eval\.js": there is no such file/,
  })
  t.match(await evaluate(folder, '--case', 'gone'), { code: 2, stderr: /only\.cases: got "gone"/ })
  t.match(await evaluate(folder, '--against', 'gone.json'), { code: 2, stderr: /--against gone\.json cannot be read/ })
  t.match(await evaluate(folder, '--margin', '2'), { code: 2, stderr: /a number from 0 to 1/ })
})

/** Says the text of the last message; `pay X` calls a tool that two people have to approve. */
const talker: ModelClient = {
  offline: true,
  async *complete({ messages }) {
    const last = messages.at(-1)!
    const text = textOf(last.content)
    if (last.role === 'tool') yield { text: JSON.stringify({ paid: text, mail: 'ann@example.org' }) }
    else if (text === 'fail') throw new Error('It fails.')
    else if (text.startsWith('pay')) yield { toolCall: { id: 'c', name: 'pay', input: JSON.stringify({ what: text }) } }
    else yield { text }
  },
}

const pay = defineTool({
  name: 'pay',
  description: 'Pays.',
  input: z.object({ what: z.string() }),
  approval: { quorum: 2 },
  run: async ({ what }) => what,
})

const desk = {
  agents: [{ name: 'ann', systemPrompt: 'Talk.', tools: [pay] }],
  models: { default: talker },
  logger: silent,
  orchestration: { strategy: 'sequential' as const },
}

t.test('runs of a log are cases of a suite, without secrets', async (t) => {
  const folder = write(t, "defineEval({ team, cases: 'logged.jsonl' })")
  const secret = 'very-secret-0123456789'
  writeFileSync(join(folder, '.env'), `SHOP_API_KEY=${secret}\n`)
  const team = createTeam({ ...desk, stateManagement: { path: join(folder, 'log') } })
  t.teardown(() => team.close())
  const tagged = { metadata: { tags: 'prod, refund' }, tenant: 'shop' }
  await team.execute(`Hello, ${secret}.`, { runId: 'plain', ...tagged })
  const paid = team.launch('pay 5', { runId: 'paid', ...tagged })
  let asked = 0
  for await (const event of paid.events()) {
    if (event.type !== 'question' && event.type !== 'question.voted') continue
    asked += 1
    if (asked > 2) continue
    await paid.answer(event.questionId, { approved: true }, { by: { id: asked === 1 ? 'bob' : 'cid' } })
  }
  for (const text of ['One.', 'Two.']) await team.execute(text, { threadId: 'talk', ...tagged, tenant: 'other' })
  await team.execute('fail', { runId: 'failed' })
  await team.execute('Parts.', { messages: [{ role: 'user', content: 'Before.' }] })
  await team.close()
  const made = async (...args: string[]) => {
    const { surroundings, stdout, stderr } = fakeSurroundings()
    const code = await main(['eval', 'cases', '--log', 'log', ...args], { ...surroundings, folder })
    return {
      code,
      stdout: stdout(),
      stderr: stderr(),
      cases: stdout()
        .split('\n')
        .slice(0, -1)
        .map((line) => JSON.parse(line)),
    }
  }
  const tags = ['prod', 'refund']
  const approved = { agent: 'ann', tool: 'pay', answer: { approved: true } }
  const all = await made()
  t.same(all.cases, [
    { id: 'plain', input: 'Hello, [redacted].', expected: 'Hello, [redacted].', tags },
    {
      id: 'paid',
      input: 'pay 5',
      expected: { paid: 'pay 5', mail: 'ann@example.org' },
      answers: [
        { ...approved, by: 'bob' },
        { ...approved, by: 'cid' },
      ],
      tags,
    },
    { id: 'talk', input: ['One.', 'Two.'], expected: 'Two.', tags },
  ])
  t.match(await made('--status', 'failed'), { code: 0, cases: [{ id: 'failed', input: 'fail', expected: undefined }] })
  t.same(
    (await made('--tenant', 'other')).cases.map(({ id }) => id),
    ['talk'],
  )
  t.same((await made('--tag', 'none', '--tag', 'refund')).cases.length, 3)
  t.match(await made('--tag', 'none'), { code: 0, stdout: '', stderr: /No run of the log is wanted/ })
  const dropped = await made('--drop', '/expected/mail', '--drop', '/answers/*/by', '--drop', '/tags/0')
  t.match(dropped.cases[1], { expected: { paid: 'pay 5' }, answers: [approved, approved], tags: ['refund'] })
  t.notMatch(dropped.stdout, /example\.org|bob|prod/)
  t.match(await made('--drop', 'expected'), { code: 2, stderr: /"expected" is no JSON pointer/ })
  t.match(await made('--drop', '/input'), { code: 2, stderr: /case "plain", by --drop\.input/ })
  writeFileSync(join(folder, 'logged.jsonl'), all.stdout)
  const scorers = [sameJson(), exact()]
  const report = await runEval({ team: desk, cases: 'logged.jsonl', scorers }, { folder })
  t.match(report, { verdict: 'passed', scores: { sameJson: { mean: 1, n: 3 } } })
  t.match(await evaluate(folder), { code: 0, stdout: /3 cases/ }, 'the command takes them, too')
})
