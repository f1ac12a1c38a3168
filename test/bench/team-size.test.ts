/** The sweep over team sizes as its user has it: counts and structure, no times. */
import t from 'tap'
import { main } from '../../bench/team-size/command.ts'
import { JOBS, sections } from '../../bench/team-size/jobs.ts'
import { sweep } from '../../bench/team-size/sweep.ts'
import { textOf } from '../../src/actors/definition/content.ts'
import { countTokens } from '../../src/actors/model/tokens.ts'
import type { ModelClient } from '../../src/index.ts'
import { pluck } from '../kit/lists.ts'
import { fakeSurroundings } from '../service/fake-team.ts'

/** Keeps who was asked for what, and answers at once. */
function recorder() {
  const asked: { agent?: string; about: string }[] = []
  const model: ModelClient = {
    rehearsal: true,
    async *complete({ agent, messages }) {
      const about = textOf(messages.at(-1)?.content ?? '')
      asked.push({ ...(agent && { agent }), about })
      await new Promise(setImmediate) // another worker may come first
      yield {
        text: `about ${countTokens(about)}`,
        usage: { inputTokens: 1, outputTokens: 2, totalTokens: 3, calls: 1 },
      }
    },
  }
  return { asked, model }
}

t.test('each section is summarized once, by whoever is free, and an editor gets all in their order', async (t) => {
  const parts = await sections()
  t.ok(parts.length > 10)
  const { asked, model } = recorder()
  const plan = { job: await JOBS.parts(), sizes: [1, 3], rounds: 2, models: { default: model } }
  const told: number[] = []
  const reports = await sweep(plan, new AbortController().signal, ({ workers }) => told.push(workers))
  t.same(told, [1, 3, 1, 3])
  const calls = parts.length + 1
  t.match(reports, [
    { workers: 1, calls, tokens: 3 * calls },
    { workers: 3, calls, tokens: 3 * calls },
  ])
  const questions = parts.map((part) => `Summarize this section:\n${part}`)
  const first = asked.slice(0, calls)
  t.same(
    first.slice(0, -1),
    questions.map((about) => ({ agent: 'worker-1', about })),
  )
  const second = asked.slice(calls, 2 * calls)
  t.same(
    second
      .slice(0, -1)
      .map(({ about }) => about)
      .sort(),
    [...questions].sort(),
  )
  t.same([...new Set(second.map(({ agent }) => agent))].sort(), ['editor', 'worker-1', 'worker-2', 'worker-3'])
  const summaries = questions.map((about) => `about ${countTokens(about)}`).join('\n')
  for (const at of [calls, 2 * calls])
    t.same(asked[at - 1], { agent: 'editor', about: `Make an overview of these summaries:\n${summaries}` })
})

t.test('it can be ended', async (t) => {
  const { model } = recorder()
  const plan = { job: await JOBS.parts(), sizes: [2], rounds: 1, models: { default: model } }
  await t.rejects(
    sweep(plan, AbortSignal.abort(new Error('enough')), () => {}),
    { code: 'RUN_ABORTED' },
  )
})

t.test('wrong options are named, with what is accepted', async (t) => {
  const wrong: [args: string[], text: RegExp][] = [
    [['--sizes', '1,x'], /--sizes.*whole numbers from 1 to 64/],
    [['--job', 'dig'], /--job.*parts, question, chain/],
    [['--sizes', '65'], /--sizes.*whole numbers from 1 to 64/],
    [['--rounds', '0'], /--rounds.*whole number from 1 to 100/],
    [['--nonsense'], /unknown option '--nonsense'/],
    [['extra'], /too many arguments/],
  ]
  for (const [args, text] of wrong) {
    const { surroundings, stderr } = fakeSurroundings()
    t.equal(await main(args, surroundings), 2, args.join(' '))
    t.match(stderr(), text)
  }
})

t.test('a question with one right answer is put to all, and a chain to one after the other', async (t) => {
  const job = await JOBS.question()
  const plan = { job, sizes: [1, 5], rounds: 1, models: { default: job.simulated } }
  const [one, five] = await sweep(plan, new AbortController().signal, () => {})
  t.match([one?.calls, five?.calls], [100, 500])
  t.ok(one!.right! > 0.5 && five!.right! > one!.right!, `${one?.right} and ${five?.right}`)
  const { asked, model } = recorder()
  const chain = { job: await JOBS.chain(), sizes: [3], rounds: 1, models: { default: model } }
  const [report] = await sweep(chain, new AbortController().signal, () => {})
  t.equal(report?.right, undefined)
  t.same(
    pluck(asked, 'agent'),
    Array.from({ length: 12 }, (_, at) => `worker-${(at % 3) + 1}`),
  )
  t.match(asked[1]?.about, /^Improve this text \(step 2\):\nabout \d+$/)
})
