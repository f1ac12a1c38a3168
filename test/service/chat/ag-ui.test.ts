/** The events of AG-UI: what its client asks is answered in order, and interrupts are answered by who may. */
import t from 'tap'
import { served } from './desk.ts'

interface Event {
  readonly type: string
  readonly [field: string]: unknown
}
type Service = Awaited<ReturnType<typeof served>>

const user = (id: string, content: string) => ({ id, role: 'user', content })

/** Sends a request of AG-UI. Resolves to its events. */
async function run({ ask }: Service, body: object, caller = 'ann:run'): Promise<Event[]> {
  const { status, text } = await ask('POST', '/ag-ui/shop', { caller, body: { threadId: 'c', runId: 'r', ...body } })
  if (status !== 200) throw new Error(`${status} ${text}`)
  return text.split('\n\n').flatMap((frame) => (frame.startsWith('data: ') ? [JSON.parse(frame.slice(6))] : []))
}

const shown = (events: Event[]) =>
  events
    .filter(({ type }) => type !== 'CUSTOM')
    .map(({ type, delta, content }) => `${type} ${delta ?? content ?? ''}`.trim())

const interruptsIn = (events: Event[]): { id: string; message: string; toolCallId: string }[] =>
  Object(events.at(-1)!.outcome).interrupts

t.test('words, thoughts and calls of tools are events in their order', async (t) => {
  const service = await served(t)
  const said = await run(service, { messages: [user('1', 'think twice')] })
  t.same(shown(said), [
    'RUN_STARTED',
    'REASONING_START',
    'REASONING_MESSAGE_START',
    'REASONING_MESSAGE_CONTENT about twice',
    'REASONING_MESSAGE_END',
    'REASONING_END',
    'TEXT_MESSAGE_START',
    'TEXT_MESSAGE_CONTENT thought',
    'TEXT_MESSAGE_END',
    'RUN_FINISHED',
  ])
  t.match(said.at(-1), { threadId: 'c', runId: 'r', outcome: { type: 'success' }, result: 'thought' })
  const found = await run(service, { messages: [user('2', 'use find lamp')] })
  t.same(shown(found).slice(4, 8), [
    'TOOL_CALL_START',
    'TOOL_CALL_ARGS {"what":"lamp"}',
    'TOOL_CALL_END',
    'TOOL_CALL_RESULT {"done":"lamp"}',
  ])
  const again = await run(service, {
    messages: [user('2', 'use find lamp'), { id: 'x', role: 'assistant', content: 'par' }],
  })
  t.same(
    [again[1], service.done],
    [{ type: 'MESSAGES_SNAPSHOT', messages: [user('2', 'use find lamp')] }, ['find lamp']],
  )
  t.same(shown(again).slice(2), shown(found).slice(1), 'what is sent again joins')
})

t.test('an approval is an interrupt, which the next run answers', async (t) => {
  const service = await served(t)
  const messages = [user('1', 'use buy lamp')]
  const asked = await run(service, { messages })
  const [interrupt] = interruptsIn(asked)
  t.match(interrupt, { message: /buy.*lamp/, reason: 'tool_call' })
  t.equal(asked.find(({ type }) => type === 'TOOL_CALL_START')!.toolCallId, interrupt!.toolCallId)
  const resume = (payload: unknown, status = 'resolved') => [{ interruptId: interrupt!.id, status, payload }]
  const bought = await run(service, { runId: 's', messages, resume: resume({ approved: true }) })
  t.same(shown(bought), [
    'RUN_STARTED',
    'TOOL_CALL_RESULT {"done":"lamp"}',
    'TEXT_MESSAGE_START',
    'TEXT_MESSAGE_CONTENT result: {"done":"lamp"}',
    'TEXT_MESSAGE_END',
    'RUN_FINISHED',
  ])
  const again = await run(service, { runId: 's', messages, resume: resume({ approved: true }) })
  t.same([shown(again), service.done], [shown(bought), ['buy lamp']], 'what is sent again joins')
})

t.test('whatever does not agree to a call is a no', async (t) => {
  const service = await served(t)
  for (const [at, [status, payload]] of [
    ['resolved', undefined],
    ['resolved', 'yes'],
    ['resolved', { approved: 'true' }],
    ['cancelled', { approved: true }],
  ].entries()) {
    const messages = [user(`${at}`, 'use buy lamp')]
    const [interrupt] = interruptsIn(await run(service, { messages }))
    const denied = await run(service, { messages, resume: [{ interruptId: interrupt!.id, status, payload }] })
    t.match(shown(denied)[1], /^TOOL_CALL_RESULT It was not approved/)
  }
  t.same(service.done, [])
})

t.test('a question with a form is an interrupt that takes its object', async (t) => {
  const service = await served(t)
  const messages = [user('1', 'use ship lamp')]
  const [interrupt] = interruptsIn(await run(service, { messages }))
  t.match(interrupt, { reason: 'input_required', responseSchema: { required: ['street'] } })
  const resume = (payload: unknown) => [{ interruptId: interrupt!.id, status: 'resolved', payload }]
  await t.rejects(run(service, { messages, resume: resume({ city: 'Rome' }) }), /^422 .*street/)
  const shipped = await run(service, { messages, resume: resume({ street: 'Main Street' }) })
  t.match(shown(shipped).join(), /TOOL_CALL_RESULT .*Main Street/)
})

t.test('who has asked answers no approval of others, by whatever request', async (t) => {
  const service = await served(t)
  const { team, done, ask } = service
  const messages = [user('1', 'use pay rent')]
  const sent = run(service, { messages })
  while (team.questions().length === 0) await new Promise(setImmediate)
  const { runId, questionId, digest } = team.questions()[0]!
  for (const caller of ['ann:run', 'ann:run,approve', 'ann:run,watch,operate,approve'])
    for (const payload of [{ approved: true }, { approved: true, input: { what: 'less' } }, { approved: false }]) {
      const resume = [{ interruptId: `${runId}.0.${questionId}.${digest}`, status: 'resolved', payload }]
      await t.rejects(run(service, { messages, resume }, caller), /^403 .*(cannot approve it|right approve)/)
      await t.rejects(run(service, { messages, resume }, caller.replace('ann', 'bob')), /^404 /)
    }
  t.same([done, team.questions().length], [[], 1])
  const answer = { questionId, answer: 'yes', digest }
  t.equal((await ask('POST', `/api/tasks/${runId}/answers`, { caller: 'bob:approve', body: answer })).status, 204)
  const events = await sent
  t.match(
    events.filter(({ name }) => /waiting|answered/.test(`${name}`)),
    [{ name: 'dramatis.waiting', value: { waitsFor: /somebody else/ } }, { name: 'dramatis.answered' }],
  )
  t.same([interruptsIn(events), done], [undefined, ['pay rent']], 'nothing was offered')
})

t.test('what no team takes is refused by its name', async (t) => {
  const service = await served(t)
  const table: [body: object, said: RegExp][] = [
    [{ messages: [] }, /400 .*messages: There is none of a user/],
    [{ messages: [user('1', ' ')] }, /400 .*messages\[0\]\.content: It has no words/],
    [
      { messages: [{ ...user('1', ''), content: [{ type: 'image' }] }] },
      /400 .*messages\[0\]\.content\[0\]: Only text/,
    ],
    [{ messages: [{ ...user('1', ''), content: [null] }] }, /400 .*messages\[0\]\.content\[0\]: Only text/],
    [{ messages: [], resume: [{ interruptId: 'x', status: 'resolved', payload: 'x' }] }, /404/],
    [{ messages: [], resume: [{ interruptId: 'x', status: 'resolved' }] }, /400 .*resume\[0\]\.payload: A question/],
    [{ messages: [], resume: Array(101).fill({ interruptId: 'x', status: 'cancelled' }) }, /422 .*resume/],
    [{ messages: [], resume: Array(2).fill({ interruptId: 'x', status: 'cancelled' }) }, /400 .*answered twice/],
  ]
  for (const [body, said] of table) await t.rejects(run(service, body), said)
  t.equal(
    (await service.ask('POST', '/ag-ui/nobody', { body: { threadId: 'c', runId: 'r', messages: [user('1', 'x')] } }))
      .status,
    404,
  )
})
