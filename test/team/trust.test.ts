/** What an agent may do by its trust, whether its thread is honest or not. The host holds to it. */

import type { Test } from 'tap'
import t from 'tap'
import { isVerb, trustFor } from '../../src/actors/definition/role.ts'
import {
  type AgentContext,
  type AgentRole,
  ConfigurationError,
  createTeam,
  type DramatisError,
  defineAgent,
  type ErrorCode,
} from '../../src/index.ts'
import { ASKS, CALL, END, type FrameFields, MANY, NOBODY, REQUEST, SEND, TO_ALL } from '../../src/mailbox/frame.ts'
import { hostileTeam } from '../bad-input/raw-thread.ts'
import { pluck, where } from '../kit/lists.ts'
import { given, type OpenTeam, openTeam } from '../kit/team.ts'

type Act = (context: AgentContext) => unknown

/** Each verb that reaches others or the world, and what it is refused with. */
const refusedToUntrusted: Record<string, [Act, ErrorCode]> = {
  send: [(context) => context.send('ann', 'hi'), 'MESSAGE_REJECTED'],
  request: [(context) => context.request('ann', 'hi'), 'MESSAGE_REJECTED'],
  'request to its manager': [(context) => context.request('boss', 'hi'), 'MESSAGE_REJECTED'],
  requestStream: [(context) => context.requestStream('ann', 'hi').response, 'MESSAGE_REJECTED'],
  requestAny: [(context) => context.requestAny(['ann'], 'hi'), 'MESSAGE_REJECTED'],
  requestQuorum: [(context) => context.requestQuorum(['ann', 'boss'], 2, 'hi'), 'AGENT_FAILED'],
  broadcast: [(context) => context.broadcast('hi'), 'MESSAGE_REJECTED'],
  delegate: [(context) => context.delegate('ann', 'work'), 'DELEGATION_REFUSED'],
  handoff: [(context) => context.handoff('ann', 'work'), 'CONFIGURATION'],
  escalate: [(context) => context.escalate('I cannot'), 'CONFIGURATION'],
  publish: [(context) => context.publish('key', 1, 'fact'), 'CONFIGURATION'],
  'blackboard.read': [(context) => context.blackboard.read('key'), 'CONFIGURATION'],
  'blackboard.query': [(context) => context.blackboard.query(), 'CONFIGURATION'],
  'blackboard.getHistory': [(context) => context.blackboard.getHistory('key'), 'CONFIGURATION'],
  'blackboard.waitFor': [(context) => context.blackboard.waitFor('key'), 'CONFIGURATION'],
  'shared, to read': [(context) => context.shared('team_shared').get('key'), 'CONFIGURATION'],
  'shared, to change': [(context) => context.shared('agent_shared').update('key', () => 1), 'CONFIGURATION'],
  subscribe: [(context) => context.subscribe('**'), 'CONFIGURATION'],
  watch: [(context) => context.watch('ann'), 'CONFIGURATION'],
  sync: [(context) => context.sync('met'), 'CONFIGURATION'],
  ask: [(context) => context.ask('who?'), 'CONFIGURATION'],
  spawn: [(context) => context.spawn({ name: 'new' }), 'CONFIGURATION'],
}

interface Stage {
  team: OpenTeam
  heard: string[]
  /** What the agent "me" gives or throws when it does that in a turn. */
  play(act: Act): Promise<Outcome>
}

interface Outcome {
  value?: unknown
  error?: DramatisError
}

function stage(t: Test, trust: AgentRole['trust']): Stage {
  const heard: string[] = []
  let act: Act = () => {}
  let outcome: Outcome = {}
  const listens = (name: string) =>
    defineAgent({
      receive: ({ content }) => void heard.push(`${name}: ${content}`),
      observe: ({ content }) => void heard.push(`${name} observed ${content}`),
    })
  const me = defineAgent({
    async receive(_message, context) {
      try {
        outcome = { value: await act(context) }
      } catch (error) {
        outcome = { error: error as DramatisError }
      }
      return { content: 'answered', structuredData: { fine: true } }
    },
    observe() {},
  })
  const team = given(t, {
    roles: { me: { ...(trust && { trust }), escalateTo: 'boss' } },
    enableBlackboard: true,
    syncPoints: [{ name: 'met', requiredAgents: ['ann'], timeoutMs: 1_000 }],
    later: { new: listens('new') },
  }).team({ me, ann: listens('ann'), boss: listens('boss') })
  return {
    team,
    heard,
    async play(what) {
      act = what
      const result = await team.execute('go')
      if (!result.success) throw result.error
      return outcome
    },
  }
}

t.test('untrusted: each verb that reaches others is refused, and nobody hears of it', async (t) => {
  const { team, heard, play } = stage(t, 'untrusted')
  for (const [verb, [act, code]] of Object.entries(refusedToUntrusted)) {
    const { error } = await play(act)
    t.equal(error?.code, code, verb)
    t.match(error?.message, /"me" (is untrusted and may answer and report alone|may answer and report alone)/, verb)
    t.match(error?.message, /trust: '(internal|privileged)'/, verb)
  }
  t.same(heard, [])
  t.same(pluck(team.listAgents(), 'name'), ['me', 'ann', 'boss'])
  t.same(await team.getBlackboard()?.query(), [])
  const letters = team.deadLetters.list()
  t.ok(letters.every(({ reason }) => reason === 'rejected'))
  t.same([...new Set(letters.map(({ message }) => message.type))].sort(), ['broadcast', 'delegate', 'request'])
  t.equal(letters.length, 9, 'one for each message')
})

t.test('untrusted: it answers, reports, streams and keeps what it has', async (t) => {
  const { team, heard, play } = stage(t, 'untrusted')
  const done = await play(async (context) => {
    context.emit('piece')
    await context.report('so far so good', { done: 1 })
    context.log.info({}, 'fine')
    await context.sleep(0)
    return context.step('own', () => 'work')
  })
  t.same(done, { value: 'work' })
  t.same(heard, ['boss observed so far so good'])
  const result = await team.execute('go')
  t.match(result, { success: true, finalOutput: 'answered' })
  t.same(result.failures, [])
})

t.test('untrusted: without a manager it reports to the protocol script', async (t) => {
  const me = defineAgent({ receive: async (_message, context) => context.report('news') })
  const team = openTeam(t, { me }, { roles: { me: { trust: 'untrusted' } } })
  const { messageHistory } = await team.execute('go')
  t.match(where(messageHistory, 'type', 'report'), [{ sender: 'me', recipient: '$orchestrator', content: 'news' }])
  t.same(team.deadLetters.list(), [])
})

t.test('internal: all but making others', async (t) => {
  const { heard, play } = stage(t, undefined)
  for (const [verb, [act]] of Object.entries(refusedToUntrusted)) {
    if (['sync', 'blackboard.waitFor', 'ask', 'spawn'].includes(verb)) continue // they wait, or are for others
    const { error } = await play(act)
    t.notMatch(error?.message ?? '', /trust/, verb)
  }
  t.ok(heard.length > 5)
  const { error } = await play((context) => context.spawn({ name: 'new' }))
  t.match(error, {
    code: 'CONFIGURATION',
    details: { path: 'trust', agent: 'me', verb: 'spawn', got: 'internal', accepted: 'privileged' },
  })
})

t.test('nobody makes an agent that is trusted more than itself', async (t) => {
  for (const verb of ['spawn', 'define'] as const) t.equal(trustFor(verb), 'privileged', 'which is the most there is')
  const { play } = stage(t, 'internal')
  for (const trust of ['untrusted', 'internal', 'privileged'] as const) {
    const { error } = await play((context) => context.spawn({ name: 'new', trust }))
    t.match(error, { code: 'CONFIGURATION', details: { path: 'trust' } })
  }
})

t.test('privileged: it makes others', async (t) => {
  const { play } = stage(t, 'privileged')
  t.same(await play((context) => context.spawn({ name: 'new' })), { value: 'new' })
})

t.test('a script may all', async (t) => {
  const team = given(t, {
    roles: { me: { trust: 'untrusted' } },
    later: { new: () => 'made' },
    script: async (script) => (await script.request(await script.spawn({ name: 'new' }), 'hi')).content,
  }).team({ me: () => 'heard' })
  t.equal((await team.execute('go')).finalOutput, 'made')
})

t.test('others may still ask it, and give it tasks', async (t) => {
  const ann = defineAgent({
    receive: async (_message, context) => {
      const { content } = await context.request('me', 'a question')
      const { result } = await context.delegate('me', 'a task')
      return `${content}, ${result as string}`
    },
  })
  const me = defineAgent({ receive: ({ content }) => `did ${content}` })
  const team = openTeam(t, { ann, me }, { roles: { me: { trust: 'untrusted' } } })
  t.equal((await team.execute('go')).finalOutput, 'did a question, did a task')
})

t.test('a task can be handed off to it', async (t) => {
  const order: string[] = []
  const ann = defineAgent({
    async receive(_message, context) {
      await context.handoff('me', 'work')
      order.push('handed off')
    },
  })
  const me = defineAgent({
    async receive({ content }, context) {
      await context.sleep(5)
      order.push('done')
      return `did ${content}`
    },
  })
  const team = openTeam(t, { ann, me }, { roles: { me: { trust: 'untrusted' } } })
  const run = team.execute('go')
  await team.clock.advance(10)
  t.equal((await run).finalOutput, 'did work')
  t.same(order, ['handed off', 'done'], 'it has acknowledged')
})

t.test('the delegation graph has no way out of it', async (t) => {
  const { team } = stage(t, 'untrusted')
  t.same(team.getDelegationGraph(), { me: [], ann: ['me', 'boss'], boss: ['me', 'ann'] })
  t.equal(team.canDelegate('me', 'ann'), false)
  await t.rejects(team.delegateTask('me', 'ann', 'work'), { code: 'DELEGATION_REFUSED' })
})

t.test('nor may a message from outside in its name', async (t) => {
  const { team, heard } = stage(t, 'untrusted')
  await t.rejects(team.broadcast('hi', 'me'), { code: 'MESSAGE_REJECTED', message: /untrusted/ })
  await t.rejects(team.sendMessage({ sender: 'me', recipient: 'ann', content: 'hi' }), { message: /untrusted/ })
  for (const type of ['publish', 'subscribe'] as const) {
    const { runId } = await team.execute('go')
    const message = { type, sender: 'me', recipient: null, content: 'key', ...(type === 'subscribe' && { runId }) }
    await t.rejects(team.sendMessage(message), { message: /untrusted/ }, type)
  }
  await team.sendMessage({ type: 'report', sender: 'me', recipient: null, content: 'news' })
  await team.clock.advance(1)
  t.same(heard, ['boss observed news'])
})

t.test('a role that asks for what it is not trusted with is refused', async (t) => {
  const module = '/any/agent.js'
  const wrong: [Partial<AgentRole>, string][] = [
    [{ canDelegateTo: ['ann'] }, 'agents[0].canDelegateTo'],
    [{ delegationAllowed: true }, 'agents[0].delegationAllowed'],
    [{ trust: 'internal', tools: ['spawn'] }, 'agents[0].tools[0]'],
    [{ trust: 'internal', tools: ['ask_user', 'define_agent'] }, 'agents[0].tools[1]'],
  ]
  for (const [role, path] of wrong)
    t.throws(
      () =>
        createTeam({
          agents: [
            { name: 'me', module, trust: 'untrusted', ...role },
            { name: 'ann', module },
          ],
          orchestration: { strategy: 'sequential' },
        }),
      { code: 'CONFIGURATION', details: { path } },
    )
  const meets = () =>
    createTeam({
      agents: [{ name: 'me', module, trust: 'untrusted' }],
      orchestration: { strategy: 'sequential' },
      syncPoints: [{ name: 'met', requiredAgents: ['me'], timeoutMs: 5 }],
    })
  t.throws(meets, { code: 'CONFIGURATION', details: { path: 'syncPoints[0].requiredAgents[0]' } })
  t.throws(meets, ConfigurationError)
})

// ---- threads that write what they like

const roles = { mallory: { trust: 'untrusted', escalateTo: 'bob' } } as const

const messages: Record<string, Partial<FrameFields>> = {
  'a send': { kind: SEND },
  'a send of type broadcast': { kind: SEND, type: 'broadcast' },
  'a send of type publish': { kind: SEND, type: 'publish' },
  'a send of type response': { kind: SEND, type: 'response' },
  'a send of type delegate': { kind: SEND, type: 'delegate' },
  'a report to somebody else': { kind: SEND, type: 'report' },
  'a request': { kind: REQUEST },
  'a request of type report': { kind: REQUEST, type: 'report' },
  'a request of type delegate': { kind: REQUEST, type: 'delegate' },
  'a send by name': { kind: SEND, recipient: NOBODY, name: 'ann' },
  'a request by name': { kind: REQUEST, recipient: NOBODY, name: 'ann' },
  'a broadcast': { kind: SEND, type: 'broadcast', recipient: NOBODY, flags: TO_ALL | MANY | ASKS },
  'a report to all': { kind: SEND, type: 'report', recipient: NOBODY, flags: TO_ALL | MANY | ASKS },
}

for (const [what, fields] of Object.entries(messages))
  t.test(`a hostile thread writes ${what}`, async (t) => {
    const stage = hostileTeam(t, { roles })
    const { team, heard, index } = stage
    await team.start()
    const { run, turn } = await stage.turn()
    stage.thread.send({ recipient: index('ann'), run, turn, step: 1, correlation: 1, content: 'psst', ...fields })
    await team.clock.advance(0)
    t.same(heard, [])
    const code = fields.type === 'delegate' && !fields.flags ? 'DELEGATION_REFUSED' : 'MESSAGE_REJECTED'
    const letter = { reason: 'rejected', message: { sender: 'mallory', content: 'psst' }, errors: [{ code }] }
    t.match(team.deadLetters.list(), [letter])
    t.same(await stage.ailments(), [])
    t.same(await stage.leftovers(), [])
  })

const args = {
  key: 'k',
  value: 1,
  entryType: 'fact',
  pattern: '**',
  agent: 'ann',
  point: 'met',
  to: 'ann',
  by: 'bob',
  description: 'work',
  question: 'q',
  choice: 'c',
  reason: 'r',
  name: 'new',
}
const calls = [
  'blackboard.write',
  'blackboard.read',
  'blackboard.query',
  'blackboard.history',
  'blackboard.waitFor',
  'shared.get',
  'shared.update',
  'subscribe',
  'watch',
  'sync',
  'synced',
  'managers',
  'reassign',
  'handoff',
  'decide',
  'ask',
  'agents',
  'tool',
  'spawn',
  'define',
]

for (const content of calls)
  t.test(`a hostile thread calls ${content}`, async (t) => {
    const syncPoints = [{ name: 'met', requiredAgents: ['ann'], timeoutMs: 5 }]
    const stage = hostileTeam(t, { roles, syncPoints, later: { new: () => '' } })
    const { team, heard, host, lines } = stage
    await team.start()
    const { run, turn } = await stage.turn()
    const before = host.directory.byIndex.length
    stage.thread.send({ kind: CALL, run, turn, step: 1, correlation: 1, content, data: JSON.stringify(args) })
    await team.clock.advance(0)
    t.equal(stage.mallory.calls.size, 0, 'it was answered')
    t.same(heard, [])
    t.same(await team.getBlackboard()?.query(), [])
    t.equal(host.directory.byIndex.length, before)
    t.same(host.runs.get(run)?.subscriptions.size, 0)
    t.same([...host.syncPoints.open], [])
    t.match(lines, [{ level: 'warn', agent: 'mallory', text: 'the agent may not do that', error: /trust/ }])
    t.ok(isVerb(content) && trustFor(content) !== 'untrusted')
    t.same(await stage.ailments(), [])
    t.same(await stage.leftovers(), [])
  })

t.test('a hostile thread may report and answer, as often as an honest one', async (t) => {
  const stage = hostileTeam(t, { roles })
  const { team, heard, index } = stage
  await team.start()
  const { run, turn, result } = await stage.turn()
  stage.thread.send({ kind: SEND, type: 'report', recipient: index('bob'), run, turn, step: 1, content: 'news' })
  await team.clock.advance(0)
  stage.thread.send({ kind: END, type: 'response', run, turn, content: 'done' })
  await team.clock.advance(0)
  t.match(heard, [{ type: 'report', sender: 'mallory', content: 'news' }])
  t.match(result.value, { success: true, finalOutput: 'done' })
  t.same(team.deadLetters.list(), [])
})

t.test('a flood of calls is told of with the first, the second, the fourth', async (t) => {
  const stage = hostileTeam(t, { roles })
  const { team, lines } = stage
  await team.start()
  const { run, turn } = await stage.turn()
  for (let n = 1; n <= 9; n++) {
    stage.thread.send({ kind: CALL, run, turn, step: n, correlation: n, content: 'spawn', data: '{}' })
    await team.clock.advance(0)
  }
  t.equal(lines.length, 4)
})
