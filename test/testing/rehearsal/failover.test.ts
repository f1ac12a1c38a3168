/** The fault `model`: calls of models fail at random, and another model of the list answers. */
import t from 'tap'
import { z } from 'zod'
import { defineTool, type MultiAgentPatternOptions } from '../../../src/index.ts'
import { rehearse } from '../../../src/testing.ts'
import { howMany } from '../../how-many.ts'
import { calls, FakeModel } from '../../models/fake-model.ts'

const SEEDS = howMany(30, 300)
const ROUNDS = 3

/** Asks for the tool three times, once in each round, and then answers: by what the conversation has. */
const inRounds = () =>
  Object.assign(
    new FakeModel(({ messages }) => {
      const results = messages.filter(({ role }) => role === 'tool').length
      return results < ROUNDS ? calls(['count', { round: results }]) : 'done'
    }),
    { offline: true },
  )

function teamOf(counted: Map<string, number>, switchOn?: readonly string[]): MultiAgentPatternOptions {
  const count = defineTool({
    name: 'count',
    description: 'Counts.',
    input: z.object({ round: z.number() }),
    readOnly: true,
    run({ round }, { idempotencyKey }) {
      counted.set(idempotencyKey, (counted.get(idempotencyKey) ?? 0) + 1)
      return round
    },
  })
  const list = { anyOf: ['fast', 'spare'], ...(switchOn && { switchOn }) }
  return {
    agents: [{ name: 'ann', systemPrompt: 'You count.', tools: [count] }],
    models: { default: list, fast: inRounds(), spare: inRounds() } as never,
    orchestration: { strategy: 'sequential' },
  }
}

t.test('whatever fails, each round of tools runs once and the answer comes', async (t) => {
  const all = new Map<string, number>()
  const switchOn = ['rate_limit', 'broken_off', 'filtered']
  const { outcomes, failures } = await rehearse(() => teamOf(all, switchOn), {
    query: 'Count.',
    seeds: SEEDS,
    faults: ['model'],
  })
  t.same(failures, [])
  t.equal(outcomes.done, SEEDS)
  t.equal(all.size, SEEDS * ROUNDS)
  t.ok([...all.values()].every((times) => times === 1))
})

t.test(
  'without a reason to switch a filter ends the run, in some of the seeds and in the same ones again',
  async (t) => {
    const play = () => rehearse(() => teamOf(new Map()), { query: 'Count.', seeds: 40, faults: ['model'] })
    const [one, other] = [await play(), await play()]
    t.ok(one.failures.length > 0 && one.failures.length < 40)
    t.same(
      one.failures.map(({ seed }) => seed),
      other.failures.map(({ seed }) => seed),
    )
    for (const { error, replay } of one.failures) {
      t.match(JSON.stringify(error), /filtered/)
      t.match(replay, /"faults":\["model"\]/)
    }
  },
)
