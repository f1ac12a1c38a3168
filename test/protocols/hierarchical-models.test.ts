/** The strategy hierarchical with roles that models play: programs of the source documents, and long plans. */
import t from 'tap'
import { textOf } from '../../src/actors/definition/content.ts'
import { rehearsalModel, scriptedModel, testTeam } from '../../src/testing.ts'
import { calls } from '../models/fake-model.ts'
import { modelTeam } from '../models/teams.ts'
import { asked } from './led-team.ts'

/** Document 002, 5.2. */
const developers = [
  {
    name: 'project_manager',
    description: 'Coordinates the team and synthesizes results',
    systemPrompt: 'You manage a team of specialists. Delegate appropriately.',
    capabilities: ['coordination', 'synthesis'],
  },
  { name: 'frontend_dev', systemPrompt: 'You are a frontend specialist.', capabilities: ['frontend', 'react', 'css'] },
  { name: 'backend_dev', systemPrompt: 'You are a backend specialist.', capabilities: ['backend', 'python', 'api'] },
]
const development = {
  strategy: 'hierarchical' as const,
  manager: 'project_manager',
  workers: ['frontend_dev', 'backend_dev'],
  managerSummarizes: true,
}
const JOB = 'Add a user profile page with API endpoint'

t.test('a manager with two developers, as a script says', async (t) => {
  const tasks = [
    { worker: 'backend_dev', task: 'Write GET /profile.', dependsOn: [] },
    { worker: 'frontend_dev', task: 'Write the page.', dependsOn: [1] },
  ]
  const approved = { approved: true, remarks: '' }
  const model = scriptedModel([
    { agent: 'project_manager', when: /# Job\n\nAdd a user/, reply: { tasks, reasoning: 'The page needs the API.' } },
    { agent: 'backend_dev', when: /Do not do it yet/, reply: 'In one file.' },
    { agent: 'project_manager', when: /# Proposal\n\nIn one file\./, reply: { approved: false, remarks: 'In two.' } },
    {
      agent: 'backend_dev',
      when: /^Write GET.*In one file\..*manager\n\nIn two\.$/s,
      reply: 'GET /profile is there.',
    },
    { agent: 'project_manager', when: /# Result\n\nGET \/profile is there\./, reply: approved },
    { agent: 'frontend_dev', when: /GET \/profile is there/, reply: 'In React.' },
    { agent: 'project_manager', when: /# Proposal\n\nIn React\./, reply: approved },
    { agent: 'frontend_dev', when: /^Write the page/, reply: 'The page is there.' },
    { agent: 'project_manager', when: /# Result\n\nThe page/, reply: approved },
    { agent: 'project_manager', when: /# Results\n\n## backend_dev/, reply: 'Both are there.' },
  ])
  const team = testTeam({ agents: developers, orchestration: development }, { model })
  t.teardown(() => team.close())
  const result = await team.execute(JOB)
  t.match(result, { success: true, finalOutput: 'Both are there.', failures: [] })
  model.assertDone()
})

t.test('the same without a key, whatever the rehearsal model plans', async (t) => {
  for (let seed = 1; seed <= 20; seed++) {
    const team = testTeam({ agents: developers, orchestration: development }, { model: rehearsalModel(seed) })
    t.teardown(() => team.close())
    const pending = team.execute(JOB)
    await team.clock.advance(1_000_000)
    const result = await pending
    t.match(result, { success: true, finalOutput: /^\[rehearsal\]/, rehearsed: true }, `seed ${seed}`)
  }
})

/** Document 003: the registry lets the orchestrator delegate, and the executor not. */
const desk = [
  { name: 'orchestrator', canDelegateTo: ['task_executor'] },
  { name: 'task_executor', canDelegateTo: [] },
]
const deskWork = { strategy: 'hierarchical' as const, manager: 'orchestrator', workers: ['task_executor'] }

t.test('an orchestrator with an executor, by a plan or by its tool', async (t) => {
  const team = testTeam({ agents: desk, orchestration: deskWork }, { model: rehearsalModel() })
  t.teardown(() => team.close())
  t.match(await team.execute('Add a test.'), { success: true, rehearsed: true })

  const answers = [
    calls(['delegate', { to: 'task_executor', task: 'Test it.' }]),
    'Tested.',
    '{"tasks":[]}',
    'It is tested.',
  ]
  const { team: other, model } = modelTeam(t, answers, desk, { orchestration: deskWork })
  const result = await other.execute('Add a test.')
  t.equal(result.finalOutput, 'It is tested.')
  t.same(asked(result), ['request orchestrator plan', 'delegate task_executor Test it.', 'request orchestrator alone'])
  t.match(model.requests.at(-1)?.messages.at(-2)?.content, '{"tasks":[]}')
})

t.test('what a worker says by its tool is known to the manager when it makes the answer', async (t) => {
  const answers = [
    '{"tasks":[{"worker":"ann","task":"Dig."}]}',
    calls(['report', { content: 'One foot deep.' }]),
    'A hole.',
    'There is a hole.',
  ]
  const orchestration = { strategy: 'hierarchical' as const, manager: 'boss', workers: ['ann'] }
  const { team, model } = modelTeam(t, answers, [{ name: 'boss' }, { name: 'ann' }], {
    orchestration: { ...orchestration, workerAutonomy: 'high' },
  })
  t.equal((await team.execute('Make a hole.')).finalOutput, 'There is a hole.')
  t.match(model.requests[2]?.messages.at(-1), { role: 'tool', content: 'Your manager has it.' })
  t.match(model.requests[3]?.messages.at(-2), { content: 'Report from "ann":\nOne foot deep.' })
})

t.test('a long plan whose verdicts are all the same is no livelock', async (t) => {
  const tasks = Array.from({ length: 30 }, (_, at) => ({
    worker: at % 2 ? 'ann' : 'bob',
    task: `Dig hole ${at}.`,
    dependsOn: at ? [at] : [],
  }))
  const { team } = modelTeam(
    t,
    ({ agent, messages, jsonSchema }) => {
      if (agent !== 'boss') return 'Done.'
      if (!jsonSchema) return 'All done.'
      return textOf(messages.at(-1)?.content ?? '').startsWith('Plan') ? JSON.stringify({ tasks }) : '{"approved":true}'
    },
    [{ name: 'boss' }, { name: 'ann' }, { name: 'bob' }],
    { orchestration: { strategy: 'hierarchical', manager: 'boss', workers: ['ann', 'bob'] } },
  )
  const pending = team.execute('Dig.')
  await team.clock.advance(1_000_000)
  t.match(await pending, { success: true, finalOutput: 'All done.' })
})
