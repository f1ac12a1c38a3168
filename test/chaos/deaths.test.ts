/**
 * Real threads die at every point of a message's way, in every manner, under load; and nothing is lost, done twice or
 * out of order. `--deep` plays ten rounds, each with a seed of its own.
 *
 *   source-a, source-b --numbers--> worker --numbers--> sink
 *                                   worker --now and then--> oracle (whole answers and streams), blackboard
 */
import t, { type Test } from 'tap'
import { seededRandom } from '../../src/actors/random.ts'
import type { AgentMessage, OrchestratorContext, RuntimeEvent } from '../../src/index.ts'
import { killFromOutside } from '../fixtures/chaos-kills.ts'
import type { Sunk } from '../fixtures/chaos-sink.ts'
import { ChaosTeam } from '../fixtures/chaos-team.ts'
import type { Kind, Plan, Point } from '../fixtures/chaos-worker.ts'
import { leftovers, leftoversOnce } from '../fixtures/leftovers.ts'

const SOURCES = ['source-a', 'source-b']
const EACH = 5_000
const PLANNED = 40
const KILLED = 12
const AT_LEAST = 50 // one death may come before another that was meant for the same thread
const ASK_EVERY = 10
const STREAM_EVERY = 40
const PUBLISH_EVERY = 25
const KINDS: Kind[] = ['throw', 'reject', 'exit', 'loop']
const POINTS: Point[] = ['before', 'step', 'effect', 'returned', 'committed', 'later']

const rounds = process.env.DRAMATIS_DEEP ? 10 : 1
for (let seed = 1; seed <= rounds; seed++) {
  t.test(`${AT_LEAST} deaths under ${SOURCES.length * EACH} messages, seed ${seed}`, (t) => round(t, seed))
}

async function round(t: Test, seed: number): Promise<void> {
  const before = leftovers()
  const { team, sunk, history, events } = await play(seed)
  const crashes = events.flatMap((event) => (event.type === 'agent.crashed' ? [event.error.message] : []))

  await t.test('the deaths have happened', async (t) => {
    t.ok(crashes.length >= AT_LEAST, `${crashes.length}`)
    for (const manner of ['threw outside of a turn', 'exit code 3', 'exit code 1', 'is stuck'])
      t.ok(crashes.filter((message) => message.includes(manner)).length >= 5, manner)
  })
  await t.test('nothing is lost, doubled or out of order', async (t) => {
    t.same(sunk.outOfOrder, [])
    t.same(sunk.last, { 'source-a': EACH - 1, 'source-b': EACH - 1 })
    t.same(team.deadLetters.list(), [])
  })
  await t.test('no turn commits twice', async (t) => {
    t.same(team.stateOf('worker'), { done: SOURCES.length * EACH })
    const ends = events.flatMap((event) => (event.type === 'turn.finished' ? [event.agent + event.messageId] : []))
    t.same(repeated(ends), [])
  })
  await t.test('no question is asked twice, and each has one answer', async (t) => {
    const questions = history.filter(({ recipient }) => recipient === 'oracle')
    const answers = history.filter(({ sender }) => sender === 'oracle')
    t.equal(questions.length, SOURCES.length * (EACH / ASK_EVERY + EACH / STREAM_EVERY))
    t.equal(answers.length, questions.length)
    t.same(repeated(questions.map(({ content }) => content)), [])
    t.same(repeated(answers.map(({ correlationId }) => correlationId)), [])
    t.same(team.stateOf('oracle'), { asked: questions.length })
  })
  await t.test('the log has each message once', async (t) => {
    t.same(repeated(history.map(({ id }) => id)), [])
    t.same(repeated(numbersTo('worker', history)), [])
    t.same(repeated(numbersTo('sink', history)), [])
    t.equal(numbersTo('sink', history).length, SOURCES.length * EACH)
  })
  await t.test('each entry of the blackboard is written once', async (t) => {
    const entries = (await team.getBlackboard()?.query()) ?? []
    t.equal(entries.length, (SOURCES.length * EACH) / PUBLISH_EVERY)
    t.same(
      entries.filter(({ version }) => version !== 1),
      [],
    )
  })
  await t.test('each mailbox is empty and has all of its room', async (t) => {
    for (const [agent, left] of Object.entries(team.leftInMailboxes()))
      t.same(left, { unaccounted: 0, waiting: 0, messages: 0, bytes: 0 }, agent)
  })
  await t.test('no thread, timer or port is left', async (t) => {
    await team.close()
    t.same(await leftoversOnce(before), before)
  })
}

/** One run of a team that dies as the seed says. */
async function play(seed: number) {
  const random = seededRandom([seed, 0, 0, 0])
  const team = teamThatDies({
    askEvery: ASK_EVERY,
    streamEvery: STREAM_EVERY,
    publishEvery: PUBLISH_EVERY,
    stepEvery: 7,
    deaths: plannedDeaths(random),
  })
  const events: RuntimeEvent[] = []
  team.events.subscribe((event) => {
    if (event.type === 'agent.crashed' || event.type === 'turn.finished') events.push(event)
  })
  killFromOutside(team, { times: KILLED, over: SOURCES.length * EACH, random })
  const result = await team.execute('go')
  if (!result.success) {
    await team.close()
    throw result.error
  }
  return { team, sunk: JSON.parse(result.finalOutput) as Sunk, history: team.getMessageHistory(), events }
}

function teamThatDies(plan: Plan): ChaosTeam {
  const module = (name: string) => new URL(`../fixtures/chaos-${name}.js`, import.meta.url)
  return new ChaosTeam({
    agents: [
      ...SOURCES.map((name) => ({ name, module: module('source') })),
      { name: 'worker', module: module('worker'), data: plan, communication: { mailboxCapacity: 200 } },
      { name: 'oracle', module: module('oracle') },
      { name: 'sink', module: module('sink') },
    ],
    orchestration: { strategy: 'custom', run: allTheWayThrough },
    enableBlackboard: true,
    supervision: { maxRestarts: Number.POSITIVE_INFINITY, backoff: { baseMs: 0, capMs: 0 }, watchdogMs: 400 },
  })
}

/** Ends when the last number is through: an agent takes its messages in order. */
async function allTheWayThrough(orchestrator: OrchestratorContext): Promise<string> {
  const outcomes = await orchestrator.requestAll(SOURCES, 'go', { structuredData: { count: EACH, largeEvery: 500 } })
  for (const outcome of outcomes) if (!outcome.ok) throw outcome.error
  await orchestrator.request('worker', 'are you through?')
  const sunk = await orchestrator.request('sink', 'what came?')
  return JSON.stringify(sunk.structuredData)
}

/** Every manner of death at every point, spread over the numbers of both sources. The last ones are left alone. */
function plannedDeaths(random: () => number): Plan['deaths'] {
  const deaths = Array.from({ length: PLANNED }, (_, i) => {
    const n = Math.floor(((i + random() / 2) / (PLANNED + 2)) * EACH)
    const kind = KINDS[i % KINDS.length]!
    const point = POINTS[Math.floor(i / KINDS.length) % POINTS.length]!
    return [`${SOURCES[i % SOURCES.length]} ${n}`, { kind, point }] as const
  })
  return Object.fromEntries(deaths)
}

const numbersTo = (agent: string, history: AgentMessage[]) =>
  history
    .filter(
      ({ recipient, structuredData, type }) => recipient === agent && type === 'request' && structuredData !== null,
    )
    .map(({ sender, structuredData }) => `${sender} ${JSON.stringify(structuredData)}`)

function repeated(keys: (string | null)[]): (string | null)[] {
  const seen = new Set<string | null>()
  return keys.filter((key) => seen.size === seen.add(key).size)
}
