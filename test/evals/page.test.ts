/** The page of reports: what it shows, and that strangers' texts stay texts. */
import { parseHTML } from 'linkedom'
import t, { type Test } from 'tap'
import { z } from 'zod'
import { textOf } from '../../src/actors/definition/content.ts'
import { type EvalReport, type EvalSuite, exact, gate, runEval, scorer } from '../../src/evals/index.ts'
import { defineTeam, defineTool, type MultiAgentPatternOptions } from '../../src/index.ts'
import type { ModelClient } from '../../src/models.ts'
import { evalPage, type PlayOfCase } from '../../src/service/pictures/eval-page.ts'
import { silent } from '../kit/team.ts'

const EVIL = '</pre><script>alert(1)</script><img src=x onerror="alert(2)">\'"&\u202e{{x}}'

/** Bob says what `says` makes of the words of ann, who calls a tool first. */
const model = (says: (text: string) => string): ModelClient => ({
  offline: true,
  async *complete({ messages, agent }) {
    const last = messages.at(-1)!
    const text = textOf(last.content)
    if (agent === 'bob') yield { text: says(text) }
    else if (last.role === 'tool') yield { text }
    else yield { toolCall: { id: 'c', name: 'find', input: JSON.stringify({ what: text }) } }
  },
})

const find = defineTool({
  name: 'find',
  description: 'Finds.',
  input: z.object({ what: z.string() }),
  run: async ({ what }) => what,
})

const team = (says: (text: string) => string): MultiAgentPatternOptions<string> =>
  defineTeam({
    agents: [
      { name: 'ann', systemPrompt: 'Find.', tools: [find] },
      { name: 'bob', systemPrompt: 'Talk.' },
    ],
    models: { default: model(says) },
    logger: silent,
    orchestration: { strategy: 'sequential' },
  })

const suite = (says: (text: string) => string, more: Partial<EvalSuite> = {}): EvalSuite => ({
  name: 'desk',
  team: team(says),
  cases: Array.from({ length: 4 }, (_, at) => ({ id: `case ${at}`, input: `word ${at}`, expected: `word ${at}` })),
  scorers: [exact()],
  ...more,
})

const TAGS = new Set(
  'html head meta title style body main section h1 h2 h3 p ul li table tr th td span div details summary dl dt dd pre code svg line circle path rect text'.split(
    ' ',
  ),
)
const FIELDS = new Set(
  'lang charset name content http-equiv class scope viewBox width height role aria-label open x y x1 x2 y1 y2 cx cy r rx d'.split(
    ' ',
  ),
)

const shown = (report: EvalReport, before?: EvalReport) => ({
  report,
  before,
  again: (of: PlayOfCase) => `again ${of.case}, ${of.repeat}`,
})

/** The page as a browser reads it, of which all is known: no script, and nothing that is loaded. */
function read(t: Test, page: string) {
  const { document } = parseHTML(page)
  const all = [...document.querySelectorAll('*')]
  const fields = all.flatMap((element) => [...element.attributes].map(({ name }) => name))
  t.same(
    all.map(({ localName }) => localName).filter((name) => !TAGS.has(name)),
    [],
  )
  t.same(
    fields.filter((name) => !FIELDS.has(name)),
    [],
  )
  t.match(
    document.querySelector('meta[http-equiv]')?.getAttribute('content'),
    /^default-src 'none'; style-src 'unsafe-inline'$/,
  )
  t.notMatch(document.querySelector('style')?.textContent, /url\(|@import/)
  return document
}

t.test('it shows intervals, what was played, and the command for a rehearsal', async (t) => {
  const report = await runEval(
    suite((text) => text, {
      gates: [gate('mine', ({ repeat, case: { id } }) => repeat === 1 || id !== 'case 3')],
      repeats: 2,
    }),
  )
  const document = read(t, evalPage([shown(report)]))
  t.match(document.querySelector('h1')?.textContent, /failed\s+desk/)
  t.equal(document.querySelector('svg')?.getAttribute('aria-label'), '1.000 (95 %: 0.510 to 1.000, 4 cases)')
  const first = document.querySelector('details')!
  t.ok(first.hasAttribute('open'), 'a case that failed comes first, and is open')
  t.match(first.querySelector('summary')?.textContent, /FAIL\s+case 3\s+failed in 1 of 2/)
  t.match(first.querySelector('.side .reasons')?.textContent, /mine: "mine" does not hold/)
  t.match(first.querySelector('.command')?.textContent, /^again case 3, 2$/)
  t.equal(first.querySelectorAll('.side').length, 1)
  t.match(first.textContent, /ann\.find\({"what":"word 3"}\) = word 3/)
  const drawn = [...first.querySelectorAll('.scrolls text')].map((each) => each.textContent)
  t.same(drawn.slice(0, 4), ['$user', '$orchestrator', 'ann', 'bob'])
  t.equal(drawn.filter((text) => text === 'word 3').length, 6, 'an arrow for each message')
  t.notOk(document.querySelectorAll('details')[1]?.hasAttribute('open'))
})

t.test('cases that differ from before stand side by side, the largest difference first', async (t) => {
  const before = await runEval(suite((text) => text))
  const now = await runEval(
    suite((text) => (text.endsWith('2') ? 'wrong' : text), { scorers: [exact(), scorer('new', () => 0)] }),
    { against: before },
  )
  const document = read(t, evalPage([shown(now, before), shown(before)]))
  const [first, second] = document.querySelectorAll('details')
  t.match(first?.querySelector('summary')?.textContent, /case 2\s+score -1\.000/)
  t.same(
    [...first!.querySelectorAll('.side')].map((side) => [
      side.querySelector('h3')?.textContent,
      side.querySelector('pre')?.textContent,
    ]),
    [
      ['before', 'word 2'],
      ['now', 'wrong'],
    ],
  )
  t.equal(second?.querySelectorAll('h3').length, 0)
  t.match(document.querySelector('table')?.textContent, /before 1\.000[\s\S]*difference -0\.250 \(95 %: -\d/)
  t.equal(document.querySelector('svg')?.querySelectorAll('circle').length, 2)
  const notes = [...document.querySelectorAll('section:first-of-type > .quiet')].map(({ textContent }) => textContent)
  t.match(notes.slice(1), [
    /"exact": with 1 differing cases of 4 no difference can be found/,
    /not compared: score "new"/,
  ])
  t.equal(document.querySelectorAll('section').length, 2)
})

t.test('a text of a stranger is a text, wherever it stands, and no longer than can be read', async (t) => {
  const cases = [{ id: EVIL, input: EVIL, expected: EVIL, tags: [EVIL], gates: [gate(EVIL, () => EVIL)] }]
  const scorers = [scorer(EVIL, () => ({ score: 1, why: EVIL }))]
  const report = await runEval(suite(() => EVIL, { name: EVIL, cases, scorers }))
  const evil = read(t, evalPage([shown(report)]))
  const told = EVIL.replace('\u202e', '\\u{202e}')
  for (const place of ['h1', 'summary', '.side pre', '.gates', '.side li', '.reasons', 'code', 'dd', 'title'])
    t.ok(evil.querySelector(place)?.textContent?.includes(told), place)
  const long = await runEval(suite(() => 'x'.repeat(100_000), { repeats: 1 }))
  t.ok(evalPage([shown(long)]).length < 60_000)
  const many = Array.from({ length: 210 }, (_, at) => ({
    ...long.results[0]!,
    run: { ...long.results[0]!.run, case: { ...long.results[0]!.run.case, id: `${at}` } },
  }))
  const page = read(t, evalPage([shown({ ...long, results: many })]))
  t.equal(page.querySelectorAll('details').length, 200)
  t.match(page.body.textContent, /10 more cases are left out/)
})
