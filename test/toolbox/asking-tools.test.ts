/** Questions that tools ask a person: what they take for an answer, whose time they cost, and what a restart leaves. */
import type { Test } from 'tap'
import t from 'tap'
import { z } from 'zod'
import { createTeam, defineTool, type ToolContext } from '../../src/index.ts'
import { answerInLog } from '../../src/runtime/views/recorded-runs.ts'
import { nextTurn } from '../../src/shared/timers.ts'
import { virtualClock } from '../../src/testing.ts'
import { MemoryDisk, MemoryStore } from '../durability/memory-store.ts'
import { given, heard, silent } from '../kit/team.ts'
import { asked, callerModule, desk, toolModule } from './desk.ts'
import { doing, refusal } from './tools.ts'

const DAY_MS = 86_400_000

type Run = (context: ToolContext, sleep: (ms: number) => Promise<void>) => Promise<unknown>

/** A run in which an agent calls that tool. */
async function begun(t: Test, run: Run, timeoutMs?: number) {
  let sleep = async (_ms: number): Promise<void> => {}
  const tool = doing((context) => run(context, (ms) => sleep(ms)), { ...(timeoutMs && { timeoutMs }) })
  const team = given(t, { tools: [tool] }).testTeam({
    ann: async (_message, context) => `${await context.tool(tool, {})}`,
  })
  sleep = (ms) => team.clock.sleep(ms)
  const { result } = team.launch('go', { runId: 'one' })
  await team.clock.advance(0)
  return { team, result, question: () => team.questions('one')[0] }
}

t.test('a tool waits for a person as long as that takes, and its own time goes on behind the answer', async (t) => {
  for (const [restMs, expected] of [
    [499, { success: true, finalOutput: 'red' }],
    [501, { success: false, error: { message: /did not end within 1000 ms/ } }],
  ] as const) {
    const { team, result, question } = await begun(
      t,
      async ({ ask }, sleep) => {
        await sleep(500)
        const color = await ask('Which color?', { choices: ['red', 'blue'] })
        await sleep(restMs)
        return color
      },
      1_000,
    )
    t.same(team.questions('one'), [])
    await team.clock.advance(500)
    t.match(question(), { agent: 'ann', kind: 'ask', text: 'Which color?', choices: ['red', 'blue'] })
    await team.clock.advance(DAY_MS)
    t.match(
      team.waits().filter(({ agent }) => agent === 'ann'),
      [{ kind: 'ask', for: [] }],
    )
    await team.answer(question()!.questionId, 'red')
    await team.clock.advance(1_000)
    t.match(await result, expected)
  }
})

t.test('two questions of one call are two, and one that its tool gives up is withdrawn', async (t) => {
  const { team, result } = await begun(t, ({ ask }) => Promise.race([ask('Left?'), ask('Right?')]))
  const [left, right] = team.questions('one')
  t.match([left, right], [{ text: 'Left?' }, { text: 'Right?' }])
  const closed = heard(team, 'question.closed', ({ questionId, how }) => ({ questionId, how }))
  await team.answer(right!.questionId, 'this way')
  t.match(await result, { success: true, finalOutput: 'this way' })
  t.same(team.questions('one'), [])
  t.same(closed, [
    { questionId: right!.questionId, how: 'answered' },
    { questionId: left!.questionId, how: 'withdrawn' },
  ])
})

t.test('a question that its tool does not wait for ends with the call, and ends nothing else', async (t) => {
  let late: ToolContext['ask'] | undefined
  const { team, result } = await begun(t, async ({ ask }, sleep) => {
    late = ask
    void ask('Now?', { answerWithinMs: 10 })
    const asked = ask('Later?')
    await sleep(1_000)
    return asked
  })
  await team.clock.advance(20)
  t.match(team.questions('one'), [{ text: 'Later?' }])
  await team.getRun('one')!.cancel('enough')
  t.match(await result, { success: false })
  await team.clock.advance(1_000)
  t.match(await refusal(late!('After all?')), { code: 'CANCELLED' })
  t.same(team.questions('one'), [])
})

t.test('a form takes what fits its schema, or a no; anything else leaves the question open', async (t) => {
  const form = {
    type: 'object',
    properties: { name: { type: 'string' }, size: { enum: ['small', 'large'] } },
    required: ['name'],
  }
  const { team, question, result } = await begun(t, async ({ ask }) => {
    const first = await ask('Whose, and how large?', { form })
    return `${first} ${await ask('And then?', { form })}`
  })
  const [of] = [question()!]
  t.match(of, {
    form,
    text: 'Whose, and how large? Answer "no", or in JSON: {"name":"string","size?":"small | large"}',
  })
  for (const wrong of ['ann', '{}', '[1]', '{"name":7}', '{"name":"ann","size":"huge"}', 'yes'])
    t.match(await refusal(team.answer(of.questionId, wrong)), { code: 'CONFIGURATION', details: { path: 'answer' } })
  await team.answer(of.questionId, '{"name":"ann"}')
  await team.clock.advance(0)
  await team.answer(question()!.questionId, 'no')
  t.match(await result, { success: true, finalOutput: '{"name":"ann"} no' })
})

t.test('a question that nobody could be asked fails its tool, with what to do', async (t) => {
  const cyclic: { of?: object } = {}
  cyclic.of = cyclic
  const wrong: [question: string, options: object, RegExp][] = [
    ['', {}, /question is ""/],
    ['Which?', { choices: [] }, /choices is an empty list/],
    ['Which?', { choices: ['a'], form: { type: 'object' } }, /form is .* no choices beside it/],
    ['Which?', { form: cyclic }, /ask: form: form/],
    ['Which?', { ask: 'approval', tool: 'pay' }, /ask: ask: there is no such field/],
    ['Which?', { key: 7 }, /ask: key: it is 7/],
  ]
  const { team, result } = await begun(t, async ({ ask }) => {
    const said: string[] = []
    for (const [question, options] of wrong) said.push((await refusal(ask(question, options))).message)
    void ask('One?', { key: 'k' })
    return [...said, (await refusal(ask('Another?', { key: 'k' }))).message].join('\n')
  })
  const finalOutput = (await result).finalOutput ?? ''
  for (const [i, [, , text]] of wrong.entries()) t.match(finalOutput.split('\n')[i], text)
  t.match(finalOutput, /"k" is the key of another question/)
  t.same(team.questions('one'), [])
  for (const isolate of [true, false]) {
    const { call } = desk(t, [{ module: toolModule('asking'), ...(isolate && { isolate }) } as never])
    t.match((await call('asking', {})).outcomes, [{ code: 'TOOL_FAILED', message: /another thread.*Give it inline/ }])
  }
})

/** A desk that asks where to ship a thing, and ships it. `sent`: the keys of the calls. */
function shop(t: Test, disk: MemoryDisk, sent: string[], idempotent: boolean, startAt: number, question = 'Where to?') {
  const ship = defineTool({
    name: 'ship',
    description: 'Ships.',
    input: z.object({}),
    idempotent,
    async run(_input, { ask, idempotencyKey }) {
      const where = await ask(question)
      sent.push(idempotencyKey)
      return where
    },
  })
  const clock = virtualClock({ startAt })
  const team = createTeam({
    agents: [{ name: 'ann', module: callerModule, tools: [ship], limits: { turnTimeoutMs: 60_000 } }],
    orchestration: {
      strategy: 'custom',
      run: async (script, call) => JSON.stringify((await script.request('ann', call)).structuredData),
    },
    supervision: { watchdogMs: 2 * DAY_MS },
    stateManagement: { store: new MemoryStore(disk) },
    logger: silent,
    clock,
  })
  t.teardown(() => team.close())
  return { team, clock }
}

/** Waits until nobody has to be told of it: the question of a call that was made again is an old one. */
async function questionOf({ team, clock }: ReturnType<typeof shop>) {
  while (team.questions('one').length === 0) {
    await clock.advance(0)
    await nextTurn()
  }
  return team.questions('one')[0]!
}

t.test('after a restart a tool that may run again finds its question, and one that may not is in doubt', async (t) => {
  for (const [idempotent, expected] of [
    [true, { success: true, finalOutput: /north/ }],
    [false, { success: true, finalOutput: /may have happened, or not/ }],
  ] as const)
    for (const answered of [false, true]) {
      const [disk, sent] = [new MemoryDisk(), [] as string[]]
      const before = shop(t, disk, sent, idempotent, 0)
      await before.team.start()
      before.team.launch(asked('ship', {}), { runId: 'one' })
      const question = await questionOf(before)
      await before.clock.advance(DAY_MS)
      await before.team.flush()
      await before.team.close()
      const { questionId } = question
      const store = new MemoryStore(disk)
      if (answered) await answerInLog(store, questionId, 'north', { by: { id: 'eve' } }).then(() => store.close())
      const after = shop(t, disk, sent, idempotent, DAY_MS)
      await after.team.start()
      if (idempotent && !answered) {
        t.match(await questionOf(after), { questionId, askedAt: question.askedAt })
        await after.clock.advance(59_000)
        await after.team.answer(questionId, 'north')
      }
      t.match(await after.team.getRun('one')!.result, expected, `idempotent: ${idempotent}, answered: ${answered}`)
      t.equal(sent.length, idempotent ? 1 : 0)
    }
})

t.test('after a restart another question is asked, whatever the first was answered', async (t) => {
  const [disk, sent] = [new MemoryDisk(), [] as string[]]
  const before = shop(t, disk, sent, true, 0)
  await before.team.start()
  before.team.launch(asked('ship', {}), { runId: 'one' })
  const { questionId } = await questionOf(before)
  await before.team.flush()
  await before.team.close()
  const store = new MemoryStore(disk)
  await answerInLog(store, questionId, 'north', { by: { id: 'eve' } }).then(() => store.close())
  const after = shop(t, disk, sent, true, 0, 'Where to at last?')
  await after.team.start()
  const question = await questionOf(after)
  t.match(question, { text: 'Where to at last?' })
  await after.team.answer(question.questionId, 'south')
  t.match(await after.team.getRun('one')!.result, { success: true, finalOutput: /south/ })
})
