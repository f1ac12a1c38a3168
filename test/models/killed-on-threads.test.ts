/**
 * A turn of eleven steps on a real thread, played by a model behind a socket, with tools in the host, in the thread and in a
 * thread of their own. Its thread is ended after each step, and in the middle of each call of the model: what has happened
 * outside of the thread has happened once. So it is where an answer without tools is read along as it comes.
 */
import t from 'tap'
import type { Run } from '../../src/index.ts'
import { type ModelServer, modelServer } from '../fixtures/model-server.ts'
import type { Answer } from '../fixtures/model-wire.ts'
import { gate, silent } from '../kit/team.ts'
import { ledger, recordModule } from '../toolbox/desk.ts'
import { adder } from '../toolbox/tools.ts'
import { killAt } from './killed-turns.ts'
import { ThreadTeam } from './teams.ts'

type Test = Pick<typeof t, 'teardown'>

/**
 * What the turn does: what stands together is under way at once. Each begins at one place and has ended at another, and all of
 * one line before the next.
 */
const STEPS = [
  ['model'],
  ['host', 'thread', 'isolated'],
  ['model'],
  ['isolated'],
  ['model'],
  ['host'],
  ['model'],
  ['thread'],
  ['model'],
]
/** By place, from 1 on: what is under way there. */
const AT_PLACES = [[], ...STEPS.flatMap((steps) => Array.from({ length: 2 * steps.length }, () => steps))]
const PLACES = AT_PLACES.length - 1
/** What may be under way when a thread is gone that is ended there: it goes on until the order to end reaches it. */
const underWayAt = (place: number) => [...AT_PLACES[place]!, ...(AT_PLACES[place + 1] ?? [])]
const ALL = Array.from({ length: PLACES }, (_, i) => i + 1)
const CALLS = STEPS.filter(([step]) => step === 'model').length

/** By how many answers it has given in the run. No two sums of usage are the same. The last one tells what tools gave. */
function answerOf(nth: number, shared: string, alone: string, outputs: string[]): Answer {
  const usage = { inputTokens: 10 ** nth, outputTokens: 2 ** nth }
  const add = (a: number) => ({ name: 'add', input: { a } })
  const again = { name: 'again', input: { file: shared } }
  const record = { name: 'record', input: { file: alone } }
  switch (nth) {
    case 0:
      return { toolCalls: [add(1), again, record], usage }
    case 1:
      return { toolCalls: [record], usage }
    case 2:
      return { toolCalls: [add(2)], usage }
    case 3:
      return { toolCalls: [again], usage }
    default: {
      const [one, , two, three, four] = outputs.map((output) => JSON.parse(output) as { sum?: number; runs?: number })
      return { text: [`${one?.sum} `, `${two?.runs} ${three?.runs} `, `${four?.sum}`], usage }
    }
  }
}

interface Ending {
  /** The thread ends there. */
  place?: number
  /** It ends while the provider has said half of this answer; the rest comes when there is a new thread. */
  within?: number
}

/** One team for many runs, one after the other. */
async function stage(t: Test, server: ModelServer) {
  const { tool, calls: sums } = adder()
  const team = new ThreadTeam({
    agents: [
      {
        name: 'ann',
        tools: [tool, { module: recordModule, export: 'again' }, { module: recordModule, isolate: true }],
      },
    ],
    models: { default: { model: 'small', baseURL: server.baseURL, apiKey: 'key-of-the-team-1' } },
    orchestration: { strategy: 'sequential' },
    supervision: { maxRestarts: Number.POSITIVE_INFINITY, backoff: { baseMs: 0, capMs: 0 }, poisonAttempts: 10 },
    logger: silent,
  })
  t.teardown(() => team.close())
  await team.start()
  const said: string[] = []
  let died = gate()
  team.events.subscribe((event) => {
    if (event.type === 'agent.crashed') died.open()
  })
  let next = 0
  const places = killAt(team, 'ann', (place) => place === next)

  return async ({ place = 0, within }: Ending) => {
    const [shared, alone] = [ledger(t), ledger(t)]
    const [asked, begun] = [server.calls.length, places()]
    const { opened: released, open: release } = gate()
    next = place === 0 ? 0 : begun + place
    died = gate()
    server.always(({ body: { messages } }) => {
      const outputs = messages.filter(({ role }) => role === 'tool').map(({ content }) => content ?? '')
      const nth = messages.filter(({ role }) => role === 'assistant').length
      const answer = answerOf(nth, shared.file, alone.file, outputs)
      return { ...answer, ...(nth === within && { between: released }) }
    })
    const run = team.launch('go')
    const reading = read(run, said)
    if (within !== undefined) {
      await server.called(asked + within + 1)
      team.end('ann')
      await died.opened
      await team.host.lifecycle.ready(team.host.directory.agent('ann')!)
      release()
    }
    const { finalOutput, totalTokenUsage, orchestrationTrace, error } = await run.result
    await reading
    if (place > 0) await died.opened
    const keys = new Set(shared.keys()).size
    return {
      output: finalOutput ?? error?.message,
      said: said.splice(0),
      asked: server.calls.slice(asked).map(({ body }) => body.messages.length),
      usage: totalTokenUsage,
      sums: sums.splice(0).map(({ a }) => a),
      alone: alone.runs(),
      shared: { calls: keys, repeated: shared.runs() - keys },
      mismatches: orchestrationTrace.events.filter(({ eventType }) => eventType === 'step.mismatch').length,
      places: places() - begun,
    }
  }
}

async function read(run: Run, said: string[]): Promise<void> {
  for await (const text of run.text()) said.push(text)
}

/** What a run is like, whatever has died. */
const WELL = {
  output: '2 1 2 3',
  said: ['2 ', '1 2 ', '3'],
  asked: [2, 6, 8, 10, 12],
  usage: { inputTokens: 11_111, outputTokens: 31, totalTokens: 11_142, calls: CALLS },
  sums: [1, 2],
  alone: 2,
  shared: { calls: 2, repeated: 0 },
  mismatches: 0,
}

t.test('eleven steps, of which three are under way at once, and their thread ends at one place', async (t) => {
  const play = await stage(t, await modelServer(t))
  t.strictSame(await play({}), { ...WELL, places: PLACES }, 'nowhere')
  for (const place of ALL) {
    const { places: _, ...played } = await play({ place })
    // The idempotent tool was about to run in the thread that ended, or did: then nobody knows whether it has.
    const mayRepeat = underWayAt(place).includes('thread') && played.shared.repeated === 1
    const shared = { calls: 2, repeated: mayRepeat ? 1 : 0 }
    t.strictSame(played, { ...WELL, shared }, `at ${place}`)
  }
})

t.test('eleven steps, and their thread ends in the middle of an answer', async (t) => {
  const play = await stage(t, await modelServer(t))
  for (let within = 0; within < CALLS; within++)
    t.strictSame(await play({ within }), { ...WELL, places: PLACES }, `in answer ${within}`)
})

for (const [answers, whole, pieces] of [
  ['in a stream', false, ['one ', 'two ', 'three']],
  ['in one body', true, ['one two three']],
] as const)
  t.test(`an answer ${answers} is read along, and its thread ends in the middle`, async (t) => {
    const server = await modelServer(t)
    const team = new ThreadTeam({
      agents: [{ name: 'ann' }],
      models: { default: { model: 'small', baseURL: server.baseURL, apiKey: 'key-of-the-team-1' } },
      orchestration: { strategy: 'sequential' },
      supervision: { backoff: { baseMs: 0, capMs: 0 } },
      logger: silent,
    })
    t.teardown(() => team.close())
    const revived = gate()
    server.always({ text: ['one ', 'two ', 'three'], whole, between: revived.opened })
    team.events.subscribe((event) => {
      if (event.type === 'turn.started' && event.attempt === 2) revived.open()
    })
    const run = team.launch('go')
    const said: string[] = []
    const reading = read(run, said)
    await server.called(1)
    team.end('ann')
    await reading
    t.strictSame(said, pieces, 'each piece comes once')
    t.equal((await run.result).finalOutput, 'one two three')
    t.strictSame(
      server.calls.map(({ body }) => body.stream),
      [true],
    )
  })
