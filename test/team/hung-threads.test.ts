/** Seven ways to hang on real threads: each is named with its age, over HTTP and on the screen of `top`. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { z } from 'zod'
import { createTeam, defineTool, type OpenTurn, type RuntimeEvent, type TeamJudgement } from '../../src/index.ts'
import { httpApi } from '../../src/service/api/index.ts'
import { DigestFold } from '../../src/service/digest/digest-fold.ts'
import { topLines } from '../../src/service/terminal/top-view.ts'
import { silent } from '../kit/team.ts'
import { FakeModel } from '../models/fake-model.ts'

const module = new URL('../fixtures/team/hangs.js', import.meta.url)
const SLOW_MS = 500

/** A server that takes requests and answers none. */
async function deafServer(t: Test) {
  const server = createServer(() => {})
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
}

const hangingStream = async function* () {
  yield { text: 'Well' }
  await new Promise(() => {})
}

async function hanging(t: Test, way: string) {
  const url = await deafServer(t)
  const inHost = defineTool({
    name: 'call_in_host',
    description: 'Waits for an address.',
    input: z.object({ url: z.string() }),
    timeoutMs: 3_600_000,
    run: async ({ url }, { signal }) => (await fetch(url, { signal })).text(),
  })
  const model = Object.assign(new FakeModel([]), { complete: hangingStream })
  const team = createTeam({
    agents: [
      {
        name: 'writer',
        module,
        tools: [inHost, { module, export: 'calls' }, { module, export: 'isolated', isolate: true }],
      },
    ],
    models: { small: model },
    orchestration: { strategy: 'sequential' },
    supervision: { slowMs: SLOW_MS, watchdogMs: false, stopGraceMs: 10 },
    threads: { warmSpares: 0 },
    logger: silent,
  })
  const api = httpApi({ teams: { desk: team }, authorize: () => ({ id: 'ann', may: ['watch'] }) })
  t.teardown(async () => {
    await api.close()
    await team.close()
  })
  const events: RuntimeEvent[] = []
  team.events.subscribe((event) => void (event.type === 'slow' && events.push(event)))
  const fold = new DigestFold()
  const stop = new AbortController()
  t.teardown(() => stop.abort())
  void (async () => {
    for await (const line of team.watch({ signal: stop.signal })) fold.read(line)
  })()
  const run = team.launch(`${way} ${url}`)
  t.teardown(() => run.cancel('enough'))
  const asked = async () => {
    const response = await api.fetch(new Request('http://localhost/api/turns'))
    return (await response.json()) as { turns: OpenTurn[]; judgement: TeamJudgement }
  }
  const screen = () =>
    topLines(
      fold,
      { view: 'agents', sort: 'trouble', selected: undefined, note: '' },
      { width: 200, height: 30 },
      Date.now(),
    )
  /** Looks until what is seen is there. */
  const until = async <T>(look: () => T | undefined | Promise<T | undefined>): Promise<T> => {
    for (;;) {
      const seen = await look()
      if (seen !== undefined) return seen
      await pause(20)
    }
  }
  const turn = (state: RegExp) => async () =>
    (await asked()).turns.find((each) => each.agent === 'writer' && state.test(each.state))
  return { team, events, asked, screen, until, turn }
}

const WAYS: [way: string, words: string, state: 'slow' | 'stuck'][] = [
  ['handler', 'waits for something that the runtime does not know', 'slow'],
  ['step', 'step "fetch prices"', 'slow'],
  ['call_in_host', 'tool "call_in_host"', 'slow'],
  ['call_in_thread', 'tool "call_in_thread"', 'slow'],
  ['call_isolated', 'tool "call_isolated"', 'slow'],
  ['model', 'model "small"', 'slow'],
  ['loop', 'computes', 'stuck'],
]

for (const [way, words, state] of WAYS)
  t.test(`it is named with its age: ${way}`, async (t) => {
    const { events, asked, screen, until, turn, team } = await hanging(t, way)
    const found = await until(turn(new RegExp(`^${state}$`)))
    t.match(found.sentence, `writer: ${words} for `)
    t.match(found.sentence, /for [\d.]+ s \(slow after 0\.5 s\)/)
    if (state === 'stuck') t.match(found.sentence, /, and its thread does not answer$/)
    const { judgement } = await asked()
    t.equal(judgement.state, state)
    t.match(judgement.sentences, [`writer: ${words}`])
    await until(() => screen().find((line) => line.startsWith(`! ${state}: writer: ${words} for`)))
    const told = await until(() => events[0])
    t.match(told, { type: 'slow', agent: 'writer', messageId: found.messageId, sentence: `writer: ${words}` })
    t.ok(told.type === 'slow' && told.forMs >= SLOW_MS)
    t.match(team.health().agents.writer!.turns, [{ messageId: found.messageId }])
  })

t.test('a thread that computes and answers is slow, and not stuck', async (t) => {
  const { until, turn, asked } = await hanging(t, 'busy')
  await until(turn(/^slow$/))
  for (let looks = 0; looks < 15; looks++) {
    t.equal((await asked()).judgement.state, 'slow')
    await pause(100)
  }
})
