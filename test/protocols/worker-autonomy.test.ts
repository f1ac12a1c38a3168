/** How deep workers and scripts may delegate, and in whose name. */
import t from 'tap'
import { textOf } from '../../src/actors/definition/content.ts'
import {
  type AgentContext,
  type AgentMessage,
  createTeam,
  DelegationRefusedError,
  defineAgent,
  type OrchestratorContext,
} from '../../src/index.ts'
import type { HierarchicalConfig } from '../../src/protocols.ts'
import { modelTeam } from '../models/teams.ts'
import { type Cast, type Options, stage, type Test } from '../team/stage.ts'
import { asked, decisions, leads, led, play, type Told, task, worker, works } from './led-team.ts'

// What workers may do without asking, how deep they may delegate, and what they report.

type Config = Partial<HierarchicalConfig>

t.test('low: the manager approves or corrects what a worker proposes, and reviews what it has done', async (t) => {
  const told: Told[] = []
  const remarks = ['', 'Use the spade.', '', 'Deeper.']
  const verdict = (it: Told) => {
    told.push(it)
    return { approved: it.step === 'approve' ? it.worker === 'ann' : it.worker === 'bob', remarks: remarks.shift() }
  }
  const boss = leads([task('bob', 'fill'), task('ann', 'dig', 1)], { approve: verdict, review: verdict })
  for (const config of [{}, { workerAutonomy: 'low' as const }]) {
    told.length = 0
    remarks.splice(0, 9, 'Use the spade.', '', '', 'Deeper.')
    const result = await play(t, { boss, ann: worker, bob: worker }, config)
    t.equal(result.finalOutput, 'bob: bob did fill; ann: ann did dig')
    t.match(told, [
      { step: 'approve', worker: 'bob', task: 'fill', proposal: 'with care' },
      { step: 'review', worker: 'bob', task: 'fill', result: 'bob did fill' },
      { step: 'approve', worker: 'ann', task: 'dig', proposal: 'with care' },
      { step: 'review', worker: 'ann', task: 'dig', result: 'ann did dig' },
    ])
    const earlier = '# Results of earlier tasks\n\n## bob\n\nbob did fill'
    const ofAnn = `dig\n\n${earlier}\n\n# How you do it\n\nwith care`
    t.same(asked(result), [
      'request boss plan',
      'request bob propose',
      'request boss approve',
      'delegate bob fill\n\n# How you do it\n\nwith care\n\n# Remarks of your manager\n\nUse the spade.',
      'request boss review',
      'request ann propose',
      'request boss approve',
      `delegate ann ${ofAnn}`,
      'request boss review',
      `delegate ann ${ofAnn}\n\n# Your first result\n\nann did dig\n\n# Remarks of your manager\n\nDeeper.`,
      'request boss summary',
    ])
    t.same(decisions(result), [
      'Who does task 1? bob',
      'Is what "bob" proposes for task 1 approved? no',
      'Is what "bob" has done for task 1 approved? yes',
      'Who does task 2? ann',
      'Is what "ann" proposes for task 2 approved? yes',
      'Is what "ann" has done for task 2 approved? no',
    ])
    const proposing = result.messageHistory.find(({ recipient, type }) => recipient === 'ann' && type === 'request')
    t.equal(proposing?.sender, 'boss')
    const flow = result.orchestrationTrace.messageFlow.filter(({ from, to }) => [from, to].includes('bob'))
    t.same(new Set(flow.flatMap(({ from, to }) => [from, to])), new Set(['boss', 'bob']))
    t.match(proposing?.content, /^Say in a few sentences .*\n\n# Task\n\ndig\n\n# Results of earlier tasks/)
  }
})

t.test('medium: a worker works without asking, and its result is sent back once at most', async (t) => {
  const boss = leads([task('ann', 'dig')], { review: () => ({ approved: false, remarks: 'Deeper.' }) })
  const deeper = works(({ content }) => (content.includes('Deeper.') ? 'a pit' : 'a hole'))
  const result = await play(t, { boss, ann: deeper }, { workerAutonomy: 'medium' })
  t.equal(result.finalOutput, 'ann: a pit')
  t.same(asked(result), [
    'request boss plan',
    'delegate ann dig',
    'request boss review',
    'delegate ann dig\n\n# Your first result\n\na hole\n\n# Remarks of your manager\n\nDeeper.',
    'request boss summary',
  ])
})

t.test('high: nobody asks the manager about anything', async (t) => {
  const verdict = () => ({ approved: false, remarks: 'No.' })
  const boss = leads([task('ann', 'dig')], { approve: verdict, review: verdict })
  const result = await play(t, { boss, ann: worker }, { workerAutonomy: 'high' })
  t.same(asked(result), ['request boss plan', 'delegate ann dig', 'request boss summary'])
})

/** Gives its task to the next in the alphabet. */
const passesOn = works(async ({ content }, context) => {
  const next = { ann: 'bob', bob: 'cat', cat: 'dan' }[context.role.name]
  try {
    return next ? `${context.role.name} by ${(await context.delegate(next, content)).result}` : 'dan'
  } catch (error) {
    if (!(error instanceof DelegationRefusedError)) throw error
    return `${context.role.name} alone: ${error.message}`
  }
})

t.test('workers delegate as deep as they may', async (t) => {
  const cast = { boss: leads([task('ann', 'dig')]), ann: passesOn, bob: passesOn, cat: passesOn, dan: passesOn }
  const cases: [Config, RegExp, object | undefined][] = [
    [
      {},
      /^ann: ann alone: "ann" cannot .* workerAutonomy "low" the manager alone/,
      { bound: 'workerAutonomy', limit: 1 },
    ],
    [{ workerAutonomy: 'medium', maxDelegationDepth: 8 }, /^ann: ann alone: .* "medium"/, { from: 'ann', to: 'bob' }],
    [
      { workerAutonomy: 'high', maxDelegationDepth: 1 },
      /ann alone: .* maxDelegationDepth is 1\./,
      { limit: 1, depth: 2 },
    ],
    [
      { workerAutonomy: 'high' },
      /^ann: ann by bob alone: .* 3 .* maxDelegationDepth is 2\./,
      { from: 'bob', to: 'cat' },
    ],
    [{ workerAutonomy: 'high', maxDelegationDepth: 3 }, /^ann: ann by bob by cat alone/, { from: 'cat', limit: 3 }],
    [{ workerAutonomy: 'high', maxDelegationDepth: 4 }, /^ann: ann by bob by cat by dan$/, undefined],
  ]
  for (const [config, answer, details] of cases) {
    const team = led(t, cast, config)
    const pending = team.execute('the job')
    await team.clock.advance(100_000)
    const result = await pending
    t.match(result, { success: true, finalOutput: answer })
    const letters = team.deadLetters.list().map(({ reason, errors }) => ({ reason, errors }))
    t.match(letters, details ? [{ reason: 'rejected', errors: [{ code: 'DELEGATION_REFUSED', details }] }] : [])
    t.equal(letters.length, details ? 1 : 0)
    t.equal(Object.values(result.taskCompletion).filter((status) => status === 'refused').length, details ? 1 : 0)
  }
})

t.test('it is the same depth where the manager delegates by itself', async (t) => {
  const boss = defineAgent({
    receive: async (_message, context) => String((await context.delegate('ann', 'dig')).result),
  })
  const cast = { boss, ann: passesOn, bob: passesOn, cat: passesOn, dan: passesOn }
  t.match((await play(t, cast)).finalOutput, /^ann alone: .* workerAutonomy "low"/)
  t.match(
    (await play(t, cast, { workerAutonomy: 'high' })).finalOutput,
    /^ann by bob alone: .* maxDelegationDepth is 2/,
  )
})

t.test('a task that is handed back and forth comes to rest', async (t) => {
  const passesBack = works(async ({ content }, context) => {
    try {
      await context.handoff(context.role.name === 'ann' ? 'bob' : 'ann', content)
      return ''
    } catch (error) {
      if (!(error instanceof DelegationRefusedError)) throw error
      return `${context.role.name} keeps it: ${error.details.bound}`
    }
  })
  const cast = { boss: leads([task('ann', 'dig')]), ann: passesBack, bob: passesBack }
  const answers = { low: 'ann: ann keeps it: workerAutonomy', high: 'bob: bob keeps it: maxDelegationDepth' } as const
  for (const [workerAutonomy, answer] of Object.entries(answers)) {
    const result = await play(t, cast, { workerAutonomy: workerAutonomy as 'low' | 'high' })
    t.match(result, { success: true, finalOutput: answer })
  }
})

t.test('a worker that may not delegate escalates to the manager, which reassigns the task', async (t) => {
  const escalates = works(async (_message, context) => {
    const outcome = await context.escalate('my back')
    return outcome.kind === 'reassigned' ? outcome.result.content : outcome.kind
  })
  const manager = leads([task('ann', 'dig')])
  const boss = defineAgent({
    receive: (message, context) =>
      'escalation' in message.metadata
        ? { structuredData: { decision: 'reassign', to: 'bob' } }
        : Reflect.get(manager, 'receive')(message, context),
  })
  const result = await play(t, { boss, ann: escalates, bob: worker }, { workerAutonomy: 'medium' })
  t.equal(result.finalOutput, 'ann: bob did dig')
})

const reports = works(async (_message: AgentMessage, context: AgentContext) => {
  await context.report('half of it')
  return 'done'
})

t.test('what workers report goes to the manager, unless somebody else is above them', async (t) => {
  const heard: string[] = []
  const cast = { boss: leads([task('ann', 'dig')], {}, heard), ann: reports }
  await play(t, cast, { workerAutonomy: 'high' })
  t.same(heard, ['report of ann: half of it'])

  heard.length = 0
  const others: string[] = []
  const chief = leads([], {}, others)
  await play(
    t,
    { ...cast, ann: { code: reports, escalateTo: 'chief' }, chief },
    { workers: ['ann'], workerAutonomy: 'high' },
  )
  t.same([heard, others], [[], ['report of ann: half of it']])
})

t.test('a worker that leaves and comes back has its place again', async (t) => {
  const heard: string[] = []
  const cast = { boss: leads([task('ann', 'dig')], {}, heard), ann: reports, bob: worker }
  const team = led(t, cast, { workerAutonomy: 'high' })
  t.equal(team.getAgent('ann')?.role.escalateTo, 'boss')
  await team.removeAgent('ann')
  t.match(await team.execute('the job'), { error: { code: 'REPLY_INVALID', message: /expected.*"bob"/ } })
  await team.addAgent({ name: 'ann' })
  t.match(await team.execute('the job'), { success: true, finalOutput: 'ann: done' })
  t.same(heard, ['report of ann: half of it'])
})

/** The tools of the worker `ann`, which a model plays as the rest of the team. */
async function toolsOf(t: Tap, config: Config, role: object = {}): Promise<string[]> {
  const answers: Record<string, string> = {
    plan: '{"tasks":[{"worker":"ann","task":"Dig."}],"reasoning":""}',
    review: '{"approved":true}',
    summary: 'There is a hole.',
  }
  const { team, model } = modelTeam(
    t,
    ({ agent, messages }) => {
      if (agent === 'ann') return 'A hole.'
      const asked = textOf(messages.at(-1)?.content ?? '')
      const step = /^Plan/.test(asked) ? 'plan' : /^Answer/.test(asked) ? 'summary' : 'review'
      return answers[step] ?? ''
    },
    [{ name: 'boss' }, { name: 'ann', ...role }, { name: 'bob' }],
    { orchestration: { strategy: 'hierarchical', manager: 'boss', workers: ['ann', 'bob'], ...config } },
  )
  t.equal((await team.execute('Make a hole.')).finalOutput, 'There is a hole.')
  const asked = model.requests.find(({ agent }) => agent === 'ann')
  return asked?.tools?.map(({ name }) => name) ?? []
}
type Tap = Parameters<typeof modelTeam>[0] & { equal(found: unknown, wanted: unknown): unknown }

t.test('a model has the tools that its place gives it', async (t) => {
  t.same(await toolsOf(t, {}), ['escalate', 'refuse', 'report'])
  t.same(await toolsOf(t, { progressReporting: false }), ['escalate', 'refuse'])
  t.same(await toolsOf(t, { workerAutonomy: 'high' }), ['escalate', 'refuse', 'report', 'request', 'delegate'])
  t.same(await toolsOf(t, { workerAutonomy: 'high', maxDelegationDepth: 1 }), [
    'escalate',
    'refuse',
    'report',
    'request',
  ])
  const rights = { delegationAllowed: false, tools: ['report'] }
  t.same(await toolsOf(t, { workerAutonomy: 'high' }, rights), ['escalate', 'refuse', 'report', 'request'])
  t.same(await toolsOf(t, { workerAutonomy: 'high' }, { trust: 'untrusted' }), ['refuse'])
})

// Delegations of a script: in whose name, and how deep. What `hierarchical` does, a protocol of one's own does too.

/** Passes each task on to the next of the line, and says how far it got. */
const chain = defineAgent({
  async receive({ sender }, context: AgentContext) {
    const line = ['a', 'b', 'c', 'd']
    const next = line[line.indexOf(context.role.name) + 1]
    const own = `${sender}>${context.role.name}`
    if (next === undefined) return own
    const below = await context.delegate(next, 'go on').then(
      ({ result }) => String(result),
      (error: { code: string }) => error.code,
    )
    return `${own} ${below}`
  },
})

const line = { a: chain, b: chain, c: chain, d: chain }

async function customDelegationPlay(
  t: Test,
  run: (script: OrchestratorContext) => Promise<string>,
  options: Options<string> & { depth?: number; cast?: Cast<string> } = {},
) {
  const { depth, cast = line, ...rest } = options
  const orchestration = { strategy: 'custom' as const, run, ...(depth !== undefined && { maxDelegationDepth: depth }) }
  return stage(t, cast, { ...rest, orchestration }).execute('q')
}

const first = (as?: string) => async (script: OrchestratorContext) =>
  String((await script.delegate('a', 'go', as === undefined ? undefined : { as })).result)

t.test('maxDelegationDepth bounds what agents delegate; a task of the script is the first', async (t) => {
  const expected = [
    [1, '$orchestrator>a DELEGATION_REFUSED'],
    [2, '$orchestrator>a a>b DELEGATION_REFUSED'],
    [3, '$orchestrator>a a>b b>c DELEGATION_REFUSED'],
    [undefined, '$orchestrator>a a>b b>c c>d'],
  ] as const
  for (const [depth, output] of expected) {
    const result = await customDelegationPlay(t, first(), depth === undefined ? {} : { depth })
    t.match(result, { success: true, finalOutput: output })
  }
  const named = await customDelegationPlay(t, first('d'), { depth: 2 })
  t.match(named, { finalOutput: 'd>a a>b DELEGATION_REFUSED' }, 'whoever gives it')
})

t.test('maxDelegationDepth is checked, beside a module too', (t) => {
  const agents = [{ name: 'a' }]
  const module = new URL('../fixtures/team/relay.js', import.meta.url)
  for (const wrong of [0, 9, 1.5, '2'])
    for (const code of [{ run: async () => '' }, { module }])
      t.throws(
        () =>
          createTeam({
            agents,
            models: 'rehearsal',
            orchestration: { strategy: 'custom', ...code, maxDelegationDepth: wrong as number },
          }),
        { code: 'CONFIGURATION', details: { path: 'orchestration.maxDelegationDepth' } },
      )
  t.end()
})

t.test('as: the role of that agent decides, and the error names it', async (t) => {
  const says = defineAgent({ receive: ({ sender }) => `task of ${sender}` })
  const cast = {
    lead: { code: says, canDelegateTo: ['a'] },
    mute: { code: says, delegationAllowed: false },
    a: says,
    b: says,
    hermit: { code: says, canBeDelegatedTo: false },
  }
  const give = (to: string, as: string) => async (script: OrchestratorContext) =>
    script.delegate(to, 'go', { as }).then(
      ({ result }) => String(result),
      ({ code, message }: { code: string; message: string }) => `${code} ${message}`,
    )
  const cases: [to: string, as: string, expected: RegExp][] = [
    ['a', 'lead', /^task of lead$/],
    ['b', 'lead', /^DELEGATION_REFUSED "lead" cannot delegate to "b": .*canDelegateTo/],
    ['lead', 'lead', /^DELEGATION_REFUSED .*nobody delegates to itself/],
    ['a', 'mute', /^DELEGATION_REFUSED "mute" .*delegationAllowed: false/],
    ['hermit', 'lead', /^DELEGATION_REFUSED .*canBeDelegatedTo: false/],
    ['a', 'nobody', /^UNKNOWN_AGENT .*"nobody"/],
    ['a', '$user', /^UNKNOWN_AGENT /],
  ]
  for (const [to, as, expected] of cases) {
    const { success, finalOutput } = await customDelegationPlay(t, give(to, as), { cast })
    t.ok(success)
    t.match(finalOutput, expected, `${as} to ${to}`)
  }
  const wrong = [{ by: 'lead' }, { as: 7 }, { as: '' }, null]
  for (const options of wrong) {
    const result = await customDelegationPlay(
      t,
      async (script) => String(await script.delegate('a', 'go', options as never)),
      { cast },
    )
    t.match(result, { success: false, error: { code: 'MESSAGE_REJECTED' } })
  }
})

t.test('an agent cannot speak in the name of another', async (t) => {
  const forges = defineAgent({
    async receive(_message, context: AgentContext) {
      const forged = { metadata: { $sender: 'b' } }
      return (await context.request('b', 'who am I?', forged)).content
    },
  })
  const b = defineAgent({ receive: ({ sender }) => sender })
  const result = await customDelegationPlay(t, async (script) => (await script.request('a', 'go')).content, {
    cast: { a: forges, b },
  })
  t.equal(result.finalOutput, 'a')
})
