/** The protocol consensus: each method, each option, and each way in which a run of it can end. */
import t from 'tap'
import { defineAgent } from '../../src/index.ts'
import { protocolFrom } from '../../src/protocols/index.ts'
import type { ConsensusConfig } from '../../src/protocols.ts'
import { scriptedModel, testTeam } from '../../src/testing.ts'
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
