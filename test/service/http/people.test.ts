/** What people do to a task over HTTP: they approve calls, alone or several of them, and say words to it. */
import { createHash } from 'node:crypto'
import t, { type Test } from 'tap'
import { z } from 'zod'
import { textOf } from '../../../src/actors/definition/content.ts'
import {
  type ApprovalPolicy,
  defineAgent,
  defineTool,
  type MultiAgentPatternOptions,
  type RuntimeEvent,
} from '../../../src/index.ts'
import { type HttpApiOptions, httpApi } from '../../../src/service/api/index.ts'
import { testTeam } from '../../../src/testing.ts'
import { gate, silent } from '../../kit/team.ts'
import { FakeModel } from '../../models/fake-model.ts'
import { callerOf, type Sent, send } from './stage.ts'

// An approval is given by somebody else than the caller of the task, unless its tool or the service says otherwise.

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

// Approvals by several people and of groups: who has agreed, to what, and what happens when somebody changes it.

const BOB = 'bob:approve::finance'
const EVE = 'eve:approve::finance,legal'

/** A desk that pays if people agree. Callers: `id:rights:tenant:groups`. */
function deskOfSeveral(t: Test, approval: ApprovalPolicy<{ cents: number }>, approveOwn = false) {
  const paid: number[] = []
  const pay = defineTool({
    name: 'pay',
    description: 'Pays.',
    input: z.object({ cents: z.number() }),
    approval,
    answerWithinMs: 86_400_000,
    run: ({ cents }) => paid.push(cents),
  })
  const team = testTeam(
    { agents: [{ name: 'worker', tools: [pay] }], orchestration: { strategy: 'sequential' }, logger: silent },
    {
      modules: {
        worker: defineAgent({
          receive: async (_message, context) =>
            context.tool(pay, { cents: 500 }).then(
              () => 'paid',
              (error: Error) => error.message,
            ),
        }),
      },
    },
  )
  const api = httpApi({
    teams: { desk: team },
    authorize: callerOf,
    logger: silent,
    approveOwn,
    limits: { postsPerSecond: 10_000, getsPerSecond: 10_000 },
  })
  t.teardown(async () => {
    await api.close()
    await team.close()
  })
  const begin = async (caller: string) => {
    const headers = { prefer: 'respond-async' }
    const { body } = await send(api, 'POST', '/api/tasks', { caller, body: { query: 'go' }, headers })
    const id: string = body.id
    while (team.questions(id).length === 0) await new Promise(setImmediate)
    const { questionId } = team.questions(id)[0]!
    const shown = () => team.questions(id)[0]!
    const answer = (by: string, given: unknown, digest: string | undefined = shown()?.digest): Promise<Sent> =>
      send(api, 'POST', `/api/tasks/${id}/answers`, { caller: by, body: { questionId, answer: given, digest } })
    const events = async (...types: RuntimeEvent['type'][]) => {
      const found: RuntimeEvent<unknown>[] = []
      for await (const event of team.getRun(id)!.events({ types, follow: false })) found.push(event)
      return found
    }
    return { id, questionId, shown, answer, events, result: () => team.getRun(id)!.result }
  }
  const listed = async (caller: string) => (await send(api, 'GET', '/api/questions', { caller })).body.questions
  return { team, api, paid, begin, listed }
}

t.test('two people have to agree: two yeses of one are one', async (t) => {
  const { paid, begin, listed } = deskOfSeveral(t, { groups: ['finance'], quorum: 2 })
  const { shown, answer, events, result } = await begin('ann:run,approve::finance')
  const { digest, runId, agent, tool, callId, text, choices } = shown()
  const policy = { by: 'others', groups: ['finance'], quorum: 2 }
  const all = { agent, call: callId, choices, input: { cents: 500 }, policy, run: runId, text, tool } // keys in order
  t.equal(digest, createHash('sha256').update(JSON.stringify(all)).digest('hex'), 'of all that is shown')
  t.match(await listed(BOB), [{ by: 'others', groups: ['finance'], quorum: 2, agreed: [], digest, refusal: null }])
  const own = await answer('ann:run,approve::finance', 'yes')
  t.match(own, { status: 403, body: { code: 'ANSWER_REFUSED' } })
  t.equal(own.body.detail, 'ann began this run and cannot approve it; finance may.')
  t.equal((await answer('ann:run,approve::finance', EDITED)).status, 403)
  t.match(await answer('joe:approve::sales', 'yes'), { status: 403, body: { detail: 'joe is in none of: finance.' } })
  t.match(await answer('joe:approve', 'yes'), { status: 403, body: { detail: 'joe is in none of: finance.' } })
  t.equal((await answer(BOB, 'yes')).status, 204)
  t.match(await listed(BOB), [{ agreed: [{ id: 'bob' }], refusal: 'bob has agreed already; 1 more is needed.' }])
  const twice = await answer(BOB, 'yes')
  t.match(twice, { status: 409, body: { code: 'ANSWER_REFUSED', detail: 'bob has agreed already; 1 more is needed.' } })
  t.same(paid, [])
  t.equal((await answer(EVE, { approved: true })).status, 204)
  t.match(await result(), { success: true, finalOutput: 'paid' })
  t.same(paid, [500])
  t.match(await events('question.voted'), [
    { by: 'bob', digest },
    { by: 'eve', digest },
  ])
  t.match(await events('question.closed'), [
    { how: 'answered', answer: 'yes', by: [{ id: 'bob' }, { id: 'eve' }], digest },
  ])
})

t.test('who has told the run what to do counts as one who began it', async (t) => {
  const OP = 'oda:run,watch,operate,approve::finance'
  for (const by of ['others', 'anybody'] as const) {
    const { api, paid, begin, listed } = deskOfSeveral(t, { by, groups: ['finance'] })
    const { id, answer, result } = await begin('ann:run')
    t.match(await listed(OP), [{ refusal: null }])
    const steered = await send(api, 'POST', `/api/tasks/${id}/steer`, { caller: OP, body: { words: 'Pay 500.' } })
    t.equal(steered.status, 202)
    const mayPay = by === 'anybody'
    const refusal = mayPay ? null : 'oda has told this run what to do and cannot approve it; finance may.'
    t.match(await listed(OP), [{ steeredBy: ['oda'], refusal }])
    t.equal((await answer(OP, 'yes')).status, mayPay ? 204 : 403)
    if (!mayPay) t.same(paid, [])
    if (!mayPay) t.equal((await answer(BOB, 'yes')).status, 204, 'somebody else may')
    t.match(await result(), { finalOutput: 'paid' })
  }
})

t.test('one no refuses, also of somebody who has agreed before', async (t) => {
  for (const who of [BOB, EVE]) {
    const { paid, begin } = deskOfSeveral(t, { groups: ['finance'], quorum: 2 })
    const { answer, result, events } = await begin('ann:run')
    t.equal((await answer(BOB, 'yes')).status, 204)
    t.equal((await answer(who, { approved: false, reason: 'too much' })).status, 204)
    t.match(await result(), { finalOutput: /did not agree.*too much/ })
    t.same(paid, [])
    t.match(await events('question.closed'), [{ answer: 'no', by: [{ id: who.split(':')[0] }] }])
  }
})

t.test('a yes with another input voids the earlier ones, and is one itself', async (t) => {
  const { paid, begin, listed } = deskOfSeveral(t, { quorum: 2 })
  const { shown, answer, events, result } = await begin('ann:run')
  const first = shown().digest
  t.equal((await answer('bob:approve', 'yes')).status, 204)
  t.equal((await answer('eve:approve', EDITED)).status, 204)
  const { digest, input, text, agreed } = shown()
  t.not(digest, first)
  t.match({ input, text, agreed }, { input: { cents: 1 }, text: /with \{"cents":1\}\?$/, agreed: [{ id: 'eve' }] })
  t.match(await answer('joe:approve', 'yes', first), {
    status: 409,
    body: { code: 'ANSWER_REFUSED', detail: 'The input has changed since it was shown: look again.' },
  })
  t.equal((await answer('eve:approve', EDITED)).status, 409, 'the same input again is the same yes')
  t.match(await listed('bob:approve'), [{ refusal: null, agreed: [{ id: 'eve' }] }])
  t.same(paid, [])
  t.equal((await answer('bob:approve', 'yes')).status, 204)
  await result()
  t.same(paid, [1])
  const [, edited] = await events('question.voted')
  t.match(edited, { by: 'eve', digest, input: { cents: 1 } })
  t.match(await events('question.closed'), [
    { answer: 'yes', input: { cents: 1 }, by: [{ id: 'eve' }, { id: 'bob' }], digest },
  ])
})

t.test('an input that misses the schema, or that nobody can be shown, is no yes', async (t) => {
  const { begin } = deskOfSeveral(t, { quorum: 2 })
  const { shown, answer } = await begin('ann:run')
  const long = { approved: true, input: { cents: 1, note: 'x'.repeat(20_001) } }
  for (const wrong of [{ approved: true, input: { cents: 'x' } }, long])
    t.equal((await answer('bob:approve', wrong)).status, 422)
  t.match(shown(), { input: { cents: 500 }, agreed: [] })
})

t.test('an approval takes the digest of what was shown', async (t) => {
  const { paid, begin } = deskOfSeveral(t, {})
  const { shown, answer, result } = await begin('ann:run')
  const { digest } = shown()
  for (const given of ['yes', 'no', EDITED]) {
    t.equal((await answer('bob:approve', given, 'another')).status, 409)
  }
  t.same(paid, [])
  t.equal((await answer('bob:approve', 'yes', digest)).status, 204)
  await result()
  t.same(paid, [500])
})

t.test('an answer without the digest is refused, and one by the caller for that reason first', async (t) => {
  const { api, begin, paid } = deskOfSeveral(t, {})
  const { id, questionId } = await begin('ann:run,approve')
  const bare = (caller: string, answer: unknown) =>
    send(api, 'POST', `/api/tasks/${id}/answers`, { caller, body: { questionId, answer } })
  for (const given of ['yes', 'no', EDITED]) {
    t.match(await bare('bob:approve', given), { status: 422, body: { detail: /^digest: / } })
    t.match(await bare('ann:run,approve', given), { status: 403 })
  }
  t.same(paid, [])
})

t.test('a caller with a tenant sees and answers questions of that tenant alone', async (t) => {
  const { api, begin, listed, paid } = deskOfSeveral(t, {})
  const acme = await begin('ann:run:acme')
  const zeta = await begin('zoe:run:zeta')
  const none = await begin('nan:run')
  const ids = async (caller: string) => (await listed(caller)).map(({ taskId }: { taskId: string }) => taskId).sort()
  t.same(await ids('bob:approve:acme'), [acme.id])
  t.same(await ids('bob:watch,approve:acme'), [acme.id])
  t.same(await ids('op:approve'), [acme.id, zeta.id, none.id].sort())
  const watched = async (caller: string) => {
    const gone = new AbortController()
    const request = new Request('http://localhost/api/watch', { headers: { 'x-caller': caller }, signal: gone.signal })
    const { body } = await api.fetch(request)
    for await (const piece of body!.pipeThrough(new TextDecoderStream())) {
      const line = /data: (.*snapshot.*)/.exec(piece)?.[1]
      if (line === undefined) continue
      gone.abort()
      return JSON.parse(line)
        .snapshot.questions.map(({ runId }: { runId: string }) => runId)
        .sort()
    }
  }
  t.same(await watched('bob:watch:acme'), [acme.id])
  t.same(await watched('op:watch'), [acme.id, zeta.id, none.id].sort())
  t.equal((await zeta.answer('bob:approve:acme', 'yes')).status, 404)
  t.equal((await none.answer('bob:operate,approve:acme', 'yes')).status, 404)
  t.equal((await acme.answer('bob:approve:acme', 'yes')).status, 204)
  await acme.result()
  t.equal((await none.answer('op:approve', 'yes')).status, 204)
  await none.result()
  t.same(paid, [500, 500])
})

t.test('the program says who answers where several have to, and is believed', async (t) => {
  const { team, begin, paid } = deskOfSeveral(t, { groups: ['finance'], quorum: 2 })
  const { questionId, shown, result } = await begin('ann:run')
  for (const given of ['yes', 'no'])
    await t.rejects(team.answer(questionId, given), { code: 'CONFIGURATION', details: { path: 'by' } })
  const by = (id: string, groups = ['finance']) => ({ by: { id, groups } })
  await t.rejects(team.answer(questionId, 'yes', by('joe', [])), {
    code: 'ANSWER_REFUSED',
    message: 'joe is in none of: finance.',
  })
  await t.rejects(team.answer(questionId, 'yes', { ...by('bob'), digest: 'x' }), {
    code: 'ANSWER_REFUSED',
    details: { how: 'changed' },
  })
  await team.answer(questionId, 'yes', { ...by('bob'), digest: shown().digest! })
  await t.rejects(team.answer(questionId, 'yes', by('bob')), { code: 'ANSWER_REFUSED', details: { how: 'agreed' } })
  await team.answer(questionId, 'yes', by('eve'))
  await result()
  t.same(paid, [500])
})

t.test('time refuses, and never approves', async (t) => {
  const { team, begin, paid } = deskOfSeveral(t, { quorum: 2 })
  const { answer, shown, result, events } = await begin('ann:run')
  const { answerBy, askedAt } = shown()
  t.equal(answerBy, askedAt + 86_400_000)
  t.equal((await answer('bob:approve', 'yes')).status, 204)
  const ended = result()
  await team.clock.advance(86_400_000)
  t.match(await ended, { finalOutput: /Nobody answered the question/ })
  t.same(paid, [])
  t.match(await events('question.closed'), [{ how: 'late' }])
})

// Words to a task while it works, over HTTP: who may say them, what is refused, and what the task shows of them.

/** A desk whose model answers once it may. */
async function heldDesk(t: Test, options: Partial<MultiAgentPatternOptions> = {}) {
  const [asked, held] = [gate(), gate()]
  const model = new FakeModel(async (_request, nth) => {
    asked.open()
    await held.opened
    return `answer ${nth}`
  })
  const team = testTeam(
    { agents: [{ name: 'ann' }], orchestration: { strategy: 'sequential' }, logger: silent, ...options },
    { model },
  )
  const api = httpApi({ teams: { desk: team }, authorize: callerOf, logger: silent })
  t.teardown(async () => {
    held.open()
    await api.close()
    await team.close()
  })
  const ask = (method: string, path: string, body?: unknown, caller = 'joe:run') =>
    send(api, method, path, { ...(body !== undefined && { body }), caller, headers: { prefer: 'respond-async' } })
  const task = (await ask('POST', '/api/tasks', { query: 'How long?', threadId: 'joe' })).body
  const path = `/api/tasks/${task.id}`
  await asked.opened
  return { ask, path, held, model }
}

t.test('words are taken, and the task shows who has read them', async (t) => {
  const { ask, path, held, model } = await heldDesk(t)
  const sent = await ask('POST', `${path}/steer`, { words: 'In metres.', id: 'a' })
  t.match(sent, { status: 202, body: { id: 'a', text: 'In metres.', to: null, by: 'joe', readBy: [], settled: null } })
  t.equal((await ask('POST', `${path}/steer`, { words: 'In metres.', id: 'a' })).body.at, sent.body.at)
  held.open()
  const { body } = await ask('GET', `${path}?wait=30`)
  t.match(body, { status: 'finished', answer: 'answer 1', steers: [{ id: 'a', readBy: ['ann'], settled: 'read' }] })
  t.equal(textOf(model.requests[1]!.messages.at(-1)!.content), 'In metres.')
  t.match(await ask('POST', `${path}/steer`, { words: 'In feet.' }), {
    status: 409,
    body: {
      code: 'RUN_ENDED',
      detail: 'The task has ended; send it as the next message of thread "joe".',
    },
  })
})

t.test('those of others take the right to operate', async (t) => {
  const { ask, path } = await heldDesk(t)
  const words = { words: 'Stop.' }
  t.equal((await ask('POST', `${path}/steer`, words, 'eve:run')).status, 404)
  t.equal((await ask('POST', `${path}/steer`, words, 'eve:watch')).status, 403)
  t.match(await ask('POST', `${path}/steer`, words, 'eve:operate'), { status: 202, body: { by: 'eve' } })
})

t.test('an interruption cuts the call, and what cannot be said is refused', async (t) => {
  const input = [{ name: 'bombs', check: (text: string) => (text.includes('bomb') ? { refuse: 'No.' } : undefined) }]
  const { ask, path, held, model } = await heldDesk(t, { guardrails: { input } })
  t.match(await ask('POST', `${path}/steer`, { words: 'a bomb' }), { status: 422, body: { code: 'GUARDRAIL' } })
  t.match(await ask('POST', `${path}/steer`, { words: 'x', to: 'eve' }), {
    status: 422,
    body: { code: 'UNKNOWN_AGENT' },
  })
  for (const body of [{}, { words: '' }, { words: 'x', when: 'now' }, { words: 'x', by: 'eve' }])
    t.equal((await ask('POST', `${path}/steer`, body)).status, 422)
  t.equal((await ask('POST', `${path}/steer`, { words: 'Stop: metres!', when: 'interrupt' })).status, 202)
  held.open()
  t.match((await ask('GET', `${path}?wait=30`)).body, { status: 'finished', steers: [{ settled: 'read' }] })
  t.match(model.requests.length, 2)
})

t.test('events tell of words and who has read them', async (t) => {
  const { ask, path, held } = await heldDesk(t)
  await ask('POST', `${path}/steer`, { words: 'In metres.' })
  held.open()
  await ask('GET', `${path}?wait=30`)
  const { body } = await ask('GET', `${path}/events?types=steer,steer.read,steer.unread`)
  t.same(
    [...body.matchAll(/^event: (.*)$/gm)].map(([, type]) => type),
    ['steer', 'steer.read'],
  )
  t.match(body, /"text":"In metres."/)
})
