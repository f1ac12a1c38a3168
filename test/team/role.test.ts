/** Each field of a role reaches its agent, or changes what happens. */
import t from 'tap'
import { type AgentRole, defineAgent, type RoleInfo } from '../../src/index.ts'
import { after, echo, says, stage } from './stage.ts'

/** What the agent `a` sees of its role. */
async function seen(t: Parameters<typeof stage>[0], role: Omit<AgentRole, 'name'>): Promise<RoleInfo> {
  const tells = defineAgent({
    receive: (_message, context) => ({ structuredData: JSON.parse(JSON.stringify(context.role)) }),
  })
  const team = stage(
    t,
    { a: { code: tells, ...role }, b: echo, c: echo },
    { orchestration: { strategy: 'sequential', agentOrder: ['a'] } },
  )
  const result = await team.execute('q')
  if (!result.success) throw result.error
  return result.agentOutputs.a![0]!.structuredData as RoleInfo
}

const fields: Omit<Required<RoleInfo>, 'name' | 'trust'> = {
  description: 'Finds things out.',
  systemPrompt: 'You find things out.',
  capabilities: [
    'search',
    {
      name: 'count',
      description: 'Counts',
      inputTypes: ['text'],
      outputTypes: ['number'],
      estimatedTokens: 50,
      confidence: 0.5,
    },
  ],
  skills: ['MathSkill'],
  verbs: 'all',
  model: 'small',
  temperature: 0.2,
  topP: 0.9,
  stop: ['END'],
  seed: 7,
  reasoningEffort: 'low',
  toolChoice: { tool: 'search' },
  parallelToolCalls: false,
  strict: true,
  promptCaching: true,
  headers: { 'x-team': 'desk' },
  extraBody: { top_k: 3 },
  providerOptions: { anthropic: { thinking: { type: 'enabled' } } },
  maxTokens: 8_000,
  maxOutputTokens: 500,
  maxRounds: 4,
  maxParallelToolCalls: 3,
  delegationAllowed: false,
  canDelegateTo: ['b'],
  canHandoffTo: ['b'],
  canBeDelegatedTo: false,
  escalateTo: 'b',
  sharedWith: ['c'],
  priority: 3,
  weight: 2.5,
  data: { step: 2, deep: [{ n: null }] },
  accepts: ['image'],
}
for (const [field, value] of Object.entries(fields))
  t.test(`${field} is in the role that the agent sees`, async (t) => {
    t.same(await seen(t, { [field]: value }), { name: 'a', [field]: value })
  })

t.test('a role without anything has its name alone', async (t) => {
  t.same(await seen(t, {}), { name: 'a' })
})

t.test('what is for the host alone is not seen', async (t) => {
  const hostOnly = {
    env: ['PATH'],
    limits: { turnTimeoutMs: 50 },
    supervision: { maxRestarts: 1 },
    communication: { mailboxCapacity: 5 },
  }
  t.same(await seen(t, hostOnly), { name: 'a' })
})

t.test('the role cannot be changed, neither by its agent nor by who wrote it', async (t) => {
  const role = { data: { list: [1] } }
  const changes = defineAgent({
    receive(_message, context) {
      ;(context.role.data as { list: number[] }).list.push(2)
    },
  })
  const team = stage(t, { a: { code: changes, ...role } })
  t.match((await team.execute('q')).error, { code: 'AGENT_FAILED' })
  const tells = defineAgent({ receive: (_message, context) => JSON.stringify(context.role.data) })
  const other = stage(t, { a: { code: tells, ...role } })
  role.data.list.push(3)
  t.equal((await other.execute('q')).finalOutput, '{"list":[1]}')
})

t.test('data is what the schema of the agent makes of it', async (t) => {
  const { z } = await import('zod')
  const code = defineAgent({
    data: z.object({ step: z.coerce.number(), unit: z.string().default('m') }),
    receive: (_message, { data, role }) => ({ structuredData: { data, role: role.data } }),
  })
  const team = stage(t, { a: { code, data: { step: '2' } } })
  t.same((await team.execute('q')).agentOutputs.a?.[0]?.structuredData, {
    data: { step: 2, unit: 'm' },
    role: { step: '2' },
  })
})

t.test('data that misses the schema is a configuration error, before any message is handled', async (t) => {
  const { z } = await import('zod')
  const code = defineAgent({ data: z.object({ step: z.number() }), receive: () => 'never' })
  const team = stage(t, { a: { code, data: { step: 'two' } } })
  const wrong = {
    code: 'CONFIGURATION',
    message: /data of agent "a" misses its schema: step: /,
    details: { path: 'data', agent: 'a' },
  }
  await t.rejects(team.start(), wrong)
  await t.rejects(team.execute('q'), wrong)
  await t.rejects(team.launch('q').result, wrong)
  await t.rejects(team.sendMessage({ recipient: 'a', content: 'hi' }), wrong)
})

t.test('weight counts in a vote', async (t) => {
  const team = stage(
    t,
    { a: { code: says('yes'), weight: 3 }, b: says('no'), c: says('no') },
    { orchestration: { strategy: 'parallel', aggregationStrategy: 'vote' } },
  )
  t.equal((await team.execute('q')).finalOutput, 'yes')
})

t.test('a weight that is none makes it a vote by majority', async (t) => {
  for (const weight of [null, Number.NaN, Number.POSITIVE_INFINITY]) {
    const team = stage(
      t,
      { a: { code: says('yes'), weight: 3 }, b: { code: says('no'), weight }, c: says('no') },
      { orchestration: { strategy: 'parallel', aggregationStrategy: 'vote' } },
    )
    t.equal((await team.execute('q')).finalOutput, 'no', String(weight))
  }
})

t.test('priority decides a conflict, if it is to', async (t) => {
  const team = stage(
    t,
    { a: says('yes'), b: { code: says('no'), priority: 2 } },
    { orchestration: { strategy: 'parallel', aggregationStrategy: 'vote', conflictResolution: 'priority' } },
  )
  t.equal((await team.execute('q')).finalOutput, 'no')
})

t.test('escalateTo gets the reports of its agent', async (t) => {
  const heard: string[] = []
  const boss = defineAgent({ receive() {}, observe: ({ content }) => void heard.push(content) })
  const team = stage(t, { a: { code: echo, escalateTo: 'boss' }, boss })
  await team.sendMessage({ type: 'report', sender: 'a', recipient: null, content: 'stuck' })
  await team.clock.advance(0)
  t.same(heard, ['stuck'])
})

t.test('limits.turnTimeoutMs ends a turn', async (t) => {
  const team = stage(t, { a: { code: after(100), limits: { turnTimeoutMs: 10 } } })
  const pending = team.execute('q')
  await team.clock.advance(10)
  t.match((await pending).error, { code: 'TURN_TIMEOUT', details: { agent: 'a', turnTimeoutMs: 10 } })
})

t.test('communication of a role goes before that of the team', async (t) => {
  const patient = { code: after(100), communication: { responseTimeoutMs: 200 } }
  const team = stage(t, { a: patient, b: after(100) }, { communication: { responseTimeoutMs: 10 } })
  const [a, b] = ['a', 'b'].map((recipient) => team.sendMessage({ recipient, content: 'hi', requiresResponse: true }))
  const late = t.rejects(b!, { code: 'REQUEST_TIMEOUT', details: { waitedMs: 10 } })
  await team.clock.advance(100)
  await late
  t.match(await a, { content: 'done' })
})

t.test('queueTimeoutMs limits how long a message may wait', async (t) => {
  const team = stage(t, { a: { code: after(100), communication: { queueTimeoutMs: 10 } } })
  await team.sendMessage({ recipient: 'a', content: 'first' })
  const waiting = team.sendMessage({ recipient: 'a', content: 'second', requiresResponse: true })
  const expired = t.rejects(waiting, { code: 'MESSAGE_EXPIRED', details: { queueTimeoutMs: 10 } })
  await team.clock.advance(10)
  await expired
  t.match(team.deadLetters.list(), [{ reason: 'expired', message: { content: 'second' } }])
})

t.test('supervision of a role goes before that of the team', async (t) => {
  const team = stage(
    t,
    { a: { code: echo, supervision: { maxRestarts: 5 } }, b: echo },
    { supervision: { maxRestarts: 0 } },
  )
  await team.start()
  team.crash('a')
  team.crash('b')
  await team.clock.advance(0)
  t.same([team.getAgentStatus('a'), team.getAgentStatus('b')], ['idle', 'failed'])
})
