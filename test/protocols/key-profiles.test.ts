/** Document 001's `api_keys_config_ref`: a sub-task names a profile of keys, and goes to who holds it alone. */
import t from 'tap'
import { type AgentRole, defineAgent, type MultiAgentResult } from '../../src/index.ts'
import type { SubTask } from '../../src/protocols.ts'
import { type Script, scriptedModel, testTeam } from '../../src/testing.ts'
import { silent } from '../kit/team.ts'
import type { Test } from '../team/stage.ts'

const keys = { free: ['SEARCH_KEY_FREE'], paid: ['SEARCH_KEY_PAID', 'SEARCH_ACCOUNT'] }
const digs = defineAgent({ receive: ({ content }, { role }) => `${role.name}: ${content}` })

type Task = { agent: string; task: string; apiKeysConfigRef?: unknown }
const plan = (...tasks: Task[]) => ({ agent: 'chief', reply: { tasks, reasoning: 'so' } })
const last: Script = { agent: 'chief', when: /# Results/, reply: 'done' }

function desk(t: Test, script: Script[], experts: AgentRole[], options: object = { keys }, config: object = {}) {
  const model = scriptedModel(script)
  const names = experts.map(({ name }) => name)
  const orchestration = { strategy: 'supervisor' as const, supervisor: 'chief', experts: names, ...config }
  const modules = Object.fromEntries(names.map((name) => [name, digs]))
  const team = testTeam<string>(
    { agents: [{ name: 'chief' }, ...experts], orchestration, logger: silent, ...options },
    { model, modules },
  )
  t.teardown(() => team.close())
  return { team, model }
}

const subTasksIn = ({ messageHistory }: MultiAgentResult) =>
  messageHistory.flatMap(({ type, structuredData }) =>
    type === 'request' && Object(structuredData).assignedAgentRole ? (structuredData as SubTask) : [],
  )

const ann = { name: 'ann', keys: ['free', 'paid'] }
const bob = { name: 'bob', keys: ['free'] }
const cid = { name: 'cid' }

t.test('a sub-task carries the profile that the plan names, and the planner is told who holds which', async (t) => {
  const { team, model } = desk(t, [plan({ agent: 'ann', task: 'Dig.', apiKeysConfigRef: 'paid' }), last], [ann, cid])
  const result = await team.execute('Work!')
  t.match(subTasksIn(result), [{ assignedAgentRole: 'ann', apiKeysConfigRef: 'paid' }])
  t.match(model.calls[0]?.prompt, '- ann; keys: free, paid\n- cid')
})

t.test('a plan for who does not hold it is sent back once, and then the sub-task alone fails', async (t) => {
  const wrong = plan({ agent: 'bob', task: 'Dig.', apiKeysConfigRef: 'paid' }, { agent: 'ann', task: 'Rest.' })
  const right = plan({ agent: 'ann', task: 'Dig.', apiKeysConfigRef: 'paid' })
  const { team, model } = desk(t, [wrong, right, last], [ann, bob])
  t.match(subTasksIn(await team.execute('Work!')), [{ assignedAgentRole: 'ann' }])
  t.match(model.calls[1]?.prompt, '"bob" does not hold the keys "paid"; who does: ann')

  const again = desk(t, [wrong, wrong, last], [ann, bob])
  const result = await again.team.execute('Work!')
  t.match(result.failures, [
    { agent: 'bob', error: { code: 'MESSAGE_REJECTED', message: /does not hold the keys "paid"/ } },
  ])
  t.match(result.agentOutputs.ann, [{ content: 'ann: Rest.' }])
  t.notOk(result.agentOutputs.bob)
})

t.test('a planner may name only what exists', async (t) => {
  const wrong = plan({ agent: 'ann', task: 'Dig.', apiKeysConfigRef: 'gold' })
  for (const options of [{ keys }, {}]) {
    const experts = 'keys' in options ? [ann] : [{ name: 'ann' }]
    const { team } = desk(t, [wrong, wrong], experts, options)
    const failures = [{ code: 'REPLY_INVALID', message: /apiKeysConfigRef/ }]
    t.match((await team.execute('Work!')).error, { code: 'AGENT_FAILED', details: { failures } })
  }
})

t.test('null is no profile, and a team without keys asks for none', async (t) => {
  const { team, model } = desk(
    t,
    [plan({ agent: 'ann', task: 'Dig.', apiKeysConfigRef: null }), last],
    [{ name: 'ann' }],
    {},
  )
  const [subTask] = subTasksIn(await team.execute('Work!'))
  t.notOk('apiKeysConfigRef' in subTask!)
  t.notMatch(model.calls[0]?.prompt, /apiKeysConfigRef|keys:/)
})

t.test('whoever gives the sub-task, it reaches who holds the profile alone', async (t) => {
  const { team } = desk(t, [], [ann, bob, cid])
  const subTask = { subTaskId: '1', parentTaskId: '0', subTaskInput: {}, apiKeysConfigRef: 'paid' }
  const give = (recipient: string) =>
    team.sendMessage({
      recipient,
      content: 'Dig.',
      requiresResponse: true,
      structuredData: { ...subTask, assignedAgentRole: recipient },
    })
  t.match(await give('ann'), { structuredData: { status: 'COMPLETED', resultData: 'ann: Dig.' } })
  for (const name of ['bob', 'cid'])
    await t.rejects(give(name), { code: 'MESSAGE_REJECTED', details: { path: 'structuredData.apiKeysConfigRef' } })
})

t.test('a replanned sub-task has an id of its own, and says which one it replaces', async (t) => {
  const task = (agent: string) => plan({ agent, task: 'Dig.', apiKeysConfigRef: 'paid' })
  const { team } = desk(
    t,
    [task('bob'), task('bob'), task('bob'), task('bob'), task('ann'), last],
    [ann, bob],
    { keys },
    { maxReplans: 2 },
  )
  const result = await team.execute('Work!')
  const { runId } = result
  t.match(
    subTasksIn(result).map(({ subTaskId, replaces }) => [subTaskId, replaces]),
    [
      [`${runId}.1`, undefined],
      [`${runId}.1.1`, `${runId}.1`],
      [`${runId}.1.2`, `${runId}.1.1`],
    ],
  )
})

t.test('a role holds only profiles of the team, and no error shows what may be a key', async (t) => {
  const made = (options: object, role: object) => () => desk(t, [], [{ name: 'ann', ...role }], options)
  t.throws(made({ keys }, { keys: ['gold'] }), {
    code: 'CONFIGURATION',
    message: /^agents\[1\]\.keys\[0\]: got "gold"; accepted: free, paid/,
  })
  t.throws(made({}, { keys: ['free'] }), { code: 'CONFIGURATION', message: /^agents\[1\]\.keys\[0\]: got "free"/ })
  for (const wrong of [
    'sk-live-12345',
    ['sk-live-12345'],
    { free: 'sk-live-12345' },
    { free: [] },
    { free: ['KEY=sk-live-12345'] },
  ])
    t.throws(made({ keys: wrong }, {}), { code: 'CONFIGURATION', message: /^keys(?!.*sk-live)/ })
})
