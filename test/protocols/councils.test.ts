/** Consensus and debate: agents that seek one answer together. */
import t from 'tap'
import { type AgentDefinition, defineAgent, type MultiAgentResult } from '../../src/index.ts'
import { protocolFrom } from '../../src/protocols/index.ts'
import type { ConsensusConfig, DebateConfig } from '../../src/protocols.ts'
import { rehearsalModel, scriptedModel, testTeam } from '../../src/testing.ts'
import { type Cast, type Options, refuses, says, stage, type Test, throws } from '../team/stage.ts'
import { asked } from './contributors.ts'
import { decisions, endedMeanwhile, reasons, speaks } from './speakers.ts'

type Config = Omit<ConsensusConfig, 'strategy'>

async function play(t: Test, cast: Cast<string>, config: Config = {}, options: Options<string> = {}) {
  const team = stage(t, cast, { ...options, orchestration: { strategy: 'consensus', ...config } })
  const pending = team.execute('Which port?')
  await team.clock.advance(1_000_000)
  return pending
}

/** Answers once, and fails from then on. */
const once = (said: string) => speaks(said, new Error('tired'))

const vote = (options: Config = {}): Config => ({ consensusMethod: 'vote', ...options })

t.test('agents that agree at once are asked once, whatever the order of their keys', async (t) => {
  const result = await play(t, { a: speaks({ x: 1, y: 2 }), b: speaks({ y: 2, x: 1 }), c: speaks({ x: 1, y: 2 }) })
  t.equal(result.finalOutput, '{"x":1,"y":2}')
  t.same(asked(result), ['a', 'b', 'c'])
  t.same(decisions(result), ['Do their first answers agree? yes'])
  t.match(reasons(result), ['a, b, c. The most: 3 of a weight of 3; 0.67 of it is needed.'])
})

t.test('vote: each gets the answers as a numbered list, and the one with enough votes wins', async (t) => {
  const a = speaks('80', { choice: 2 })
  const result = await play(t, { a, b: speaks('443', { choice: 2 }), c: speaks('8080', { choice: 2 }) }, vote())
  t.equal(result.finalOutput, '443')
  t.same(asked(result), ['a', 'b', 'c', 'a', 'b', 'c'])
  t.match(a.heard[1]?.content, /Which port\?[\s\S]*## 1 \(a\)\n\n80\n\n## 2 \(b\)\n\n443\n\n## 3 \(c\)\n\n8080/)
  t.match(a.heard[1]?.structuredData, {
    query: 'Which port?',
    round: 1,
    positions: [
      { number: 1, agents: ['a'], content: '80' },
      { number: 2, agents: ['b'], content: '443', structuredData: null },
      { number: 3, agents: ['c'], content: '8080' },
    ],
  })
  t.same(decisions(result), ['Do their first answers agree? no', 'Do they agree after round 1? yes'])
})

t.test('vote: what nobody voted for is not on the next list', async (t) => {
  const a = speaks('80', { choice: 2 }, { choice: 1 })
  const cast = { a, b: speaks('443', { choice: 3 }, { choice: 1 }), c: speaks('8080', { choice: 3 }, { choice: 1 }) }
  const result = await play(t, cast, vote())
  t.match(a.heard[2]?.structuredData, {
    positions: [
      { number: 1, agents: ['a'], content: '443' },
      { number: 2, agents: ['b', 'c'], content: '8080' },
    ],
  })
  t.equal(result.finalOutput, '443')
  t.match(reasons(result)[1], 'a | b, c. The most: 2 of a weight of 3; 0.67 of it is needed.')
})

t.test('vote: a vote for what is not on the list is sent back, then refused and never counted', async (t) => {
  const c = speaks('8080', { choice: 7 }, { choice: 'b' }, { choice: 2 })
  const cast = { a: speaks('80', { choice: 2 }), b: speaks('443', { choice: 2 }), c }
  const result = await play(t, cast, vote({ consensusThreshold: 0.9 }))
  t.match(c.heard[2]?.content, /Your last answer cannot be used: choice: .*3/)
  t.same(decisions(result), [
    'Do their first answers agree? no',
    'Does the vote of "c" count? no',
    'Do they agree after round 1? no',
    'Do they agree after round 2? yes',
  ])
  t.match(reasons(result)[2], 'a, b; behind none: c. The most: 2 of a weight of 3; 0.9 of it is needed.')
  t.equal(result.finalOutput, '443')
})

t.test('the weights of the roles count, and one that is null makes it one vote each', async (t) => {
  const cast = (weight: number | null) => ({
    a: { code: speaks('80'), weight: 3 },
    b: { code: speaks('443'), weight },
    c: speaks('443'),
  })
  const heavy = await play(t, cast(0.25), vote({ consensusThreshold: 0.6 }))
  t.match({ ...heavy, why: reasons(heavy) }, { finalOutput: '80', why: [/The most: 3 of a weight of 4.25/] })
  const even = await play(t, cast(null), vote({ consensusThreshold: 0.6 }))
  t.match({ ...even, why: reasons(even) }, { finalOutput: '443', why: [/The most: 2 of a weight of 3/] })
})

t.test('consensusThreshold is 0.67: two of three are not enough, three of four are', async (t) => {
  const two = await play(t, { a: speaks('80'), b: speaks('80'), c: speaks('443') }, vote({ maxRounds: 1 }))
  t.equal(decisions(two)[0], 'Do their first answers agree? no')
  const three = { a: speaks('80'), b: speaks('80'), c: speaks('443'), d: speaks('80') }
  t.equal((await play(t, three)).finalOutput, '80')
})

t.test('a share that is just the threshold is enough, a tie is not', async (t) => {
  const cast = () => ({ a: { code: speaks('80'), weight: 0.1 + 0.2 }, b: { code: speaks('443'), weight: 0.1 } })
  t.equal((await play(t, cast(), vote({ consensusThreshold: 0.75 }))).finalOutput, '80')
  const even = await play(t, { a: speaks('80'), b: speaks('443') }, vote({ consensusThreshold: 0.5, maxRounds: 1 }))
  t.match(reasons(even)[0], /1 of a weight of 2, a tie; 0.5/)
  t.match(even.error, { code: 'CONSENSUS' })
})

t.test('requireUnanimous: all have to agree, however light the last of them is', async (t) => {
  const cast = { a: { code: speaks('80'), weight: 9 }, b: { code: speaks('443', { choice: 1 }), weight: 0 } }
  const result = await play(t, { ...cast, c: speaks('80', { choice: 1 }) }, vote({ requireUnanimous: true }))
  t.equal(decisions(result)[0], 'Do their first answers agree? no')
  t.match(reasons(result)[0], /all are needed/)
})

t.test('maxRounds bounds how often they are asked; it is 3', async (t) => {
  const stubborn = () => ({ a: speaks('80', { choice: 1 }), b: speaks('443', { choice: 2 }) })
  const three = await play(t, stubborn(), vote())
  t.equal(asked(three).length, 8)
  t.equal(asked(await play(t, stubborn(), vote({ maxRounds: 1 }))).length, 4)
})

t.test('without agreement and tie-breaker the run fails, and the error has the positions', async (t) => {
  const cast = { a: speaks('80', { choice: 1 }), b: speaks({ port: 443 }, { choice: 2 }) }
  const { error, failures } = await play(t, cast, vote({ maxRounds: 2 }))
  t.match(error, {
    code: 'CONSENSUS',
    message: /did not agree within 2 rounds \(a \| b\)\. Set tieBreaker/,
    details: {
      rounds: 2,
      positions: [
        { agents: ['a'], content: '80' },
        { agents: ['b'], structuredData: { port: 443 } },
      ],
    },
  })
  t.same(failures, [])
})

t.test('where nobody who takes part has weight there are no rounds, and the error says why', async (t) => {
  const light = () => ({
    a: { code: speaks('80'), weight: 0 },
    b: { code: speaks('80'), weight: 0 },
    chair: speaks({ choice: 1 }),
  })
  const result = await play(t, light(), vote({ agents: ['a', 'b'] }))
  t.same(asked(result), ['a', 'b'])
  t.match(result.error, {
    code: 'CONSENSUS',
    message: /^The agents cannot agree \(a, b\): .*weight.* requireUnanimous/,
    details: { rounds: 0, positions: [{ content: '80' }] },
  })
  t.equal((await play(t, light(), vote({ tieBreaker: 'chair' }))).finalOutput, '80')
  t.equal((await play(t, light(), vote({ agents: ['a', 'b'], requireUnanimous: true }))).finalOutput, '80')
})

t.test('one round is one round', async (t) => {
  const cast = { a: speaks('80', { choice: 1 }), b: speaks('443', { choice: 2 }) }
  t.match((await play(t, cast, vote({ maxRounds: 1 }))).error, { message: /within 1 round \(/ })
})

t.test('the tie-breaker takes no part, and chooses from what is left when the rounds are over', async (t) => {
  const chair = speaks({ choice: 2, reasons: 'It is encrypted.' })
  const cast = { a: speaks('80', { choice: 1 }), chair, b: speaks('443', { choice: 2 }) }
  const result = await play(t, cast, vote({ tieBreaker: 'chair', maxRounds: 1 }))
  t.equal(result.finalOutput, '443')
  t.same(asked(result), ['a', 'b', 'a', 'b', 'chair'])
  t.match(chair.heard[0]?.content, /Which port\?[\s\S]*## 2 \(b\)\n\n443/)
  t.equal(decisions(result).at(-1), 'They do not agree: which answer counts? b')
  t.equal(reasons(result).at(-1), 'The tie-breaker "chair" chose it: It is encrypted.')
})

t.test('a tie-breaker among the agents takes part too', async (t) => {
  const b = speaks('443', { choice: 2 }, { choice: 1 })
  const result = await play(
    t,
    { a: speaks('80', { choice: 1 }), b },
    vote({ agents: ['a', 'b'], tieBreaker: 'b', maxRounds: 1 }),
  )
  t.same(asked(result), ['a', 'b', 'a', 'b', 'b'])
  t.equal(result.finalOutput, '80')
})

t.test('a tie-breaker that chooses nothing on the list, or fails, ends the run with the positions', async (t) => {
  for (const [chair, cause] of [
    [speaks({ choice: 3 }), /REPLY_INVALID|cannot be used/],
    [refuses('not my trade'), /not my trade/],
  ] as const) {
    const cast = { a: speaks('80', { choice: 1 }), b: speaks('443', { choice: 2 }), chair }
    const result = await play(t, cast, vote({ tieBreaker: 'chair', maxRounds: 1 }))
    t.match(result.error, { code: 'CONSENSUS', details: { positions: [{ content: '80' }, { content: '443' }] } })
    t.equal(decisions(result).at(-1), 'They do not agree: which answer counts? none')
    t.match(reasons(result).at(-1), cause)
  }
})

t.test('discussion: each sees what the others hold and why, and may take it over', async (t) => {
  const a = speaks('80', { agreesWith: 'a', reasons: 'It is the oldest.' }, { agreesWith: 'b' })
  const b = speaks('443', { answer: { port: 443 }, reasons: 'It is encrypted.' }, { agreesWith: 'b' })
  const result = await play(t, { a, b })
  t.equal(result.finalOutput, '{"port":443}')
  t.match(b.heard[1]?.content, /## a\n\n80\n\n## b\n\n443/)
  t.match(
    a.heard[2]?.content,
    /## a\n\n80\n\nReasons: It is the oldest\.\n\n## b\n\n\{"port":443\}\n\nReasons: It is enc/,
  )
  t.match(a.heard[2]?.structuredData, {
    round: 2,
    positions: [
      { agent: 'a', content: '80', structuredData: null, reasons: 'It is the oldest.' },
      { agent: 'b', content: '{"port":443}', structuredData: { port: 443 } },
    ],
  })
  t.same(decisions(result).slice(1), ['Do they agree after round 1? no', 'Do they agree after round 2? yes'])
})

t.test('discussion: those who take each other’s position change places, as each saw it', async (t) => {
  const cast = { a: speaks('80', { agreesWith: 'b' }), b: speaks('443', { agreesWith: 'a' }) }
  const { error } = await play(t, cast, { maxRounds: 1 })
  t.match(error?.details, {
    positions: [
      { agents: ['a'], content: '443' },
      { agents: ['b'], content: '80' },
    ],
  })
})

t.test('discussion: an answer that says nothing, or names nobody here, is sent back and does not count', async (t) => {
  const c = speaks('8080', {}, { agreesWith: 'zoe' }, { agreesWith: 'a' })
  const cast = { a: speaks('80', { agreesWith: 'a' }), b: speaks('80', { agreesWith: 'a' }), c }
  const result = await play(t, cast)
  t.match(c.heard[2]?.content, /either agreesWith or answer is needed/)
  t.same(decisions(result).slice(1), [
    'Does the vote of "c" count? no',
    'Do they agree after round 1? no',
    'Do they agree after round 2? yes',
  ])
})

t.test('synthesis: the member with the highest priority writes until enough accept', async (t) => {
  const a = speaks('80', { accept: true })
  const b = { code: speaks('443', 'both', '443, and 80 redirects'), priority: 5 }
  const c = speaks('8080', { accept: false, objection: '80 is open.' }, { accept: true })
  const result = await play(t, { a, b, c }, { consensusMethod: 'synthesis' })
  t.equal(result.finalOutput, '443, and 80 redirects')
  t.same(asked(result), ['a', 'b', 'c', 'b', 'a', 'c', 'b', 'a', 'c'])
  t.match(b.code.heard[1]?.content, /## 1 \(a\)\n\n80[\s\S]*There is none yet/)
  t.match(b.code.heard[2]?.content, /- c: 80 is open\./)
  t.match(b.code.heard[2]?.structuredData, { round: 2, objections: [{ agent: 'c', objection: '80 is open.' }] })
  t.match(a.heard[1]?.content, /# Answer\n\nboth/)
  t.same(decisions(result), [
    'Do their first answers agree? no',
    'Round 1: who writes the text? b',
    'Do they agree after round 1? no',
    'Round 2: who writes the text? b',
    'Do they agree after round 2? yes',
  ])
})

t.test('synthesis: the tie-breaker writes, has no vote, and chooses from its last text and the answers', async (t) => {
  const chair = speaks('both', { choice: 1 })
  const object = { accept: false }
  const cast = { a: speaks('80', object), b: speaks('443', object), chair }
  const result = await play(t, cast, { consensusMethod: 'synthesis', tieBreaker: 'chair', maxRounds: 1 })
  t.equal(result.finalOutput, 'both')
  t.same(asked(result), ['a', 'b', 'chair', 'a', 'b', 'chair'])
  t.match(reasons(result)[2], /^a \| b\. The most: 1 of a weight of 2, a tie/)
  t.match(chair.heard[1]?.content, /## 1 \(chair\)\n\nboth\n\n## 2 \(a\)\n\n80/)
})

t.test('synthesis: when the writer fails the next one writes', async (t) => {
  const b = { code: once('443'), priority: 5 }
  const cast = { a: speaks('80', 'both'), b, c: speaks('8080', { accept: true }) }
  const result = await play(t, cast, { consensusMethod: 'synthesis' })
  t.equal(result.finalOutput, 'both')
  t.same(decisions(result).slice(1, 4), [
    'Round 1: who writes the text? b',
    'Does "b" take part? no',
    'Round 1: who writes the text? a',
  ])
})

t.test('who fails, refuses or is late takes part no more, and is in failures', async (t) => {
  const late = defineAgent({
    async receive(_message, context) {
      await context.sleep(1_000)
      return '80'
    },
  })
  const cast = {
    a: speaks('80', { choice: 1 }),
    b: speaks('443', { choice: 1 }),
    c: throws(),
    d: refuses(),
    e: { code: late, communication: { responseTimeoutMs: 100 } },
    f: once('8080'),
  }
  const result = await play(t, cast, vote())
  t.equal(result.finalOutput, '80')
  t.same(result.failures.map(({ agent, error }) => `${agent} ${error.code}`).sort(), [
    'c AGENT_FAILED',
    'd TASK_REFUSED',
    'e REQUEST_TIMEOUT',
    'f AGENT_FAILED',
  ])
  t.same(
    decisions(result).slice(0, 3),
    ['c', 'd', 'e'].map((name) => `Does "${name}" take part? no`),
  )
  t.match(reasons(result).at(-1), 'a, b. The most: 2 of a weight of 2')
})

t.test('with fewer than two left the run fails, and says why', async (t) => {
  const alone = await play(t, { a: speaks('80'), b: throws('no idea'), c: refuses() })
  t.match(alone.error, { code: 'AGENT_FAILED', message: /^2 of 3 agents had to answer, 1 did\..*no idea/ })
  const later = await play(t, { a: speaks('80'), b: once('443') }, vote())
  t.match(later.error, { code: 'AGENT_FAILED', message: /tired/ })
  const nobody = await play(t, { a: refuses(), b: refuses() })
  t.match(nobody.error, { code: 'AGENT_FAILED', message: /0 did\. "a": TASK_REFUSED: .*not mine; "b"/ })
})

t.test('the end of the run is no failure of who was at work', async (t) => {
  const names = ['a', 'b']
  const { error, reason, decisions } = await endedMeanwhile(protocolFrom({ strategy: 'consensus' }, names), names)
  t.equal(error, reason)
  t.same(decisions, [])
})

t.test('prompts replaces the texts by their names', async (t) => {
  const a = speaks('80', { choice: 1 })
  const cast = { a, b: speaks('443', { choice: 1 }) }
  await play(t, cast, vote({ prompts: { vote: 'Pick one:\n{positions}' } }))
  t.match(a.heard[1]?.content, /^Pick one:\n## 1 \(a\)/)
})

t.test('models vote in a schema, and the answer is one of theirs', async (t) => {
  const model = scriptedModel([
    { agent: 'a', reply: 'Port 80.' },
    { agent: 'b', reply: 'Port 443.' },
    { agent: 'a', when: 'Vote for one', reply: { choice: 2 } },
    { agent: 'b', when: 'Vote for one', reply: { choice: 2 } },
  ])
  const orchestration = { strategy: 'consensus' as const, consensusMethod: 'vote' as const }
  const team = testTeam({ agents: [{ name: 'a' }, { name: 'b' }], orchestration }, { model })
  t.teardown(() => team.close())
  t.equal((await team.execute('Which port?')).finalOutput, 'Port 443.')
  model.assertDone()
})

t.test('a configuration that cannot work is refused with its path', async (t) => {
  const wrong: [Config, string][] = [
    [{ agents: ['a'] }, 'agents'],
    [{ tieBreaker: 'a' }, 'agents'],
    [{ consensusThreshold: 0 }, 'consensusThreshold'],
    [{ consensusThreshold: 1.1 }, 'consensusThreshold'],
    [{ consensusThreshold: Number.NaN }, 'consensusThreshold'],
    [{ consensusThreshold: 0.5, requireUnanimous: true }, 'consensusThreshold'],
    [{ maxRounds: 0 }, 'maxRounds'],
    [{ tieBreaker: 'zoe' }, 'tieBreaker'],
    [{ prompts: { shout: 'Agree!' } }, 'prompts.shout'],
    [{ prompts: { vote: '{draft}' } }, 'prompts.vote'],
  ]
  for (const [config, path] of wrong)
    t.throws(
      () => stage<string>(t, { a: says('80'), b: says('80') }, { orchestration: { strategy: 'consensus', ...config } }),
      { code: 'CONFIGURATION', details: { path: `orchestration.${path}` } },
      path,
    )
})

// The protocol debate: each option, and each way in which a run of it can end.

type Debate = Partial<Omit<DebateConfig, 'strategy'>>

const backed = (argument: string, ...evidence: string[]) => ({ argument, evidence })
const yes = () => speaks(backed('Yes.', 'a study'))
const no = () => speaks(backed('No.', 'a count'))
const judging = (winner = 'con', ...words: string[]) =>
  speaks({ winner, reasons: 'It counts.' }, ...words, 'No is right.')

async function debate(
  t: Test,
  cast: Record<string, AgentDefinition>,
  config: Debate = {},
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
  const result = await debate(t, { pro, con, judge })
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
  const { messageHistory } = await debate(t, cast, { requireEvidence: false })
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
  t.same(said(await debate(t, code)), transcript)
  t.same(said(await debate(t, { ...code, pro: yes(), con: own })).at(-1)?.[1], 'My own words.')

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
  const result = await debate(t, { pro, con, judge: judging() }, { maxRounds: undefined })
  t.same(asked(result), ['pro', 'con', 'pro', 'con', 'pro', 'con', 'judge', 'judge'])
  t.match(pro.heard[2]?.content, /round 3 of 3[\s\S]*zwei/)
  t.notMatch(pro.heard[2]?.content, /eins|two/)
  t.equal((await debate(t, { pro: yes(), con: no(), judge: judging() }, { maxRounds: 2 })).messageHistory.length, 14)
})

t.test('positions are argued in turn, and several may share one', async (t) => {
  const cast = { a: yes(), b: no(), c: yes(), judge: judging('c') }
  const result = await debate(t, cast, { positions: ['REST', 'GraphQL'] })
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
  const result = await debate(t, { pro, con: no(), judge: judging() })
  t.match(decisions(result).slice(0, 2), [/"pro" argue\? for the proposition/, /"con" argue\? against the proposition/])
  t.match(reasons(result)[0], /take sides in turn/)
  t.match(pro.heard[0]?.content, /If your role takes another side/)
  const given = yes()
  await debate(t, { pro: given, con: no(), judge: judging() }, { positions: ['x', 'y'] })
  t.notMatch(given.heard[0]?.content, /If your role takes another side/)
})

t.test('an argument without evidence is sent back once, and is as good as another if it comes with some', async (t) => {
  const con = speaks(backed('No.', ' '), backed('No, by this:', 'a count'))
  const result = await debate(t, { pro: yes(), con, judge: judging() })
  t.match(con.heard[1]?.content, /Migrate\?[\s\S]*came without evidence/)
  t.equal(con.heard.length, 2)
  t.notOk(decisions(result).some((decision) => decision.includes('give evidence')))
})

t.test('a debater that never gives evidence is heard, and the judge is told', async (t) => {
  for (const line of [backed('No.'), 'No.', { argument: 'No.' }]) {
    const cast = { pro: yes(), con: speaks(line), judge: judging() }
    const result = await debate(t, cast, { maxRounds: 2 })
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
  const result = await debate(t, { pro, con, judge })
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
  await debate(t, { pro: yes(), con: speaks('No.'), judge })
  const { debate: heard = [] } = Object(judge.heard[0]?.structuredData) as { debate?: object[] }
  t.equal(heard.length, 2)
  for (const argument of heard)
    t.same(Object.keys(argument).sort(), ['agent', 'argument', 'evidence', 'position', 'round'])
})

t.test('an argument that was sent back stands when its debater fails over that', async (t) => {
  const con = speaks(backed('No.'), new Error('no more'))
  const result = await debate(t, { pro: yes(), con, judge: judging() })
  t.equal(result.finalOutput, 'No is right.')
  t.match(result.failures, [{ agent: 'con', error: { code: 'AGENT_FAILED' } }])
})

t.test('requireEvidence: false takes the words as they are', async (t) => {
  const cast = { pro: speaks('Yes.'), con: speaks({ stance: 'no' }), judge: judging() }
  await debate(t, cast, { requireEvidence: false })
  t.notMatch(cast.pro.heard[0]?.content, /evidence/i)
  t.match(cast.judge.heard[0]?.content, /Yes\.\n\n## con, round 1 \(.*\)\n\n\{"stance":"no"\}$/)
  t.notMatch(cast.judge.heard[0]?.content, /without evidence\)/)
})

t.test('judgeCriteria are what the judge is told to weigh', async (t) => {
  const judge = judging()
  await debate(t, { pro: yes(), con: no(), judge }, { judgeCriteria: ['cost', 'risk'] })
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
  const result = await debate(t, { pro: yes(), con: no(), judge })
  t.match(judge.heard[1]?.content, /Your last answer cannot be used: winner: .*pro.*con/)
  t.equal(result.finalOutput, 'Yes is right.')
})

t.test('a judge that names neither side twice fails the run, and the trace says that nobody has won', async (t) => {
  for (const verdict of ['Both have a point.', { winner: 'judge' }]) {
    const judge = speaks(verdict)
    const result = await debate(t, { pro: yes(), con: no(), judge })
    t.match(result, { success: false, error: { code: 'REPLY_INVALID', message: /"judge"/ } })
    t.equal(judge.heard.length, 2)
    t.equal(decisions(result).at(-1), 'Who has won the debate? none')
  }
})

t.test('a judge that fails or refuses fails the run with its error', async (t) => {
  t.match(await debate(t, { pro: yes(), con: no(), judge: refuses('biased') }), { error: { code: 'TASK_REFUSED' } })
  t.match(await debate(t, { pro: yes(), con: no(), judge: throws() }), { error: { code: 'AGENT_FAILED' } })
})

t.test('a debater that fails is left out, and the others go on while there are two positions', async (t) => {
  const cast = { a: yes(), b: refuses('not me'), c: no(), judge: judging('c') }
  const result = await debate(t, cast, { positions: ['x', 'y', 'z'], maxRounds: 2 })
  t.same(asked(result), ['a', 'b', 'c', 'a', 'c', 'judge', 'judge'])
  t.match(result, { success: true, failures: [{ agent: 'b', error: { code: 'TASK_REFUSED' } }] })
  t.ok(decisions(result).includes('Does "b" go on? no'))
})

t.test('a debate with one position left goes to the judge as it stands', async (t) => {
  const con = speaks(backed('No.', 'a count'), new Error('lost its voice'))
  const result = await debate(t, { pro: yes(), con, judge: judging() }, { maxRounds: 3 })
  t.same(asked(result), ['pro', 'con', 'pro', 'con', 'judge', 'judge'])
  t.ok(decisions(result).includes('Is there a round 3? no'))
  t.equal(result.finalOutput, 'No is right.')
})

t.test('where nobody argued against it a position wins without a verdict', async (t) => {
  const judge = speaks('Yes, unopposed.')
  const result = await debate(t, { pro: yes(), con: throws(), judge }, { maxRounds: 3 })
  t.equal(result.finalOutput, 'Yes, unopposed.')
  t.same(asked(result), ['pro', 'con', 'judge'])
  t.equal(decisions(result).at(-1), 'Who has won the debate? pro')
  t.match(reasons(result).at(-1), /Nobody argued for another position/)
})

t.test('when no debater says anything the run fails, and names why', async (t) => {
  const result = await debate(t, { pro: refuses(), con: throws('dumb'), judge: judging() })
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
  await debate(t, cast, { prompts: { argue: 'Fight for {position}!', for: 'yes', answer: 'Winner: {winner}.' } })
  t.match(cast.pro.heard[0]?.content, /^Fight for yes!/)
  t.equal(cast.judge.heard[1]?.content, 'Winner: con.')
})

const advocates = {
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
  const team = testTeam({ agents: [...roles], orchestration: { ...advocates, maxRounds: 1 } }, { model })
  t.teardown(() => team.close())
  t.match(await team.execute('Migrate?'), { success: true, finalOutput: 'The critic is right: stay.' })
  model.assertDone()
})

t.test('it runs without a key, and the answer names who has won', async (t) => {
  const orchestration = { ...advocates, requireEvidence: true }
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
  const wrong: [Debate, string][] = [
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
