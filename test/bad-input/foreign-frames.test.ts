/** What an agent's thread writes that no thread of the runtime writes: refused, or the end of its life. */
import t from 'tap'
import type { OrchestratorContext } from '../../src/index.ts'
import { CLAIM } from '../../src/mailbox/channel.ts'
import {
  ASKS,
  CALL,
  CHUNK,
  END,
  FAILED,
  FRAGMENT,
  type FrameFields,
  HAS_METADATA,
  LOG,
  MANY,
  type Memory,
  PATCH,
  REJECTED,
  REQUEST,
  RESPONSE,
  RESULT,
  SEND,
  STREAMS,
  setFlag,
  TO_ALL,
} from '../../src/mailbox/frame.ts'
import { roomOf } from '../kit/accounts.ts'
import { where } from '../kit/lists.ts'
import { hostileTeam, type RawThread } from './raw-thread.ts'

// What an agent's thread writes that no thread of the runtime writes: refused by the frame, or the end of its life.

// Words of the header.
const LENGTH = 0
const BODY = 7
const TIME = 12
const FIRST_STRING = 16

const poke = (word: number, value: number) => (memory: Memory) => memory.i32.set([value], word)
const nan = (memory: Memory) => memory.f64.set([Number.NaN], TIME / 2)

/** A message to ann, spoilt in one way, and what the refusal says. */
const flaws: [what: string, flaw: RegExp, fields: Partial<FrameFields>, spoil?: (memory: Memory) => void][] = [
  ['the name of another sender', /sender is somebody else/, { sender: 4 }],
  ["the runtime's own name", /sender is somebody else/, { sender: 0 }],
  ['a body of a negative length', /strings reach beyond/, {}, poke(BODY, -8)],
  ['a body beyond the frame', /strings reach beyond/, {}, poke(BODY, 4096)],
  ['a string beyond the body', /strings reach beyond/, {}, poke(FIRST_STRING, 4096)],
  ['a string of 2 GiB', /strings reach beyond/, {}, poke(FIRST_STRING, 0x7fff_ffff)],
  ['a string that its flags name and nobody wrote', /strings reach beyond/, {}, (m) => setFlag(m, 0, HAS_METADATA)],
  ['a correlation of the host', /correlation/, { correlation: -1 }],
  ['a time that is none', /its time is none/, {}, nan],
  ['the flag of a failure', /flags/, { flags: FAILED }],
  ['a name beside its recipient', /two recipients/, { name: 'bob' }],
  ['a list of recipients', /not for whom/, { flags: MANY }],
  ['the flag of a copy', /not for whom/, { flags: TO_ALL }],
  ['the type of a response', /no agent sends a response/, { type: 'response' }],
  ['the type of a publication', /no agent sends a publish/, { type: 'publish' }],
  ['the type of a subscription', /no agent sends a subscribe/, { type: 'subscribe' }],
]

for (const [what, flaw, fields, spoil] of flaws)
  t.test(`a message with ${what} is refused, and a dead letter of its recipient`, async (t) => {
    const stage = hostileTeam(t)
    const { team, index } = stage
    await team.start()
    const { run, turn } = await stage.turn()
    stage.thread.send({ kind: SEND, recipient: index('ann'), run, turn, content: 'psst', ...fields }, spoil)
    t.same(await stage.ailments(), [])
    t.match(team.deadLetters.list(), [
      {
        reason: 'rejected',
        message: { sender: 'mallory', recipient: 'ann' },
        errors: [{ code: 'MESSAGE_REJECTED', message: flaw, details: { agent: 'mallory' } }],
      },
    ])
    t.match(stage.lines, [{ level: 'warn', agent: 'mallory', flaw }, {}])
    t.same(where(stage.heard, 'content', 'psst'), [])
    t.same(where(team.getMessageHistory(), 'content', 'psst'), [])
    t.equal(stage.mallory.epoch, 1, 'it goes on')
    t.same(await stage.leftovers(), [])
  })

/** What cannot be read on, and costs the life. */
const breaks: [what: string, spoil: (stage: ReturnType<typeof hostileTeam>, run: number, turn: number) => void][] = [
  ['a length of 0', ({ thread }, run) => thread.send({ kind: LOG, run, content: 'x' }, poke(LENGTH, 0))],
  ['a negative length', ({ thread }, run) => thread.send({ kind: LOG, run, content: 'x' }, poke(LENGTH, -16))],
  ['a length that is no multiple of 8', ({ thread }, run) => thread.send({ kind: LOG, run }, poke(LENGTH, 65))],
  ['a length less than a header', ({ thread }, run) => thread.send({ kind: LOG, run }, poke(LENGTH, 32))],
  ['a length beyond what was published', ({ thread }, run) => thread.send({ kind: LOG, run }, poke(LENGTH, 4096))],
  ['a length beyond the ring', ({ thread }, run) => thread.send({ kind: LOG, run }, poke(LENGTH, 0x7fff_fff8))],
  ['a counter past the end', ({ thread }) => jump(thread, 1 << 20)],
  ['a counter that goes backwards', ({ thread }) => jump(thread, -64)],
  ['a counter that is no multiple of 8', ({ thread }) => jump(thread, 12)],
  ['a part of a frame of 2 GiB', ({ thread }) => part(thread, 0x7fff_fff8, 0, 64)],
  ['a part without bytes', ({ thread }) => part(thread, 4096, 0, 0)],
  ['parts of what is no frame', ({ thread }) => part(thread, 64, 0, 64)],
]

for (const [what, spoil] of breaks)
  t.test(`an outbox with ${what} is the end of that life alone`, async (t) => {
    const stage = hostileTeam(t)
    await stage.team.start()
    const { run, turn, result } = await stage.turn()
    spoil(stage, run, turn)
    t.same(await stage.ailments(), [])
    t.equal(stage.mallory.epoch, 2, 'it has begun anew')
    t.match(stage.lines, [
      { level: 'error', agent: 'mallory', epoch: 1, error: /^The outbox of agent "mallory" cannot be read any more/ },
      { level: 'warn', agent: 'mallory' },
    ])
    const [again] = stage.thread.turns()
    t.equal(again?.turn, turn, 'what it had under way comes again')
    stage.thread.send({ kind: END, type: 'response', run, turn, content: 'well' })
    await stage.team.clock.advance(0)
    t.match(result.value, { success: true, finalOutput: 'well' })
    t.same(await stage.leftovers(), [])
  })

function jump(thread: RawThread, by: number) {
  thread.outbox.advance(by)
  thread.publish()
}

function part(thread: RawThread, total: number, offset: number, bytes: number) {
  const { outbox } = thread
  const at = outbox.reserve(16 + bytes)
  outbox.memory.i32.set([16 + bytes, FRAGMENT, total, offset], at >> 2)
  outbox.memory.u8.fill(0, at + 16, at + 16 + bytes)
  outbox.advance(16 + bytes)
  thread.publish()
}

/** Mallory in a turn, and the wish of its test. */
async function inTurn(t: Parameters<typeof hostileTeam>[0], options?: object) {
  const stage = hostileTeam(t, options)
  await stage.team.start()
  return { stage, ...(await stage.turn()) }
}

t.test('what only the host says is refused from a thread', async (t) => {
  const { stage, run, turn } = await inTurn(t)
  for (const kind of [0, RESPONSE, RESULT, 22, 23, 24, 25, 26, 27, 28, 29, 30, 77, 255])
    stage.thread.send({ kind, run, turn, recipient: stage.index('ann'), correlation: 1, content: 'forged' })
  t.same(await stage.ailments(), [])
  t.equal(stage.incarnation?.refusedFrames, 14)
  t.equal(stage.mallory.epoch, 1)
  t.same(stage.team.deadLetters.list(), [])
  t.same(await stage.leftovers(), [])
})

t.test('a flood of refused frames is told of ever more seldom', async (t) => {
  const { stage, run } = await inTurn(t)
  for (let n = 0; n < 1_000; n++) stage.thread.send({ kind: 99, run })
  t.same(await stage.ailments(), [])
  t.same(
    stage.lines.map((line) => 'frames' in line && line.frames),
    [1, 2, 4, 8, 16, 32, 64, 128, 256, 512],
  )
})

t.test('the end of a turn that is not open does nothing, and is in no history', async (t) => {
  const { stage, run, turn, result } = await inTurn(t)
  const fields = { kind: END, type: 'response', recipient: 2, correlation: 1, content: 'forged' } as const
  for (const wrong of [turn + 1, 0, -1]) stage.thread.send({ ...fields, run, turn: wrong })
  t.same(await stage.ailments(), [])
  t.equal(result.settled, false)
  t.equal(stage.incarnation?.refusedFrames, 3)
  t.same(where(stage.team.getMessageHistory(), 'content', 'forged'), [])
})

t.test('the end of its turn answers who asked, whomever it names', async (t) => {
  const { stage, run, turn, result } = await inTurn(t)
  stage.thread.send({
    kind: END,
    type: 'response',
    run,
    turn,
    recipient: stage.index('ann'),
    correlation: 77,
    content: 'hi',
  })
  await stage.team.clock.advance(0)
  t.match(result.value, { success: true, finalOutput: 'hi' })
  const response = stage.team.getMessageHistory().find(({ content }) => content === 'hi')
  const request = stage.team.getMessageHistory().find(({ recipient }) => recipient === 'mallory')
  t.match(response, { sender: 'mallory', recipient: '$orchestrator', correlationId: request?.id })
  t.same(await stage.leftovers(), [])
})

t.test('a failure that cannot be read is a failure', async (t) => {
  for (const data of [
    '{',
    'null',
    '5',
    '[]',
    '{"code":"__proto__"}',
    '{"code":"constructor","message":5,"details":[],"stack":7}',
  ]) {
    const { stage, run, turn, result } = await inTurn(t)
    stage.thread.send({ kind: END, type: 'response', run, turn, flags: FAILED, data })
    t.same(await stage.ailments(), [])
    t.match(result.value, { success: false, error: { code: 'AGENT_FAILED', message: /cannot be read/ } }, data)
    t.same(await stage.leftovers(), [])
  }
})

t.test('what is no JSON reads as null, for its recipient and in histories', async (t) => {
  const { stage, run, turn, result } = await inTurn(t)
  const { thread, index } = stage
  thread.send({ kind: SEND, run, turn, recipient: index('ann'), content: 'a', data: '{"half":', metadata: 'nope' })
  thread.send({ kind: SEND, run, turn, recipient: index('ann'), content: 'b', data: '1', metadata: '5' })
  thread.send({ kind: LOG, run, turn, content: 'a line', data: '{"half":', limit: 99 })
  thread.send({ kind: END, type: 'response', run, turn, content: 'c', data: '{"half":', metadata: '{"missed":5}' })
  t.same(await stage.ailments(), [])
  t.match(stage.heard, [
    { content: 'a', structuredData: null, metadata: {} },
    { content: 'b', structuredData: 1, metadata: {} },
  ])
  t.match(result.value, { success: true })
  t.same(await stage.leftovers(), [])
})

t.test('a piece of an answer that it was not asked for reaches nobody', async (t) => {
  const told: string[] = []
  const stage = hostileTeam(t, {
    orchestration: {
      strategy: 'custom',
      async run(script: OrchestratorContext) {
        void script.request('mallory', 'go')
        for await (const piece of script.requestStream('ann', 'tell')) told.push(piece)
        return 'done'
      },
    },
  })
  await stage.team.start()
  const { run, turn } = await stage.turn()
  for (let correlation = 1; correlation < 9; correlation++)
    stage.thread.send({ kind: CHUNK, flags: STREAMS, run, turn, recipient: 2, correlation, content: 'forged' })
  t.same(await stage.ailments(), [])
  t.notOk(told.includes('forged'))
})

t.test('a request under a number that is taken is refused, and the first one is answered', async (t) => {
  const { stage, run, turn } = await inTurn(t)
  for (const content of ['first', 'second'])
    stage.thread.send({ kind: REQUEST, flags: ASKS, run, turn, correlation: 5, recipient: stage.index('ann'), content })
  t.same(await stage.ailments(), [])
  t.match(stage.team.deadLetters.list(), [
    { message: { content: 'second' }, errors: [{ message: /number of a request that is open/ }] },
  ])
  t.match(stage.heard, [{ content: 'first' }])
  t.same(await stage.leftovers(), [])
})

t.test('a run that its agent takes no part in is not written to', async (t) => {
  const { stage, turn } = await inTurn(t)
  const other = stage.host.runs.open('other', 'query')
  for (const run of [other.index, 0, -1, 999])
    stage.thread.send({ kind: SEND, run, turn, recipient: stage.index('ann'), content: `to ${run}` })
  t.same(await stage.ailments(), [])
  t.match(
    stage.team.deadLetters.list().map(({ reason, message }) => [reason, message.recipient, message.content]),
    [other.index, 0, -1, 999].map((run) => ['rejected', 'ann', `to ${run}`]),
  )
  t.equal(other.log.length, 0)
  t.equal(
    roomOf(stage.host, stage.host.directory.agent('ann')!),
    stage.host.directory.agent('ann')!.settings.mailbox.capacity,
  )
})

t.test('state that is none is not kept, and its turn is answered', async (t) => {
  const patches = [{ op: 'replace', path: ['__proto__', 'polluted'], value: 1 }]
  for (const data of ['{', '5', '{}', '{"scope":"agent","patches":5}', JSON.stringify({ scope: 'agent', patches })]) {
    const { stage, run, turn, result } = await inTurn(t)
    stage.thread.send({ kind: PATCH, run, turn, data })
    stage.thread.send({ kind: END, type: 'response', run, turn, content: 'hi' })
    t.same(await stage.ailments(), [])
    t.match(result.value, { success: true, finalOutput: 'hi' }, data)
    t.match(stage.lines, [{ level: 'error', agent: 'mallory', text: /the state .* cannot be read/ }])
    t.equal(Object.hasOwn(Object.prototype, 'polluted'), false)
    t.same(await stage.leftovers(), [])
  }
})

t.test('state of turns that are not open is not kept for later', async (t) => {
  const { stage, run, turn } = await inTurn(t)
  const data = JSON.stringify({ scope: 'agent', patches: [] })
  for (let n = 0; n < 100; n++) stage.thread.send({ kind: PATCH, run, turn: turn + 1 + n, data })
  for (let n = 0; n < 100; n++) stage.thread.send({ kind: PATCH, run, turn, data })
  t.same(await stage.ailments(), [])
  t.equal(stage.incarnation?.patches.size, 1)
  t.equal(stage.incarnation?.patches.get(turn)?.length, 2)
})

t.test('a refusal that its thread tells of is its own, and small', async (t) => {
  const { stage, run, turn } = await inTurn(t)
  const tells = (told: unknown) => stage.thread.send({ kind: REJECTED, run, turn, data: JSON.stringify(told) })
  const remains = { sender: 'ann', recipient: 'bob', content: 'x'.repeat(9_999), type: 'nonsense', more: 'x' }
  tells({ remains, error: { code: 'MESSAGE_REJECTED', message: 'no' } })
  for (const told of [5, null, {}, { remains: 5 }, { remains: { recipient: { toString: 1 } }, error: 7 }]) tells(told)
  t.same(await stage.ailments(), [])
  const [letter, ...more] = stage.team.deadLetters.list()
  t.match(letter, { reason: 'rejected', message: { sender: 'mallory', recipient: 'bob', type: 'request' } })
  t.equal(letter?.message.content.length, 1_024)
  t.same(more, [])
  t.equal(stage.incarnation?.refusedFrames, 5)
})

t.test('calls of no sense are answered, or come to nothing', async (t) => {
  const { stage, run, turn } = await inTurn(t)
  const operations = ['blackboard.write', 'blackboard.read', 'blackboard.query', 'blackboard.history', 'subscribe']
  const shared = ['shared.get', 'shared.update']
  let correlation = 0
  const others = ['blackboard.waitFor', 'watch', 'sync', 'synced', 'spawn', 'decide', '__proto__', '']
  const nonsense = '{"key":5,"pattern":{},"agent":[],"name":7,"point":[],"scope":{},"owner":[]}'
  for (const content of [...operations, ...shared, ...others])
    for (const data of [undefined, '{', 'null', '5', '[]', '{}', nonsense])
      stage.thread.send({ kind: CALL, run, turn, correlation: ++correlation, content, data })
  t.same(await stage.ailments(), [])
  t.same(await stage.leftovers(), [])
})

t.test('a thread that writes to the shared state of another one changes nothing', async (t) => {
  const { stage, run, turn } = await inTurn(t, { roles: { ann: { sharedWith: ['mallory'] } } })
  const write = { scope: 'agent_shared', owner: 'ann', key: 'k', ifVersion: 0, value: 'mine' }
  const wrong = [
    write,
    { ...write, scope: 'team_shared', ifVersion: -1 },
    { ...write, scope: 'team_shared', ifVersion: '0' },
  ]
  for (const [i, data] of wrong.entries())
    stage.thread.send({
      kind: CALL,
      run,
      turn,
      correlation: i + 1,
      content: 'shared.update',
      data: JSON.stringify(data),
    })
  t.same(await stage.ailments(), [])
  const caller = {
    agent: stage.mallory,
    turn,
    correlation: 9,
    callId: 'call',
    run: stage.host.runs.get(run)!,
    say: () => {},
  }
  const read = stage.host.calls.verbs.get('shared.get')!
  for (const { scope } of wrong.slice(0, 2)) {
    const args = { scope, key: 'k', ...(scope === 'agent_shared' && { owner: 'ann' }) }
    t.same(await read(args, caller, new AbortController().signal), { version: 0 }, scope)
  }
  t.same(await stage.leftovers(), [])
})

t.test('an arrival at a sync point is that of a turn, and only a script watches one', async (t) => {
  const { stage, run, turn } = await inTurn(t, {
    syncPoints: [{ name: 'meet', requiredAgents: ['mallory', 'ann'], timeoutMs: 1_000 }],
  })
  const waiting = () =>
    [...stage.host.syncPoints.open].flatMap(({ arrived, watchers }) =>
      [...arrived, ...watchers].map(({ turn, correlation }) => ({ turn, correlation })),
    )
  const data = '{"point":"meet"}'
  stage.thread.send({ kind: CALL, run, turn: turn + 7, correlation: 1, content: 'sync', data })
  stage.thread.send({ kind: CALL, run, turn, correlation: 2, content: 'synced', data })
  t.same(await stage.ailments(), [])
  t.same(waiting(), [])
  stage.thread.send({ kind: CALL, run, turn, correlation: 3, content: 'sync', data })
  t.same(await stage.ailments(), [])
  t.same(waiting(), [{ turn, correlation: 3 }])
  t.same(await stage.leftovers(), [])
  t.same(waiting(), [])
})

t.test('a mailbox takes no more than it has room for, whatever a thread says that it has claimed', async (t) => {
  const communication = { mailboxCapacity: 4 }
  const { stage, run, turn } = await inTurn(t, { roles: { ann: { communication } } })
  const ann = stage.host.directory.agent('ann')!
  const { outbox } = stage.thread
  for (let n = 0; n < 100; n++) {
    const { memory, bytes } = stage.thread.frame({ kind: SEND, run, turn, recipient: ann.index, content: `${n}` })
    outbox.copy(memory.u8, 0, bytes)
  }
  outbox.publish()
  stage.host.router.drain(stage.mallory, stage.incarnation!)
  t.ok(ann.mailbox.waiting + ann.mailbox.handed.size <= 8, `${ann.mailbox.waiting}`)
  t.ok(stage.host.team.taken(ann.index) > 0)
  t.same(await stage.ailments(), [])
  t.equal(roomOf(stage.host, ann), 4, 'nor has it more room afterwards')
  t.same(await stage.leftovers(), [])
})

for (const [what, claim] of [
  ['of a negative size', [5, -1_000, 7, 9]],
  ['of more than there is', [5, 0x7fff_ffff, 7, 9]],
  ['of nobody', [9_999, 64, 7, 9]],
] as const)
  t.test(`a claim ${what} that a dead thread leaves behind makes no room and takes none`, async (t) => {
    const { stage } = await inTurn(t)
    const { host } = stage
    stage.incarnation!.channel.words.set(claim, CLAIM)
    stage.thread.terminate()
    t.same(await stage.ailments(), [])
    for (const agent of [host.directory.agent('ann')!, host.directory.agent('bob')!]) {
      t.equal(roomOf(host, agent), agent.settings.mailbox.capacity)
      t.equal(-host.team.overdraft(agent.index).bytes, agent.settings.mailbox.bytes)
    }
  })

// Sync points are the host's: a thread that writes its frames itself arrives for a turn that it has, and watches
// nothing.

t.test('rule 31: a thread arrives by a turn that it has open alone, and only a script watches', async (t) => {
  const team = hostileTeam(t, { syncPoints: [{ name: 'meet', requiredAgents: ['mallory', 'ann'], timeoutMs: 1_000 }] })
  const { turn, run } = await team.turn()
  const call = (step: number, of: number, content: string) =>
    team.thread.send({ kind: CALL, run, turn: of, step, correlation: step, content, data: '{"point":"meet"}' })
  for (const [i, of] of [turn + 7, 0, -1].entries()) call(i + 1, of, 'sync')
  call(4, turn, 'synced')
  await team.team.clock.advance(0)
  t.same([...team.host.syncPoints.open], [])
  call(5, turn, 'sync')
  await team.team.clock.advance(0)
  const [open] = team.host.syncPoints.open
  t.match(open, { generation: 1, missing: ['ann'] })
  t.same(await team.ailments(), [])
})

// The delegation graph is the host's: a thread that writes its frames itself gets around nothing.

const bound = { roles: { mallory: { canDelegateTo: ['ann'] } } }

for (const [what, kind] of Object.entries({ 'that is asked': REQUEST, 'that is sent': SEND }))
  t.test(`a delegation ${what} outside of the graph is refused, and is a dead letter`, async (t) => {
    const team = hostileTeam(t, bound)
    const { turn, run } = await team.turn()
    const bob = team.index('bob')
    team.thread.send({
      kind,
      type: 'delegate',
      recipient: bob,
      run,
      turn,
      step: 1,
      correlation: 1,
      content: 'steal',
      flags: 32,
    })
    await team.team.clock.advance(0)
    t.same(team.heard, [])
    t.match(team.team.deadLetters.list(), [
      {
        reason: 'rejected',
        message: { type: 'delegate', sender: 'mallory', recipient: 'bob', content: 'steal' },
        errors: [{ code: 'DELEGATION_REFUSED', details: { from: 'mallory', to: 'bob' } }],
      },
    ])
    t.same(await team.ailments(), [])
    t.same(await team.leftovers(), [])
  })

t.test('a delegation by name is held to the graph too', async (t) => {
  const team = hostileTeam(t, bound)
  const { turn, run } = await team.turn()
  const fields = { kind: REQUEST, type: 'delegate' as const, recipient: 0xffff, name: 'bob', flags: 32 }
  team.thread.send({ ...fields, run, turn, step: 1, correlation: 1, content: 'steal' })
  await team.team.clock.advance(0)
  t.match(team.team.deadLetters.list(), [{ errors: [{ code: 'DELEGATION_REFUSED' }] }])
  t.same(await team.ailments(), [])
})

t.test('a delegation out of a turn that is not open is refused: nobody could tell how deep it is', async (t) => {
  const team = hostileTeam(t, bound)
  const { turn, run } = await team.turn()
  for (const [i, of] of [turn + 7, 0, -1].entries())
    team.thread.send({
      kind: REQUEST,
      type: 'delegate',
      recipient: team.index('ann'),
      run,
      turn: of,
      step: i,
      correlation: i + 1,
      flags: 32,
    })
  await team.team.clock.advance(0)
  t.match(
    team.team.deadLetters.list().map(({ errors }) => errors[0]?.message),
    [/no turn that is open/, /no turn that is open/, /no turn that is open/],
  )
  t.same(await team.ailments(), [])
})

t.test('a turn that says that it has asked for itself is no chain without end', async (t) => {
  const team = hostileTeam(t, bound)
  const { turn, run } = await team.turn()
  const next = { run, turn: turn + 1, flags: 32 }
  team.thread.send({ ...next, kind: REQUEST, recipient: team.index('mallory'), step: 1, correlation: 1 })
  team.thread.send({ kind: END, type: 'response', run, turn })
  await team.team.clock.advance(0)
  t.equal(team.thread.turns()[0]?.turn, turn + 1)
  team.thread.send({
    ...next,
    kind: REQUEST,
    type: 'delegate',
    recipient: team.index('ann'),
    step: 2,
    correlation: 2,
    content: 'x',
  })
  await team.team.clock.advance(0)
  t.match(team.heard, [{ type: 'delegate', content: 'x' }])
  t.same(await team.ailments(), [])
})

t.test('handoffs of nonsense, and acknowledgements of none, are refused or hand nothing off', async (t) => {
  const team = hostileTeam(t, { roles: { mallory: { canDelegateTo: [] } } })
  const { turn, run, result } = await team.turn()
  const nonsense = [
    'null',
    '5',
    '{}',
    '{"to":5}',
    '{"to":"bob","description":5}',
    '{"to":"mallory"}',
    '{"to":"$orchestrator"}',
  ]
  for (const [i, data] of nonsense.entries())
    team.thread.send({ kind: CALL, run, turn, step: i + 1, correlation: i + 1, content: 'handoff', data })
  team.thread.send({
    kind: CALL,
    run,
    turn: turn + 5,
    step: 9,
    correlation: 19,
    content: 'handoff',
    data: '{"to":"ann"}',
  })
  for (const of of [turn, turn + 5, 0, -1])
    team.thread.send({ kind: CALL, run, turn: of, step: 20, correlation: 30 + of, content: 'handoff.acknowledge' })
  await team.team.clock.advance(0)
  t.same(team.heard, [])
  t.notOk(result.settled)
  t.same(await team.ailments(), [])
  t.same(await team.leftovers(), [])
})

t.test('a task of nonsense is a task without it', async (t) => {
  const team = hostileTeam(t, bound)
  const { turn, run } = await team.turn()
  const nonsense = [
    '{',
    '5',
    '[1]',
    '{"deadline":"x","dependencies":5,"parentTask":{},"requiredCapabilities":[1,"a"]}',
    '{"deadline":-1e308}',
  ]
  for (const [i, data] of nonsense.entries())
    team.thread.send({
      kind: REQUEST,
      type: 'delegate',
      recipient: team.index('ann'),
      run,
      turn,
      step: i + 1,
      correlation: i + 1,
      content: 'x',
      data,
      flags: 32,
    })
  await team.team.clock.advance(1)
  const tasks = [...team.host.runs.values()]
    .flatMap((state) => [...state.tasks.values()])
    .filter(({ assignedTo }) => assignedTo === 'ann')
  t.match(
    tasks,
    nonsense.map((_, i) => ({
      deadline: i === 4 ? -1e308 : null,
      dependencies: [],
      parentTask: null,
      requiredCapabilities: i === 3 ? ['a'] : [],
    })),
  )
  t.same(await team.ailments(), [])
  t.same(await team.leftovers(), [])
})
