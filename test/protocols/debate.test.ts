/** The protocol debate: each option, and each way in which a run of it can end. */
import t from 'tap'
import type { AgentDefinition, MultiAgentResult } from '../../src/index.ts'
import { protocolFrom } from '../../src/protocols/index.ts'
import type { DebateConfig } from '../../src/protocols.ts'
import { rehearsalModel, scriptedModel, testTeam } from '../../src/testing.ts'
import { type Options, refuses, says, stage, type Test, throws } from '../team/stage.ts'
import { asked } from './contributors.ts'
import { decisions, endedMeanwhile, reasons, speaks } from './speakers.ts'

type Config = Partial<Omit<DebateConfig, 'strategy'>>

const backed = (argument: string, ...evidence: string[]) => ({ argument, evidence })
const yes = () => speaks(backed('Yes.', 'a study'))
const no = () => speaks(backed('No.', 'a count'))
const judging = (winner = 'con', ...words: string[]) =>
  speaks({ winner, reasons: 'It counts.' }, ...words, 'No is right.')

async function play(
  t: Test,
  cast: Record<string, AgentDefinition>,
  config: Config = {},
  options: Options<string> = {},
) {
  const debaters = Object.keys(cast).filter((name) => name !== 'judge')
  const orchestration = { strategy: 'debate' as const, debaters, judge: 'judge', maxRounds: 1, ...config }
  const team = stage(t, cast, { ...options, orchestration })
  const pending = team.execute('Migrate?')
  await team.clock.advance(1_000_000)
  return pending
}

t.test('the debaters speak in turn, the judge gives its verdict and then the answer', async (t) => {
  const [pro, con, judge] = [yes(), no(), judging()]
  const result = await play(t, { pro, con, judge })
  t.match(result, { success: true, finalOutput: 'No is right.', failures: [] })
  t.same(asked(result), ['pro', 'con', 'judge', 'judge'])
  t.match(pro.heard[0]?.content, /Your position: for the proposition[\s\S]*Migrate\?[\s\S]*Nothing yet\./)
  t.match(
    con.heard[0]?.content,
    /Your position: against the proposition[\s\S]*## pro, round 1 \(for[\s\S]*Yes\.[\s\S]*- a study/,
  )
  t.match(con.heard[0]?.structuredData, {
    query: 'Migrate?',
    position: /^against/,
    round: 1,
    debate: [{ agent: 'pro', round: 1, argument: 'Yes.', evidence: ['a study'] }],
  })
  t.match(judge.heard[0]?.content, /one of pro, con[\s\S]*Migrate\?[\s\S]*## pro[\s\S]*## con, round 1/)
  t.match(judge.heard[1]?.content, /^con has won the debate \(against[\s\S]*It counts\./)
  t.match(judge.heard[1]?.structuredData, { winner: 'con', position: /^against/, reasons: 'It counts.' })
  t.same(decisions(result).at(-1), 'Who has won the debate? con')
  t.equal(reasons(result).at(-1), 'The judge "judge" says so. It counts.')
})

t.test('the transcript is in the message history, argument by argument', async (t) => {
  const cast = { pro: speaks('Yes, for speed.'), con: speaks('No, it costs.'), judge: judging() }
  const { messageHistory } = await play(t, cast, { requireEvidence: false })
  const said = messageHistory.filter(({ type, sender }) => type === 'response' && sender !== '$orchestrator')
  t.same(
    said.map(({ sender, content }) => `${sender}: ${content}`),
    ['pro: Yes, for speed.', 'con: No, it costs.', 'judge: ', 'judge: No is right.'],
  )
})

t.test('the content of a debater is its argument, whoever plays it and however it answers', async (t) => {
  const judge = judging()
  const code = { pro: yes(), con: speaks(JSON.stringify(backed('No.', 'a count'))), judge }
  const own = speaks({ content: 'My own words.', structuredData: backed('No.', 'a count') })
  const said = ({ messageHistory }: MultiAgentResult) =>
    messageHistory.flatMap(({ type, sender, content, structuredData }) =>
      type === 'response' && (sender === 'pro' || sender === 'con') ? [[sender, content, structuredData]] : [],
    )
  const transcript = [
    ['pro', 'Yes.', backed('Yes.', 'a study')],
    ['con', 'No.', backed('No.', 'a count')],
  ]
  t.same(said(await play(t, code)), transcript)
  t.same(said(await play(t, { ...code, pro: yes(), con: own })).at(-1)?.[1], 'My own words.')

  const lines = [backed('Yes.', 'a study'), backed('No.', 'a count'), { winner: 'con', reasons: '' }, 'No is right.']
  const model = scriptedModel(lines.map((line) => ({ reply: typeof line === 'string' ? line : JSON.stringify(line) })))
  const team = testTeam({
    agents: [{ name: 'pro' }, { name: 'con' }, { name: 'judge' }],
    orchestration: { strategy: 'debate', debaters: ['pro', 'con'], judge: 'judge', maxRounds: 1 },
    models: { default: model },
  })
  t.teardown(() => team.close())
  t.same(said(await team.execute('Migrate?')), transcript)
})

t.test('maxRounds is how often each speaks; it is 3, and each is told what is new to it', async (t) => {
  const pro = speaks(backed('one', 'x'), backed('two', 'x'), backed('three', 'x'))
  const con = speaks(backed('eins', 'x'), backed('zwei', 'x'), backed('drei', 'x'))
  const result = await play(t, { pro, con, judge: judging() }, { maxRounds: undefined })
  t.same(asked(result), ['pro', 'con', 'pro', 'con', 'pro', 'con', 'judge', 'judge'])
  t.match(pro.heard[2]?.content, /round 3 of 3[\s\S]*zwei/)
  t.notMatch(pro.heard[2]?.content, /eins|two/)
  t.equal((await play(t, { pro: yes(), con: no(), judge: judging() }, { maxRounds: 2 })).messageHistory.length, 14)
})

t.test('positions are argued in turn, and several may share one', async (t) => {
  const cast = { a: yes(), b: no(), c: yes(), judge: judging('c') }
  const result = await play(t, cast, { positions: ['REST', 'GraphQL'] })
  t.same(decisions(result).slice(0, 3), [
    'What does "a" argue? REST',
    'What does "b" argue? GraphQL',
    'What does "c" argue? REST',
  ])
  t.match(cast.b.heard[0]?.content, /Your position: GraphQL\./)
  t.match(cast.judge.heard[1]?.content, /^c has won the debate \(REST\)/)
  t.match(reasons(result)[0], /positions says so/)
})

t.test('without positions they take sides in turn, and the trace says so', async (t) => {
  const pro = yes()
  const result = await play(t, { pro, con: no(), judge: judging() })
  t.match(decisions(result).slice(0, 2), [/"pro" argue\? for the proposition/, /"con" argue\? against the proposition/])
  t.match(reasons(result)[0], /take sides in turn/)
  t.match(pro.heard[0]?.content, /If your role takes another side/)
  const given = yes()
  await play(t, { pro: given, con: no(), judge: judging() }, { positions: ['x', 'y'] })
  t.notMatch(given.heard[0]?.content, /If your role takes another side/)
})

t.test('an argument without evidence is sent back once, and is as good as another if it comes with some', async (t) => {
  const con = speaks(backed('No.', ' '), backed('No, by this:', 'a count'))
  const result = await play(t, { pro: yes(), con, judge: judging() })
  t.match(con.heard[1]?.content, /Migrate\?[\s\S]*came without evidence/)
  t.equal(con.heard.length, 2)
  t.notOk(decisions(result).some((decision) => decision.includes('give evidence')))
})

t.test('a debater that never gives evidence is heard, and the judge is told', async (t) => {
  for (const line of [backed('No.'), 'No.', { argument: 'No.' }]) {
    const cast = { pro: yes(), con: speaks(line), judge: judging() }
    const result = await play(t, cast, { maxRounds: 2 })
    t.equal(result.success, true)
    t.equal(cast.con.heard.length, 4, 'twice a round')
    t.match(cast.judge.heard[0]?.content, /## con, round 1 \(.*\)\n\nNo\.\n\n\(without evidence\)/)
    t.match(cast.judge.heard[0]?.structuredData, {
      debate: [{ evidence: ['a study'] }, { agent: 'con', evidence: [] }, {}, { evidence: [] }],
    })
    t.same(
      decisions(result).filter((decision) => decision.includes('evidence')),
      ['Does "con" give evidence in round 1? no', 'Does "con" give evidence in round 2? no'],
    )
  }
})

t.test('evidence that is null is none, and one text alone is a list of one', async (t) => {
  const pro = speaks({ argument: 'Yes.', evidence: 'a study' })
  const con = speaks({ argument: 'No.', evidence: null })
  const judge = judging()
  const result = await play(t, { pro, con, judge })
  t.equal(result.success, true)
  t.same([pro.heard.length, con.heard.length], [1, 2])
  t.match(judge.heard[0]?.structuredData, {
    debate: [
      { agent: 'pro', argument: 'Yes.', evidence: ['a study'] },
      { agent: 'con', argument: 'No.', evidence: [] },
    ],
  })
})

t.test('a debater of code is told no more than who argued what', async (t) => {
  const judge = judging()
  await play(t, { pro: yes(), con: speaks('No.'), judge })
  const { debate = [] } = Object(judge.heard[0]?.structuredData) as { debate?: object[] }
  t.equal(debate.length, 2)
  for (const argument of debate)
    t.same(Object.keys(argument).sort(), ['agent', 'argument', 'evidence', 'position', 'round'])
})

t.test('an argument that was sent back stands when its debater fails over that', async (t) => {
  const con = speaks(backed('No.'), new Error('no more'))
  const result = await play(t, { pro: yes(), con, judge: judging() })
  t.equal(result.finalOutput, 'No is right.')
  t.match(result.failures, [{ agent: 'con', error: { code: 'AGENT_FAILED' } }])
})

t.test('requireEvidence: false takes the words as they are', async (t) => {
  const cast = { pro: speaks('Yes.'), con: speaks({ stance: 'no' }), judge: judging() }
  await play(t, cast, { requireEvidence: false })
  t.notMatch(cast.pro.heard[0]?.content, /evidence/i)
  t.match(cast.judge.heard[0]?.content, /Yes\.\n\n## con, round 1 \(.*\)\n\n\{"stance":"no"\}$/)
  t.notMatch(cast.judge.heard[0]?.content, /without evidence\)/)
})

t.test('judgeCriteria are what the judge is told to weigh', async (t) => {
  const judge = judging()
  await play(t, { pro: yes(), con: no(), judge }, { judgeCriteria: ['cost', 'risk'] })
  t.match(judge.heard[0]?.content, /# Criteria\n\n- cost\n- risk\n\n/)
  t.match(judge.heard[0]?.structuredData, { criteria: ['cost', 'risk'] })
})

t.test('a list of no criteria is refused', (t) => {
  const config = { strategy: 'debate' as const, debaters: ['a', 'b'], judge: 'c', judgeCriteria: [] }
  const says = /orchestration\.judgeCriteria: got an empty list; accepted: a list of at least one text/
  t.throws(() => protocolFrom(config, ['a', 'b', 'c']), { code: 'CONFIGURATION', message: says })
  t.end()
})

t.test('a judge that names neither side is asked once more', async (t) => {
  const judge = speaks({ winner: 'both' }, { winner: 'pro' }, 'Yes is right.')
  const result = await play(t, { pro: yes(), con: no(), judge })
  t.match(judge.heard[1]?.content, /Your last answer cannot be used: winner: .*pro.*con/)
  t.equal(result.finalOutput, 'Yes is right.')
})

t.test('a judge that names neither side twice fails the run, and the trace says that nobody has won', async (t) => {
  for (const verdict of ['Both have a point.', { winner: 'judge' }]) {
    const judge = speaks(verdict)
    const result = await play(t, { pro: yes(), con: no(), judge })
    t.match(result, { success: false, error: { code: 'REPLY_INVALID', message: /"judge"/ } })
    t.equal(judge.heard.length, 2)
    t.equal(decisions(result).at(-1), 'Who has won the debate? none')
  }
})

t.test('a judge that fails or refuses fails the run with its error', async (t) => {
  t.match(await play(t, { pro: yes(), con: no(), judge: refuses('biased') }), { error: { code: 'TASK_REFUSED' } })
  t.match(await play(t, { pro: yes(), con: no(), judge: throws() }), { error: { code: 'AGENT_FAILED' } })
})

t.test('a debater that fails is left out, and the others go on while there are two positions', async (t) => {
  const cast = { a: yes(), b: refuses('not me'), c: no(), judge: judging('c') }
  const result = await play(t, cast, { positions: ['x', 'y', 'z'], maxRounds: 2 })
  t.same(asked(result), ['a', 'b', 'c', 'a', 'c', 'judge', 'judge'])
  t.match(result, { success: true, failures: [{ agent: 'b', error: { code: 'TASK_REFUSED' } }] })
  t.ok(decisions(result).includes('Does "b" go on? no'))
})

t.test('a debate with one position left goes to the judge as it stands', async (t) => {
  const con = speaks(backed('No.', 'a count'), new Error('lost its voice'))
  const result = await play(t, { pro: yes(), con, judge: judging() }, { maxRounds: 3 })
  t.same(asked(result), ['pro', 'con', 'pro', 'con', 'judge', 'judge'])
  t.ok(decisions(result).includes('Is there a round 3? no'))
  t.equal(result.finalOutput, 'No is right.')
})

t.test('where nobody argued against it a position wins without a verdict', async (t) => {
  const judge = speaks('Yes, unopposed.')
  const result = await play(t, { pro: yes(), con: throws(), judge }, { maxRounds: 3 })
  t.equal(result.finalOutput, 'Yes, unopposed.')
  t.same(asked(result), ['pro', 'con', 'judge'])
  t.equal(decisions(result).at(-1), 'Who has won the debate? pro')
  t.match(reasons(result).at(-1), /Nobody argued for another position/)
})

t.test('when no debater says anything the run fails, and names why', async (t) => {
  const result = await play(t, { pro: refuses(), con: throws('dumb'), judge: judging() })
  t.match(result.error, { code: 'AGENT_FAILED', message: /1 of 2 agents had to answer, 0 did\..*not mine.*dumb/ })
})

t.test('the end of the run is no failure of who had the word', async (t) => {
  const names = ['pro', 'con', 'judge']
  const config: DebateConfig = { strategy: 'debate', debaters: ['pro', 'con'], judge: 'judge' }
  const { error, reason, decisions } = await endedMeanwhile(protocolFrom(config, names), names)
  t.equal(error, reason)
  t.notOk(decisions.some(({ question }) => question.includes('go on')))
})

t.test('prompts replaces the texts by their names', async (t) => {
  const cast = { pro: yes(), con: no(), judge: judging() }
  await play(t, cast, { prompts: { argue: 'Fight for {position}!', for: 'yes', answer: 'Winner: {winner}.' } })
  t.match(cast.pro.heard[0]?.content, /^Fight for yes!/)
  t.equal(cast.judge.heard[1]?.content, 'Winner: con.')
})

const debate = {
  strategy: 'debate' as const,
  debaters: ['advocate' as const, 'critic' as const],
  judge: 'judge' as const,
}
const roles = [
  { name: 'advocate', systemPrompt: 'Argue for the proposition.' },
  { name: 'critic', systemPrompt: 'Argue against it.' },
  { name: 'judge', systemPrompt: 'Weigh the evidence and decide.' },
] as const

t.test('models argue and judge in schemas, and the judge answers in its own words', async (t) => {
  const model = scriptedModel([
    { agent: 'advocate', reply: backed('It is faster.', 'a benchmark') },
    { agent: 'critic', when: /It is faster[\s\S]*a benchmark/, reply: backed('It is new.', 'the changelog') },
    { agent: 'judge', when: /the changelog/, reply: { winner: 'critic', reasons: 'It is new.' } },
    { agent: 'judge', when: /^critic has won/, reply: 'The critic is right: stay.' },
  ])
  const team = testTeam({ agents: [...roles], orchestration: { ...debate, maxRounds: 1 } }, { model })
  t.teardown(() => team.close())
  t.match(await team.execute('Migrate?'), { success: true, finalOutput: 'The critic is right: stay.' })
  model.assertDone()
})

t.test('it runs without a key, and the answer names who has won', async (t) => {
  const orchestration = { ...debate, requireEvidence: true }
  const team = testTeam({ agents: [...roles], orchestration }, { model: rehearsalModel() })
  t.teardown(() => team.close())
  const result = await team.execute('Should we migrate from REST to GraphQL?')
  t.match(result, {
    success: true,
    finalOutput: /^\[rehearsal\] judge was asked "(advocate|critic) has won/,
    failures: [],
  })
})

t.test('a configuration that cannot work is refused with its path', async (t) => {
  const wrong: [Config, string][] = [
    [{ debaters: ['a'] }, 'debaters'],
    [{ debaters: [] }, 'debaters'],
    [{ debaters: ['a', 'zoe'] }, 'debaters[1]'],
    [{ debaters: ['a', 'judge'] }, 'judge'],
    [{ judge: 'zoe' }, 'judge'],
    [{ positions: ['x'] }, 'positions'],
    [{ positions: ['x', 'x'] }, 'positions'],
    [{ positions: ['x', 'y', 'z'] }, 'positions'],
    [{ positions: ['x', ''] }, 'positions[1]'],
    [{ maxRounds: 0 }, 'maxRounds'],
    [{ judgeCriteria: [' '] }, 'judgeCriteria[0]'],
    [{ prompts: { argue: '{winner}' } }, 'prompts.argue'],
  ]
  const cast = { a: says('x'), b: says('y'), judge: says('z') }
  const config: DebateConfig = { strategy: 'debate', debaters: ['a', 'b'], judge: 'judge' }
  for (const [other, path] of wrong)
    t.throws(
      () => stage<string>(t, cast, { orchestration: { ...config, ...other } }),
      { code: 'CONFIGURATION', details: { path: `orchestration.${path}` } },
      path,
    )
})
