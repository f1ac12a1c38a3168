/** Answers that contradict each other, and votes: found, told, counted and settled. */

import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import { vote } from '../../src/actors/model/decisions.ts'
import { type AgentDefinition, type AgentMessage, defineAgent, type OrchestrationConfig } from '../../src/index.ts'
import { differencesIn } from '../../src/protocols/conflicts.ts'
import { protocolFrom } from '../../src/protocols/index.ts'
import { agreementOn } from '../../src/protocols/positions.ts'
import type { ConsensusConfig, ParallelConfig } from '../../src/protocols.ts'
import { ConsensusError } from '../../src/shared/errors.ts'
import { scriptedModel, testTeam } from '../../src/testing.ts'
import { Dice } from '../dice.ts'
import { FakeOrchestrator, type Part } from '../fixtures/fake-orchestrator.ts'
import { howMany } from '../how-many.ts'
import { pluck } from '../kit/lists.ts'
import { type Cast, type Options, says, stage, type Test } from '../team/stage.ts'

// Answers that contradict each other, resolved by what they rest on.

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

// Contradictions between answers that are combined: found, told, marked, recorded and settled.

/** Answers with data or words; under `low` autonomy it first says how it would work. */
const contradictionsFinds = (reply: unknown): AgentDefinition =>
  defineAgent({ receive: () => (typeof reply === 'string' ? reply : { structuredData: reply }) })

/** Plans or splits, and combines what the others found. It keeps what it was told at the end. */
function leads(plan: object): AgentDefinition & { told: AgentMessage[] } {
  const told: AgentMessage[] = []
  const definition = defineAgent({
    receive(message) {
      if (told.push(message) === 1) return { structuredData: plan }
      if (message.content.startsWith('Which statements')) return { structuredData: { contradictions: [] } }
      return 'one answer'
    },
  })
  return Object.assign(definition, { told })
}

async function contradictionsPlay(
  t: Test,
  cast: Cast<string>,
  orchestration: OrchestrationConfig<string>,
  options: Options<string> = {},
) {
  const team = stage<string>(t, cast, { ...options, orchestration })
  const pending = team.execute('Which port?')
  await team.clock.advance(100_000)
  const result = await pending
  const decided = result.orchestrationTrace.decisions.filter(({ question }) => question.startsWith('They contradict'))
  return { ...result, decided: decided.map(({ question, choice }) => `${question} ${choice}`) }
}

const OPEN = 'They contradict each other about "port": what holds? open'
const LIST = '## Contradictions\n\n- "port": 443 (a); 80 (b)'
const [a, b] = [contradictionsFinds({ port: 443, host: 'x' }), contradictionsFinds({ port: 80, host: 'x' })]

t.test('wherever answers are combined, contradictions are found, told, marked and in the trace', async (t) => {
  const workers = ['a', 'b']
  const planned = {
    tasks: [
      { worker: 'a', task: 'look' },
      { worker: 'b', task: 'look' },
    ],
  }
  const split = {
    tasks: [
      { agent: 'a', task: 'look' },
      { agent: 'b', task: 'look' },
    ],
    reasoning: '',
  }
  const told: [OrchestrationConfig<string>, plan: object][] = [
    [{ strategy: 'supervisor', supervisor: 'lead', experts: workers }, split],
    [{ strategy: 'supervisor', supervisor: 'other', experts: workers, aggregator: 'lead', flow: 'graph' }, {}],
    [{ strategy: 'hierarchical', manager: 'lead', workers, workerAutonomy: 'high' }, planned],
    [{ strategy: 'collaborate', decomposer: false, aggregation: 'synthesize', synthesizer: 'lead' }, {}],
    [{ strategy: 'parallel', aggregationStrategy: 'custom', aggregator: 'lead', agents: workers }, {}],
  ]
  for (const [orchestration, plan] of told) {
    const lead = leads(plan)
    const cast: Cast<string> =
      orchestration.strategy === 'supervisor' && orchestration.flow ? { a, b, lead, other: a } : { a, b, lead }
    const result = await contradictionsPlay(t, cast, orchestration)
    const { strategy } = orchestration
    t.same(result.decided, [OPEN], strategy)
    const last = lead.told.at(-1)
    t.ok(last?.content.includes(LIST), strategy)
    const data = { ...Object(last?.structuredData), ...Object(last?.metadata.hierarchical) }
    t.match(data.contradictions, [
      { about: '"port"', claims: [{ value: 443, agents: ['a'] }, { value: 80 }], holds: null },
    ])
  }
  const marked: [OrchestrationConfig<string>, plan: object, decided: string, list: string][] = [
    [
      { strategy: 'hierarchical', manager: 'lead', workers, workerAutonomy: 'high', managerSummarizes: false },
      planned,
      OPEN,
      LIST,
    ],
    [{ strategy: 'collaborate', decomposer: false, aggregation: 'join', teammates: workers }, {}, OPEN, LIST],
    [{ strategy: 'parallel', agents: workers }, {}, OPEN.replace('open', '443'), `${LIST}; what holds: 443`],
  ]
  for (const [orchestration, plan, decided, list] of marked) {
    const result = await contradictionsPlay(t, { a, b, lead: leads(plan) }, orchestration)
    t.same(result.decided, [decided], orchestration.strategy)
    t.ok(result.finalOutput?.endsWith(list), `${orchestration.strategy}: ${result.finalOutput}`)
  }
})

t.test('answers that agree, and what one agent says of several things, are no contradiction', async (t) => {
  const same: [unknown, unknown][] = [
    [{ port: 80 }, { port: 80 }],
    [{ port: 80 }, { host: 'x' }],
    ['The port is 80.', 'The port is 80.'],
    ['The port is 80.', 'Use any host that you like.'],
    [
      { port: 80, references: ['x'] },
      { port: 80, references: ['y'] },
    ],
    ['On day 1 it rains. On day 2 it rains.', 'On day 3 it rains.'],
    ['', {}],
  ]
  for (const [one, other] of same) {
    const result = await contradictionsPlay(
      t,
      { a: contradictionsFinds(one), b: contradictionsFinds(other) },
      { strategy: 'parallel' },
    )
    t.same(result.decided, [])
    t.notMatch(result.finalOutput, /Contradictions/)
  }
})

t.test('conflictResolution says what holds, in a merge and for whoever combines', async (t) => {
  const cast = {
    a,
    b: { code: b, weight: 3, priority: 2 },
    c: { code: contradictionsFinds({ port: 443 }), priority: 1 },
  }
  const rules = { vote: '80', priority: '80', evidence: '80' }
  for (const [rule, holds] of Object.entries(rules)) {
    const conflictResolution = rule as keyof typeof rules
    const merged = await contradictionsPlay(t, cast, { strategy: 'parallel', conflictResolution })
    t.same(merged.decided, [OPEN.replace('open', holds)], rule)
    t.match(merged.finalOutput, new RegExp(`443 \\(a, c\\); 80 \\(b\\); what holds: ${holds}$`), rule)
    const lead = leads({ tasks: ['a', 'b', 'c'].map((worker) => ({ worker, task: 'look' })) })
    const led = { strategy: 'hierarchical', manager: 'lead', workers: ['a', 'b', 'c'], workerAutonomy: 'high' } as const
    const result = await contradictionsPlay(t, { ...cast, lead }, { ...led, conflictResolution })
    t.same(result.decided, [OPEN.replace('open', holds)])
    t.match(lead.told.at(-1)?.content, `what holds: ${holds}`)
  }
  const failed = await contradictionsPlay(t, cast, { strategy: 'parallel', conflictResolution: 'fail' })
  t.match(failed, { success: false, error: { code: 'CONSENSUS', details: { about: '"port"' } } })
  const judged = await contradictionsPlay(
    t,
    { ...cast, lead: contradictionsFinds('one answer') },
    { strategy: 'parallel', judge: 'lead', conflictResolution: 'synthesize' },
  )
  t.match(judged, { finalOutput: 'one answer', decided: [OPEN] })
})

t.test(
  'whoever combines is asked what texts contradict each other about, where conflictResolution is set',
  async (t) => {
    const texts = {
      a: contradictionsFinds('We open at dawn.'),
      b: contradictionsFinds('Nobody is let in before noon.'),
    }
    const asked: string[] = []
    const lead = defineAgent({
      receive({ content }) {
        asked.push(content)
        if (!content.startsWith('Which statements')) return 'one answer'
        const statements = [
          { agent: 'a', statement: 'We open at dawn.' },
          { agent: 'b', statement: 'Nobody is let in before noon.' },
        ]
        return { structuredData: { contradictions: [{ about: 'the hours', statements }] } }
      },
    })
    const graph = {
      strategy: 'supervisor',
      supervisor: 'boss',
      experts: ['a', 'b'],
      aggregator: 'lead',
      flow: 'graph',
    } as const
    const cast = { ...texts, lead, boss: contradictionsFinds('') }
    const silent = await contradictionsPlay(t, cast, graph)
    t.same([silent.decided, asked.length], [[], 1])
    const { decided } = await contradictionsPlay(t, cast, { ...graph, conflictResolution: 'vote' })
    t.same(decided, ['They contradict each other about the hours: what holds? We open at dawn.'])
    t.match(asked.at(-1), /the hours: We open at dawn\. \(a\); Nobody.*\(b\); what holds: We open/)
  },
)

t.test('texts in the same words contradict each other in a number, the last word or a negation', (t) => {
  const pairs: [one: string, other: string, about: string | undefined][] = [
    ['The port is 443.', 'The port is 80.', '"The port is …"'],
    ['Intro. The port is 443, they say.', '- The port is 80, they say', '"The port is … they say"'],
    ['The launch is on Monday.', 'The launch is on Tuesday.', '"The launch is on …"'],
    ['The gate is open.', 'The gate is not open.', '"The gate is open?"'],
    ["It isn't safe to swim.", 'It is safe to swim.', '"It is safe to swim?"'],
    ['Das Tor ist nicht offen.', 'Das Tor ist offen.', '"Das Tor ist offen?"'],
    ['The gate is open.', 'The gate is open.', undefined],
    ['Ann likes tea.', 'Bob likes tea.', undefined],
    ['Yes.', 'No.', undefined],
    ['It costs 5 of 10 coins.', 'It costs 6 of 11 coins.', undefined],
  ]
  for (const [one, other, about] of pairs) {
    const said = (agent: string, text: string) => ({ agent, value: text, text })
    const found = differencesIn([said('a', one), said('b', other)])
    t.same(pluck(found, 'about'), about === undefined ? [] : [about], `${one} ${other}`)
  }
  const long = 'word '.repeat(200_000)
  t.same(
    differencesIn([
      { agent: 'a', value: long, text: long },
      { agent: 'b', value: long, text: long },
    ]),
    [],
  )
  t.end()
})

// Votes and consensus against a count that shares no code with them: values are compared by Node, weights are tenths
// that
// are added up as integers, thresholds are fractions.

interface Voter {
  agent: string
  /** In tenths; undefined: none is given. What is no integer is no usable weight. */
  tenths: number | null | undefined
  weight: number | null | undefined
}
interface BallotsCast {
  voter: Voter
  value: unknown
}

const FRACTIONS = [
  [1, 10],
  [1, 3],
  [1, 2],
  [3, 5],
  [2, 3],
  [67, 100],
  [9, 10],
  [1, 1],
] as const
type Needed = (typeof FRACTIONS)[number] | 'all'

const VALUES = [80, 443, '443', 'yes', true, null, [1, 2], [2, 1], {}, [], { x: 1, y: [{ p: 1, q: null }] }, { x: 2 }]

function votersFrom(dice: Dice): Voter[] {
  const odd = dice.chance(0.15) // some elections have a voter without a usable weight
  return Array.from({ length: 1 + dice.upTo(7) }, (_, i) => {
    const agent = `agent${i}`
    if (odd && dice.chance(0.4))
      return { agent, tenths: null, weight: dice.pick([null, Number.NaN, Infinity, -Infinity]) }
    if (dice.chance(0.3)) return { agent, tenths: undefined, weight: undefined }
    const tenths = dice.pick([0, 1, 2, 3, 5, 7, 10, 20, 33])
    return { agent, tenths, weight: tenths / 10 }
  })
}

/** The same value with its keys in another order. */
function shuffled(value: unknown, dice: Dice): unknown {
  if (Array.isArray(value)) return value.map((item) => shuffled(item, dice))
  if (typeof value !== 'object' || value === null) return value
  const fields = Object.entries(value).map(([key, field]): [string, unknown] => [key, shuffled(field, dice)])
  return Object.fromEntries(dice.chance(0.5) ? fields.reverse() : fields)
}

/** Groups in the order in which their values come, each with its weight in tenths. */
function counted(casts: readonly BallotsCast[]) {
  const byHeads = casts.some(({ voter }) => voter.tenths === null)
  const tenthsOf = ({ tenths }: Voter) => (byHeads ? 10 : (tenths ?? 10))
  const groups: { value: unknown; tenths: number; heads: number }[] = []
  for (const { voter, value } of casts) {
    let group = groups.find((one) => isDeepStrictEqual(one.value, value))
    if (!group) {
      group = { value, tenths: 0, heads: 0 }
      groups.push(group)
    }
    group.tenths += tenthsOf(voter)
    group.heads += 1
  }
  const most = Math.max(-1, ...groups.map(({ tenths }) => tenths))
  const leaders = groups.filter(({ tenths }) => tenths === most)
  return { groups, most, winner: leaders[0]?.value, tied: leaders.length > 1, tenthsOf }
}

function isAgreed(casts: readonly BallotsCast[], abstained: readonly Voter[], needed: Needed): boolean {
  const { groups, most, tied, tenthsOf } = counted(casts)
  if (casts.length === 0 || tied) return false
  if (needed === 'all') return groups.length === 1 && abstained.length === 0
  const total = [...casts.map(({ voter }) => voter), ...abstained].reduce((sum, voter) => sum + tenthsOf(voter), 0)
  return total > 0 && most * needed[1] >= needed[0] * total
}

const near = (a: number, b: number) => Math.abs(a - b) < 1e-6

const ELECTIONS = howMany(2_500, 10_000)

t.test(`${ELECTIONS} elections are counted as the other count does`, async (t) => {
  const seen = { tied: 0, heads: 0, agreed: 0, unanimous: 0 }
  for (let seed = 1; seed <= ELECTIONS; seed++) {
    const dice = new Dice(seed)
    const voters = votersFrom(dice)
    const pool = VALUES.slice(dice.upTo(VALUES.length - 1)).slice(0, 1 + dice.upTo(3))
    const abstained = voters.filter(() => dice.chance(0.1))
    const casts = voters
      .filter((voter) => !abstained.includes(voter))
      .map((voter) => ({ voter, value: shuffled(dice.pick(pool), dice) }))
    const needed: Needed = dice.chance(0.2) ? 'all' : dice.pick(FRACTIONS)
    const ballots = casts.map(({ voter, value }) => ({ agent: voter.agent, value }))
    const weights = Object.fromEntries(voters.map(({ agent, weight }) => [agent, weight]))
    const { groups, most, winner, tied } = counted(casts)

    if (ballots.length > 0) {
      const verdict = vote(ballots, weights)
      const scores = Object.values(verdict.scores).sort((a, b) => a - b)
      const others = groups.map(({ tenths }) => tenths / 10).sort((a, b) => a - b)
      const same =
        isDeepStrictEqual(verdict.winner, winner) &&
        verdict.tied === tied &&
        scores.length === others.length &&
        scores.every((score, i) => near(score, others[i] ?? Number.NaN))
      if (!same) t.fail(`election ${seed}: ${JSON.stringify({ verdict, groups })}`)
    }
    const roster = voters.map(({ agent, weight }) => ({
      name: agent,
      status: 'idle' as const,
      playedByModel: false,
      weight,
    }))
    const agreement = agreementOn(
      { agents: roster, vote: (list) => vote(list, weights) },
      ballots,
      abstained.map(({ agent }) => agent),
      needed === 'all' ? 'all' : needed[0] / needed[1],
    )
    const agreed = isAgreed(casts, abstained, needed)
    const right = agreement.reached === agreed && (ballots.length === 0 || near(agreement.score, most / 10))
    if (!right) t.fail(`agreement ${seed}: ${JSON.stringify({ agreement, agreed, needed, casts, abstained })}`)
    if (tied) seen.tied++
    if (voters.some(({ tenths }) => tenths === null)) seen.heads++
    if (agreed) seen.agreed++
    if (needed === 'all' && agreed) seen.unanimous++
  }
  for (const [kind, count] of Object.entries(seen)) t.ok(count > 0.03 * ELECTIONS, `${kind}: ${count}`)
})

t.test('the protocol agrees when the other count does, on first answers and on ballots', async (t) => {
  const ends = { first: 0, ballots: 0, none: 0 }
  for (let seed = 1; seed <= ELECTIONS / 5; seed++) {
    const dice = new Dice(100_000 + seed)
    const voters = votersFrom(dice)
    if (voters.length < 2) continue
    const pool = VALUES.slice(0, 1 + dice.upTo(4)).filter((value) => value !== null)
    const needed: Needed = dice.chance(0.2) ? 'all' : dice.pick(FRACTIONS)
    const first = voters.map((voter) => ({ voter, value: shuffled(dice.pick(pool), dice) }))
    const list = counted(first).groups.map(({ value }) => value)
    const favourite = 1 + dice.upTo(list.length)
    const choices = voters.map(() => (dice.chance(0.6) ? favourite : 1 + dice.upTo(list.length + 1))) // some are for nothing on the list
    const parts = voters.map(({ agent, weight }, i): [string, Part] => {
      const says: Part['says'] = (_content, data) => ({
        structuredData: data === undefined ? first[i]?.value : { choice: choices[i] },
      })
      return [agent, { says, weight }]
    })
    const fake = new FakeOrchestrator(Object.fromEntries(parts))
    const share = needed === 'all' ? { requireUnanimous: true } : { consensusThreshold: needed[0] / needed[1] }
    const config: ConsensusConfig = { strategy: 'consensus', consensusMethod: 'vote', maxRounds: 1, ...share }
    const result = await fake
      .play(
        protocolFrom(
          config,
          voters.map(({ agent }) => agent),
        ),
      )
      .then(({ content }) => content)
      .catch((error: { code: string }) => error.code)

    const onList = voters.flatMap((voter, i) => {
      const at = (choices[i] ?? 0) - 1
      return at < list.length ? [{ voter, value: list[at] }] : []
    })
    const abstained = voters.filter((voter) => !onList.some((cast) => cast.voter === voter))
    const end = isAgreed(first, [], needed) ? 'first' : isAgreed(onList, abstained, needed) ? 'ballots' : 'none'
    ends[end]++
    const winner = counted(end === 'first' ? first : onList).winner
    const right = end === 'none' ? result === 'CONSENSUS' : isDeepStrictEqual(JSON.parse(result), winner)
    if (!right) t.fail(`election ${seed}: ${JSON.stringify({ end, result, winner, first, choices })}`)
  }
  for (const [kind, count] of Object.entries(ends)) t.ok(count > 0.01 * ELECTIONS, `${kind}: ${count}`)
})

const ballots = (values: Record<string, unknown>) => Object.entries(values).map(([agent, value]) => ({ agent, value }))

t.test('a heavier voter wins over a lighter one', async (t) => {
  const verdict = vote(ballots({ x: 'alpha', y: 'beta' }), { x: 2, y: 1 })
  t.same(verdict, { winner: 'alpha', scores: { alpha: 2, beta: 1 }, tied: false })
})

t.test('document 000, scenario 1: a tie goes to the first result seen', async (t) => {
  const verdict = vote(ballots({ X: 'Action Alpha', Y: 'Action Beta', Z: 'Action Beta' }), { X: 2, Y: 1, Z: 1 })
  t.same(verdict, { winner: 'Action Alpha', scores: { 'Action Alpha': 2, 'Action Beta': 2 }, tied: true })
})

t.test('document 000, scenario 2: one null weight makes it a majority vote', async (t) => {
  const verdict = vote(ballots({ P: 'Proceed', Q: 'Wait', R: 'Proceed' }), { Q: null })
  t.same(verdict, { winner: 'Proceed', scores: { Proceed: 2, Wait: 1 }, tied: false })
})

t.test('a weight that is not finite makes it a majority vote', async (t) => {
  for (const weight of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]) {
    const { winner, scores } = vote(ballots({ a: 'yes', b: 'no', c: 'no' }), { a: 100, b: weight })
    t.same({ winner, scores }, { winner: 'no', scores: { yes: 1, no: 2 } }, String(weight))
  }
})

t.test('the weight of an agent that does not vote changes nothing', async (t) => {
  t.equal(vote(ballots({ a: 'yes', b: 'no', c: 'no' }), { a: 3, absent: null }).winner, 'yes')
})

t.test('a voter without a weight counts 1, whatever its name', async (t) => {
  const verdict = vote(ballots({ constructor: 'yes', toString: 'yes', c: 'no' }), { c: 1.5 })
  t.same(verdict, { winner: 'yes', scores: { yes: 2, no: 1.5 }, tied: false })
})

t.test('objects are compared by structure, the order of their keys ignored', async (t) => {
  const values = { a: { x: 1, y: [1, { p: 1, q: 2 }] }, b: { z: 0 }, c: { y: [1, { q: 2, p: 1 }], x: 1 } }
  const verdict = vote(ballots(values), {})
  t.same(verdict, { winner: values.a, scores: { '{"x":1,"y":[1,{"p":1,"q":2}]}': 2, '{"z":0}': 1 }, tied: false })
})

t.test('the order of a list counts', async (t) => {
  t.equal(vote(ballots({ a: [1, 2], b: [2, 1] }), {}).tied, true)
})

t.test('a field that is undefined counts as absent', async (t) => {
  t.same(vote(ballots({ a: { x: 1, y: undefined }, b: { x: 1 } }), {}).scores, { '{"x":1}': 2 })
})

t.test('a text and the value that it spells are two values', async (t) => {
  t.same(vote(ballots({ a: '1', b: 1, c: 1 }), {}), { winner: 1, scores: { '"1"': 1, 1: 2 }, tied: false })
})

t.test('a value called __proto__ is counted like any other', async (t) => {
  t.same(Object.entries(vote(ballots({ a: '__proto__' }), {}).scores), [['__proto__', 1]])
})

t.test('a sum of fractions ties with its total', async (t) => {
  const { tied, winner } = vote(ballots({ a: 'total', b: 'parts', c: 'parts' }), { a: 0.3, b: 0.1, c: 0.2 })
  t.same({ tied, winner }, { tied: true, winner: 'total' })
})

t.test('without ballots nobody can win', async (t) => {
  t.throws(
    () => vote([], {}),
    new ConsensusError('Nobody voted: there is no ballot to count. Give vote() at least one.'),
  )
})

t.test('a value that is not JSON is refused with its place', async (t) => {
  const cast = () => vote(ballots({ a: { at: 1 }, b: { at: new Date(0) } }), {})
  t.throws(cast, { code: 'CONSENSUS', message: /^ballots\[1\]\.value\.at is a Date/ })
})
