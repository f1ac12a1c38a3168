/**
 * Rehearsed people: words to a run while it works, which the seed moves, answers that come too late, and those of who
 * began the run.
 */
import t from 'tap'
import { z } from 'zod'
import { type ApprovalPolicy, defineTool, type MultiAgentPatternOptions } from '../../../src/index.ts'
import { rehearse } from '../../../src/testing.ts'
import { howMany } from '../../how-many.ts'
import { calls, FakeModel } from '../../models/fake-model.ts'

const SEEDS = Math.max(16, howMany(16, 200)) // in fewer the words may come too late each time

const look = defineTool({
  name: 'look',
  description: 'Looks.',
  input: z.object({}),
  readOnly: true,
  run: () => 'seen',
})

/** Two agents that look twice each; `seen` gets the place of the words in each prompt that has them. */
function teamOf(seen: string[]): MultiAgentPatternOptions {
  const model = new FakeModel(({ agent, messages }) => {
    const looks = messages.filter(({ role }) => role === 'tool').length
    const said = messages.filter(({ role, content }) => role === 'user' && content === 'In metres.').length
    seen.push(`${agent} ${looks} ${said}`)
    return looks < 2 ? calls(['look', {}]) : `by ${agent}`
  })
  return {
    agents: ['ann', 'bob'].map((name) => ({ name, tools: [look] })),
    orchestration: { strategy: 'sequential' },
    models: { default: Object.assign(model, { offline: true }) },
  }
}

t.test('the seed moves the words, no prompt has them twice, and each run is done', async (t) => {
  for (const after of ['model', 5] as const) {
    const plays: string[] = []
    const seen: string[] = []
    const { failures } = await rehearse(() => teamOf(seen), {
      query: 'How long?',
      seeds: SEEDS,
      faults: ['crash', 'delay', 'duplicate'],
      steer: [{ text: 'In metres.', after }],
      check: () => void plays.push(seen.splice(0).join()),
    })
    t.same(failures, [])
    t.notOk(plays.some((play) => / [2-9]\b(?=,|$)/.test(play.replace(/ \d (\d)/g, ' $1'))))
    t.ok(
      plays.some((play) => / 1(,|$)/.test(play)),
      'some runs have read them',
    )
    t.ok(new Set(plays).size > 1, 'and not all at the same place')
  }
})

t.test('the same seed is the same play', async (t) => {
  const play = async () => {
    const seen: string[] = []
    await rehearse(() => teamOf(seen), {
      query: 'How long?',
      seeds: [7],
      steer: [{ text: 'In metres.', after: 'model', when: 'interrupt' }],
    })
    return seen
  }
  t.same(await play(), await play())
})

t.test('words of a plan are checked, and stand in what plays a failure again', async (t) => {
  const plan = { query: 'How long?', seeds: 1, steer: [{ text: 'In metres.', after: 'model' as const }] }
  for (const steer of ['now', [{ text: 'x' }], [{ text: 'x', after: -1 }], [{ text: 'x', after: 1, who: 'me' }]])
    await t.rejects(
      rehearse(() => teamOf([]), { ...plan, steer: steer as never }),
      {
        code: 'CONFIGURATION',
        details: { path: 'steer' },
      },
    )
  const { failures } = await rehearse(() => teamOf([]), {
    ...plan,
    check() {
      throw new Error('no')
    },
  })
  t.match(failures[0]!.replay, '"steer":[{"text":"In metres.","after":"model"}]')
})

/** An agent that pays if it may, and says what came of it. */
function payer(approval: true | ApprovalPolicy): () => MultiAgentPatternOptions {
  const pay = defineTool({
    name: 'pay',
    description: 'Pays.',
    input: z.object({}),
    approval,
    answerWithinMs: 60_000,
    readOnly: true,
    run: () => 'paid',
  })
  return () => ({
    agents: [{ name: 'ann', tools: [pay] }],
    orchestration: { strategy: 'sequential' },
    models: {
      default: Object.assign(
        new FakeModel(({ messages }) => {
          const result = messages.find(({ role }) => role === 'tool')
          return result ? `${result.content}` : calls(['pay', {}])
        }),
        { offline: true },
      ),
    },
  })
}

t.test('a person may be late: the call of the tool is not approved then', async (t) => {
  const outputs: string[] = []
  const check = (outcome: object) => void outputs.push(JSON.stringify(outcome))
  const { failures } = await rehearse(payer(true), { query: 'Pay.', seeds: SEEDS, faults: ['late'], check })
  t.same(failures, [])
  const late = outputs.filter((output) => output.includes('within 60000 ms')).length
  t.ok(late > 0 && late < SEEDS, `${late} of ${SEEDS} are late`)
})

t.test('who began the run tries to approve its calls, and is one of those who may, or changes nothing', async (t) => {
  const played = async (by: 'others' | 'anybody' | 'caller', caller?: string) => {
    const outputs: string[] = []
    const { failures } = await rehearse(payer({ by, groups: ['finance'] }), {
      query: 'Pay.',
      ...(caller !== undefined && { caller }),
      seeds: SEEDS,
      check: (outcome) => void outputs.push(outcome.ok ? outcome.message.content : outcome.error.code),
    })
    t.same(failures, [])
    const paid = outputs.filter((output) => output === 'paid').length
    t.ok(paid > 0 && paid < SEEDS, `${by}: ${paid} of ${SEEDS} are paid`)
    return outputs
  }
  t.same(await played('others', 'joe'), await played('others'))
  t.strictNotSame(await played('anybody', 'joe'), await played('anybody'))
  await played('caller', 'joe')
})
