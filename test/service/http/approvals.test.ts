/** An approval is given by somebody else than the caller of the task, unless its tool or the service says otherwise. */

import type { Test } from 'tap'
import t from 'tap'
import { z } from 'zod'
import { type ApprovalPolicy, defineAgent, defineTool } from '../../../src/index.ts'
import { type HttpApiOptions, httpApi } from '../../../src/service/api/index.ts'
import { testTeam } from '../../../src/testing.ts'
import { silent } from '../../kit/team.ts'
import { send } from './stage.ts'

type By = NonNullable<ApprovalPolicy['by']>

/** A desk that pays what it is told to, if somebody approves it. `caller`: `id:right,right`. */
function desk(t: Test, approval: true | ApprovalPolicy<{ cents: number }>, options: Partial<HttpApiOptions> = {}) {
  const paid: number[] = []
  const pay = defineTool({
    name: 'pay',
    description: 'Pays.',
    input: z.object({ cents: z.number() }),
    approval,
    run: ({ cents }) => paid.push(cents),
  })
  const team = testTeam(
    { agents: [{ name: 'worker', tools: [pay] }], orchestration: { strategy: 'sequential' }, logger: silent },
    {
      modules: {
        worker: defineAgent({
          async receive({ content }, context) {
            if (content === 'ask') return context.ask('Which color?')
            return `paid ${await context.tool(pay, { cents: Number(content) })}`
          },
        }),
      },
    },
  )
  const api = httpApi({
    teams: { desk: team },
    authorize: ({ headers }) => {
      const [id = '', may = ''] = headers.get('x-caller')!.split(':')
      return { id, may: may.split(',') as never }
    },
    logger: silent,
    ...options,
    limits: { postsPerSecond: 10_000 },
  })
  t.teardown(async () => {
    await api.close()
    await team.close()
  })
  const ask = (caller: string, method: string, path: string, body?: unknown) =>
    send(api, method, path, { caller, body })
  /** Begins a task that asks, and returns its id and that of its question. */
  const begin = async (caller: string, query = '500') => {
    const { body } = await send(api, 'POST', '/api/tasks', {
      caller,
      body: { query },
      headers: { prefer: 'respond-async' },
    })
    return { id: body.id as string, questionId: await questionOf(body.id) }
  }
  const questionOf = async (id: string) => {
    while (team.questions(id).length === 0) await new Promise(setImmediate)
    return team.questions(id)[0]!.questionId
  }
  /** Answers what the question shows now. */
  const answer = (caller: string, { id, questionId }: { id: string; questionId: string }, given: unknown = 'yes') => {
    const shown = team.questions().find((question) => question.questionId === questionId)
    return ask(caller, 'POST', `/api/tasks/${id}/answers`, { questionId, answer: given, digest: shown?.digest })
  }
  return { team, api, paid, ask, begin, questionOf, answer }
}

const EDITED = { approved: true, input: { cents: 1 } }

/** Status of the answer, by who may approve, what the service says, and who answers. ann has begun the task. */
const TABLE: [by: By | undefined, approveOwn: boolean, caller: string, status: number][] = [
  [undefined, false, 'ann:run', 403],
  [undefined, false, 'ann:run,approve', 403],
  [undefined, false, 'ann:run,watch,operate,approve', 403],
  [undefined, false, 'bob:approve', 204],
  [undefined, false, 'bob:run,approve', 204],
  [undefined, false, 'bob:run', 404],
  [undefined, false, 'bob:run,watch', 404],
  [undefined, false, 'bob:run,watch,operate', 403],
  [undefined, true, 'ann:run', 403],
  [undefined, true, 'ann:run,approve', 204],
  [undefined, true, 'bob:operate', 403],
  ['others', false, 'ann:run,approve', 403],
  ['others', false, 'bob:approve', 204],
  ['caller', false, 'ann:run', 204],
  ['caller', false, 'ann:run,approve', 204],
  ['caller', false, 'bob:approve', 403],
  ['caller', true, 'bob:operate,approve', 403],
  ['caller', false, 'bob:run', 404],
  ['anybody', false, 'ann:run', 204],
  ['anybody', false, 'bob:approve', 204],
  ['anybody', false, 'bob:operate', 403],
  ['anybody', false, 'bob:run', 404],
]

for (const given of ['yes', EDITED, 'no'])
  t.test(`who may answer an approval with ${JSON.stringify(given)}`, async (t) => {
    for (const [by, approveOwn, caller, status] of TABLE) {
      const { paid, begin, answer, ask, team } = desk(t, by ? { by } : true, { approveOwn })
      const task = await begin('ann:run')
      const sent = await answer(caller, task, given)
      const of = `${by} ${approveOwn} ${caller}`
      t.equal(sent.status, status, of)
      if (status === 204) await ask('ann:run', 'GET', `/api/tasks/${task.id}?wait=60`)
      else t.equal(team.questions().length, 1, `${of}: it stays open`)
      t.same(paid, status !== 204 || given === 'no' ? [] : [given === 'yes' ? 500 : 1], of)
      if (status === 404) {
        const none = await answer(caller, { ...task, id: 'none' }, given)
        t.equal(JSON.stringify(sent.body).replaceAll(task.id, 'none'), JSON.stringify(none.body), of)
      }
    }
  })

t.test('a refusal says why, and a question says so before', async (t) => {
  const { begin, answer, ask } = desk(t, true)
  const task = await begin('ann:run,watch,approve')
  const own = 'ann:run,watch,approve'
  const refused = await answer(own, task)
  t.match(refused.body, {
    code: 'ANSWER_REFUSED',
    detail: 'ann began this run and cannot approve it; somebody else who may approve can.',
  })
  const shown = async (caller: string) => (await ask(caller, 'GET', '/api/questions')).body.questions
  t.match(await shown(own), [{ by: 'others', refusal: /^ann began this run/ }])
  t.match(await shown('bob:watch'), [{ refusal: /it takes the right approve/ }])
  t.match(await shown('bob:approve'), [{ tool: 'pay', input: { cents: 500 }, refusal: null }])
  t.match((await ask(own, 'GET', `/api/tasks/${task.id}`)).body.questions, [{ refusal: /^ann began/ }])
})

t.test('who may only approve sees and answers no other question', async (t) => {
  const { begin, answer, ask, team } = desk(t, { by: 'caller' })
  const plain = await begin('ann:run', 'ask')
  const confirmation = await begin('ann:run')
  t.same((await ask('bob:approve', 'GET', '/api/questions')).body.questions, [])
  const refused = await answer('bob:approve', plain, 'red')
  const none = await answer('bob:approve', { ...plain, id: 'none' }, 'red')
  t.equal(JSON.stringify(refused.body).replaceAll(plain.id, 'none'), JSON.stringify(none.body))
  t.equal((await ask('bob:approve', 'GET', `/api/tasks/${plain.id}`)).status, 403)
  t.equal((await answer('bob:operate', plain, 'red')).status, 204, 'a plain question is answered as before')
  t.equal((await answer('ann:run', confirmation, 'yes')).status, 204)
  t.same(team.questions(), [])
  t.equal((await answer('bob:approve', plain, 'red')).status, 404)
  t.equal((await answer('bob:approve', confirmation)).status, 409, 'an approval that is answered says so')
  t.equal((await answer('bob:run', confirmation)).status, 404)
})

t.test('a run without a caller is approved by whoever may approve', async (t) => {
  for (const by of ['others', 'caller', 'anybody'] as const) {
    const { team, questionOf, answer } = desk(t, { by })
    const run = team.launch('500')
    const task = { id: run.id, questionId: await questionOf(run.id) }
    t.equal((await answer('bob:run', task)).status, 404)
    t.equal((await answer('bob:operate', task)).status, 403)
    t.equal((await answer('bob:approve', task)).status, 204)
    t.match(await run.result, { success: true })
  }
})

t.test('an answer says who has given it, and when', async (t) => {
  const { team, begin, answer, ask } = desk(t, { when: ({ cents }) => cents > 100 })
  const closedOf = async (id: string) => {
    for await (const event of team.getRun(id)!.events({ types: ['question.closed'] }))
      if (event.type === 'question.closed') return event
    throw new Error('no question was closed')
  }
  const small = await ask('ann:run', 'POST', '/api/tasks', { query: '100' })
  t.match(small.body, { status: 'finished' }, 'it needs none')
  const approved = await begin('ann:run')
  await answer('bob:approve', approved, EDITED)
  const closed = await closedOf(approved.id)
  t.match(closed, { how: 'answered', answer: 'yes', input: { cents: 1 }, by: [{ id: 'bob', at: closed.at }] })
  const plain = await begin('ann:run', 'ask')
  await answer('ann:run', plain, 'red')
  t.match(await closedOf(plain.id), { answer: 'red', by: [{ id: 'ann' }] })
  const own = await begin('ann:run', 'ask')
  await team.answer(own.questionId, 'blue')
  t.strictSame((await closedOf(own.id)).by, [], 'the program itself')
})

t.test('the program itself is enough, and is believed when it says who answers', async (t) => {
  const { team, begin, questionOf, paid } = desk(t, true)
  const own = await begin('ann:run')
  const run = team.getRun(own.id)!
  await t.rejects(run.answer(own.questionId, 'yes', { by: { id: 'ann' } }), {
    code: 'ANSWER_REFUSED',
    details: { runId: own.id, questionId: own.questionId, by: 'ann' },
  })
  for (const wrong of [{ by: 'bob' }, { by: {} }, { by: { id: '' } }, { by: { id: 'x'.repeat(257) } }, { who: 1 }])
    await t.rejects(run.answer(own.questionId, 'yes', wrong as never), { code: 'CONFIGURATION' })
  await run.answer(own.questionId, 'yes', { by: { id: 'ann' }, approveOwn: true })
  await run.result
  for (const options of [undefined, { by: { id: 'bob' } }]) {
    const next = await begin('ann:run')
    await team.answer(next.questionId, 'yes', options)
    await team.getRun(next.id)!.result
  }
  const program = team.launch('500')
  await team.answer(await questionOf(program.id), 'yes', { by: { id: 'ann' } })
  await program.result
  t.same(paid, [500, 500, 500, 500])
})

t.test('a policy that is none is refused where the tool is defined', async (t) => {
  const given = { name: 'pay', description: 'Pays.', input: z.object({}), run: () => 1 }
  const policies = [{ by: 'me' }, { when: true }, { quorum: 0 }, { quorum: 1.5 }, { quorum: 101 }, { groups: [] }]
  const more = [{ groups: ['a', 'a'] }, { groups: [''] }, { groups: 'a' }, { most: 1 }, { by: null }, [], null, 'yes']
  for (const approval of [...policies, ...more])
    t.throws(() => defineTool({ ...given, approval: approval as never }), {
      code: 'CONFIGURATION',
      message: /approval.*accepted: true, false, a function, or \{ when, by, groups, quorum \}/,
    })
})
