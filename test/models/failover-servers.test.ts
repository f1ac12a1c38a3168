/** A list of models at two real servers: whatever the first does, the second answers, whole and streamed. */
import t, { type Test } from 'tap'
import { createTeam } from '../../src/index.ts'
import type { FailoverEntry } from '../../src/models.ts'
import type { MultiAgentPatternOptions } from '../../src/team.ts'
import { modelServer } from '../fixtures/model-server.ts'
import type { Answer } from '../fixtures/wires/wire.ts'
import { silent } from '../kit/team.ts'

const never = new Promise<never>(() => {})
/** Time for a busy machine to bring the first piece of an answer; a silent model costs it once. */
const SILENCE_MS = 3_000

const BAD: readonly [what: string, answer: Answer, reason: string, heard: number][] = [
  ['accepts the call and sends nothing', { text: 'A.', after: never }, 'timeout', 0],
  ['stops in its stream', { text: ['A1 ', 'A2.'], between: never }, 'timeout', 1],
  ['answers 500', { status: 500 }, 'server', 0],
  ['wants a long pause', { status: 429, headers: { 'retry-after': '40' } }, 'rate_limit', 0],
  ['cuts the stream', { text: ['A1 ', 'A2 ', 'A3.'], hangUp: 2 }, 'broken_off', 2],
  ['hangs up', { hangUp: 'at once' }, 'unreachable', 0],
]

async function desk(t: Test, bad: Answer, list: Partial<FailoverEntry> = {}) {
  const [first, second] = [await modelServer(t), await modelServer(t)]
  first.always(bad)
  second.always({ text: ['From ', 'B.'] })
  const options: MultiAgentPatternOptions = {
    agents: [{ name: 'ann', systemPrompt: 'Be brief.' }],
    orchestration: { strategy: 'sequential' },
    models: {
      default: { anyOf: ['a', 'b'], patienceMs: 1, silenceMs: SILENCE_MS, ...list },
      a: { model: 'a', baseURL: first.baseURL },
      b: { model: 'b', baseURL: second.baseURL },
    },
    logger: silent,
  }
  const team = createTeam(options)
  t.teardown(() => team.close())
  return { team, first, second }
}

for (const [what, bad, reason, heard] of BAD)
  t.test(`the first ${what}: the second answers, and the run stays with it`, async (t) => {
    const answers = ['whole', 'streamed'].map(async (how) => {
      const { team, first, second } = await desk(t, bad)
      const run = team.launch('go', { stream: how === 'streamed' })
      const [all, answer] = [read(run.text()), read(run.text({ only: 'answer' }))]
      const parts: string[] = []
      if (how === 'streamed')
        for await (const part of run.stream()) {
          if (part.type === 'superseded') parts.length = 0
          if (part.type === 'text') parts.push(part.text)
        }
      t.match(await run.result, { success: true, finalOutput: 'From B.' }, how)
      t.equal(await answer, 'From B.', how)
      t.match(await all, /From B\.$/, how)
      if (how === 'streamed') t.equal(parts.join(''), 'From B.')
      const switches = run.trace.events.filter(({ eventType }) => eventType === 'model.switched')
      t.match(switches, [{ details: { from: 'a', to: 'b', reason, heard } }], how)
      t.same([first.calls.length, second.calls.length], [1, 1], how)
      if (reason === 'timeout') t.equal(await first.calls[0]!.ended, 'left', `${how}: its socket is given back`)
      t.match(await team.execute('again'), { finalOutput: 'From B.' })
      t.same([first.calls.length, second.calls.length], [1, 2], `${how}: the next run begins with the second`)
    })
    await Promise.all(answers)
  })

t.test('a stream that is cut is broken off, by its name in switchOn, and unreachable for who names that', async (t) => {
  for (const [switchOn, answer] of [
    [['filtered', 'broken_off'], 'From B.'],
    [['unreachable'], 'From B.'],
    [['server'], null],
  ] as const) {
    const { team } = await desk(t, { text: ['A1 ', 'A2.'], hangUp: 1 }, { switchOn })
    t.equal((await team.execute('go')).finalOutput, answer, switchOn.join())
  }
})

async function read(pieces: AsyncIterable<string>): Promise<string> {
  let all = ''
  for await (const piece of pieces) all += piece
  return all
}
