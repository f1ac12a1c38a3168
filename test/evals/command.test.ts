/** `dramatis eval`: reports, exit codes, and what is refused. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { main } from '../../src/service/commands/program.ts'
import { folderOf } from '../durability/log-folders.ts'
import { fakeSurroundings } from '../service/fake-team.ts'

const entry = (path: string) => JSON.stringify(new URL(`../../src/${path}`, import.meta.url).href)

/** Writes a suite whose team says `{ says }`, in a file of a folder of its own. */
function write(t: Test, suite: string): string {
  const folder = folderOf(t)
  const model = '{ offline: true, async *complete({ messages }) { yield { text: messages.at(-1).content } } }'
  const team = `{ agents: [{ name: 'ann', systemPrompt: 'Talk.' }], models: { default: ${model} }, orchestration: { strategy: 'sequential' } }`
  const imports = `import { called, defineEval, exact, gate } from ${entry('evals/index.js')}\nconst team = ${team}`
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
  t.match(second, { code: 0, stdout: /before: \+0\.000 .*too few cases differ to say more/ })
  t.match(await evaluate(folder, '--against', 'desk.eval.mjs', '--case', '2'), { code: 0, stdout: /1 cases, 1 runs/ })
})

t.test('the exit code says what has failed, and what is broken', async (t) => {
  const cases: [suite: string, code: number, says: RegExp][] = [
    [`defineEval({ team, cases: ${CASES}, gates: [called('pay')] })`, 1, /FAIL called pay: 0 of 2/],
    [`defineEval({ team, cases: ${CASES}, scorers: [{ scorer: exact(), atLeast: 1 }] })`, 1, /at least 1 is wanted/],
    [`defineEval({ team: { ...team, agents: [] }, cases: ${CASES} })`, 2, /broken/],
    [
      `[{ team, cases: ${CASES} }, { team, name: 'b', cases: ${CASES}, gates: [gate('no', () => false)] }]`,
      1,
      /suite: passed[\s\S]*b: failed/,
    ],
  ]
  for (const [suite, code, says] of cases) {
    const outcome = await evaluate(write(t, suite))
    t.match(outcome, { code, stdout: says }, suite)
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
