/** Answers that contradict each other, resolved by what they rest on. */
import t from 'tap'
import { type AgentDefinition, defineAgent } from '../../src/index.ts'
import type { ParallelConfig } from '../../src/protocols.ts'
import { scriptedModel, testTeam } from '../../src/testing.ts'
import { type Cast, type Options, says, stage, type Test } from '../team/stage.ts'

const evidence = (judge?: string): ParallelConfig => ({
  strategy: 'parallel',
  aggregationStrategy: 'vote',
  conflictResolution: 'evidence',
  judge,
})

/** Writes entries with a confidence each, and answers. */
function finds(entries: Record<string, number>, reply: unknown): AgentDefinition {
  return defineAgent({
    async receive(_message, { blackboard }) {
      for (const [key, confidence] of Object.entries(entries)) await blackboard.write(key, 1, 'fact', { confidence })
      return typeof reply === 'string' ? reply : { structuredData: reply }
    },
  })
}

async function play(t: Test, cast: Cast<string>, orchestration: ParallelConfig, options: Options<string> = {}) {
  const team = stage<string>(t, cast, { ...options, orchestration })
  const pending = team.execute('Which port?')
  await team.clock.advance(100_000)
  return pending
}
type Result = Awaited<ReturnType<typeof play>>
const decisions = ({ orchestrationTrace }: Result) =>
  orchestrationTrace.decisions.map(({ question, choice, reason }) => `${question} ${choice}: ${reason}`)

t.test('objects are put together key by key, each by the entries that its answers refer to', async (t) => {
  const cast = {
    a: finds({ 'doc.rfc': 0.9 }, { port: 443, host: 'x', references: ['doc.rfc', 'doc.none'] }),
    b: finds({ 'doc.blog': 0.4 }, { port: 80, host: 'x', path: '/', references: ['doc.blog', 'doc.none'] }),
    c: finds({}, { port: 80, path: '/' }),
  }
  const { finalOutput, ...result } = await play(t, cast, evidence())
  t.same(JSON.parse(String(finalOutput)), { port: 443, host: 'x', path: '/' })
  t.same(decisions(result as Result), [
    'They contradict each other about "port": what holds? 443: The most evidence: 0.9 (doc.rfc), from a.',
    'Whose is each part of the answer? port: a; host: a, b; path: b, c: They have said it so.',
  ])
})

t.test('an entry counts once for a claim, however many refer to it; several count together', async (t) => {
  const cast = {
    a: finds({ one: 0.5 }, { port: 80, references: ['one', 'one'] }),
    b: finds({}, { port: 80, references: ['one'] }),
    c: finds({ two: 0.4, three: 0.3 }, { port: 443, references: ['two', 'three'] }),
  }
  const result = await play(t, cast, evidence())
  t.equal(result.finalOutput, '{"port":443,"references":["two","three"]}')
  t.match(decisions(result)[0], /443: The most evidence: 0\.7 \(two, three\), from c\./)
})

t.test('where the evidence is level the votes decide, and then the order', async (t) => {
  const votes = await play(t, { a: says('80'), b: { code: says('443'), weight: 2 } }, evidence())
  t.equal(votes.finalOutput, '443')
  t.same(decisions(votes), [
    'They contradict each other about the answer: what holds? 443: The evidence is level (0): the most votes, from b.',
  ])
  const tie = await play(t, { a: says('80'), b: says('443') }, evidence())
  t.match({ out: tie.finalOutput, why: decisions(tie)[0] }, { out: '80', why: /a tie: the first/ })
})

t.test('words refer to entries by their keys in brackets', async (t) => {
  const cast = { a: finds({}, 'It is 80 [nowhere].'), b: finds({ 'doc.rfc': 0.2 }, 'It is 443 [doc.rfc].') }
  const result = await play(t, cast, evidence())
  t.equal(result.finalOutput, 'It is 443 [doc.rfc].')
  t.match(decisions(result), [/The most evidence: 0\.2 \(doc\.rfc\), from b\./])
})

t.test('of texts a judge says what contradicts what, and writes the answer that keeps to what holds', async (t) => {
  const statements = [
    { agent: 'a', statement: 'It is 80.' },
    { agent: 'b', statement: 'It is 443.' },
  ]
  const model = scriptedModel([
    { agent: 'a', reply: 'It is 80.' },
    { agent: 'b', reply: 'It is 443 [doc.rfc]. Use TLS.' },
    { agent: 'judge', when: /## a\n\nIt is 80\./, reply: { contradictions: [{ about: 'the port', statements }] } },
    { agent: 'judge', when: '- the port: It is 443. (b)', reply: '443, with TLS.' },
  ])
  const agents = [{ name: 'a' }, { name: 'b' }, { name: 'judge' }]
  const team = testTeam<string>({ agents, enableBlackboard: true, orchestration: evidence('judge') }, { model })
  t.teardown(() => team.close())
  const run = team.launch('Which port?')
  await run.blackboard?.write('doc.rfc', 1, 'fact')
  const result = await run.result
  t.equal(result.finalOutput, '443, with TLS.')
  t.same(decisions(result), [
    'What do the answers contradict each other about? the port: The judge "judge" says so, and makes one answer of theirs.',
    'They contradict each other about the port: what holds? It is 443.: The most evidence: 1 (doc.rfc), from b.',
  ])
  model.assertDone()
})

t.test('a judge that finds no contradiction makes one answer of them', async (t) => {
  const judge = defineAgent({
    receive: ({ content }) => (content.startsWith('Which') ? { structuredData: { contradictions: [] } } : 'Both.'),
  })
  const result = await play(t, { a: says('x'), b: says('y'), judge }, evidence('judge'))
  t.equal(result.finalOutput, 'Both.')
  t.match(decisions(result), [/contradict each other about\? nothing: /])
})

t.test('a judge that answers with no list leaves it to the texts as they are', async (t) => {
  const cast = { a: finds({}, 'x'), b: finds({ k: 1 }, 'y [k]'), judge: says('Hard to say.') }
  const result = await play(t, cast, evidence('judge'))
  t.equal(result.finalOutput, 'y [k]')
  t.match(decisions(result), [/about\? not known: .*"judge"/, /what holds\? y \[k\]/])
})

t.test('a team without a blackboard has no evidence, and the run says so', async (t) => {
  const result = await play(t, { a: says('x'), b: says('y') }, evidence(), { enableBlackboard: false })
  t.match(result.error, { code: 'CONFIGURATION', message: /no blackboard/ })
  t.equal((await play(t, { a: says('x'), b: says('x') }, evidence(), { enableBlackboard: false })).finalOutput, 'x')
})

t.test(
  'a judge that makes one answer of objects is told of in the trace with what they contradict each other about',
  async (t) => {
    const cast = { a: finds({}, { port: 80, host: 'x' }), b: finds({}, { port: 443, host: 'x' }), judge: says('443') }
    const orchestration: ParallelConfig = {
      ...evidence('judge'),
      aggregationStrategy: 'vote',
      conflictResolution: 'synthesize',
    }
    const result = await play(t, cast, orchestration)
    t.match(decisions(result), [/judge: It makes one answer of them\. They contradict each other about port\.$/])
  },
)
