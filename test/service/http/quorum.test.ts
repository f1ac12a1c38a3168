/** Approvals by several people and of groups: who has agreed, to what, and what happens when somebody changes it. */

import { createHash } from 'node:crypto'
import type { Test } from 'tap'
import t from 'tap'
import { z } from 'zod'
import { type ApprovalPolicy, defineAgent, defineTool, type RuntimeEvent } from '../../../src/index.ts'
import { httpApi } from '../../../src/service/api/index.ts'
import { testTeam } from '../../../src/testing.ts'
import { silent } from '../../kit/team.ts'
import { callerOf, type Sent, send } from './stage.ts'

const EDITED = { approved: true, input: { cents: 1 } }
const BOB = 'bob:approve::finance'
const EVE = 'eve:approve::finance,legal'

/** A desk that pays if people agree. Callers: `id:rights:tenant:groups`. */
function desk(t: Test, approval: ApprovalPolicy<{ cents: number }>, approveOwn = false) {
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
  const { paid, begin, listed } = desk(t, { groups: ['finance'], quorum: 2 })
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
    const { api, paid, begin, listed } = desk(t, { by, groups: ['finance'] })
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
    const { paid, begin } = desk(t, { groups: ['finance'], quorum: 2 })
    const { answer, result, events } = await begin('ann:run')
    t.equal((await answer(BOB, 'yes')).status, 204)
    t.equal((await answer(who, { approved: false, reason: 'too much' })).status, 204)
    t.match(await result(), { finalOutput: /did not agree.*too much/ })
    t.same(paid, [])
    t.match(await events('question.closed'), [{ answer: 'no', by: [{ id: who.split(':')[0] }] }])
  }
})

t.test('a yes with another input voids the earlier ones, and is one itself', async (t) => {
  const { paid, begin, listed } = desk(t, { quorum: 2 })
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
  const { begin } = desk(t, { quorum: 2 })
  const { shown, answer } = await begin('ann:run')
  const long = { approved: true, input: { cents: 1, note: 'x'.repeat(20_001) } }
  for (const wrong of [{ approved: true, input: { cents: 'x' } }, long])
    t.equal((await answer('bob:approve', wrong)).status, 422)
  t.match(shown(), { input: { cents: 500 }, agreed: [] })
})

t.test('an approval takes the digest of what was shown', async (t) => {
  const { paid, begin } = desk(t, {})
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
  const { api, begin, paid } = desk(t, {})
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
  const { api, begin, listed, paid } = desk(t, {})
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
  const { team, begin, paid } = desk(t, { groups: ['finance'], quorum: 2 })
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
  const { team, begin, paid } = desk(t, { quorum: 2 })
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
