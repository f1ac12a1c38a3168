/** Whom a task goes to: document 000, task routing; document 002, 2.5.1. */
import t from 'tap'
import { z } from 'zod'
import { TASK_ROUTINGS } from '../../src/actors/definition/task.ts'
import {
  type AgentContext,
  type AgentTask,
  createTeam,
  type DramatisError,
  defineAgent,
  defineTool,
  type OrchestrationConfig,
  type OrchestratorContext,
  type TokenLimit,
} from '../../src/index.ts'
import { scriptedModel } from '../../src/testing.ts'
import { pluck } from '../kit/lists.ts'
import { after } from '../team/stage.ts'
import { lastChoice, routing, told } from './scripts.ts'

const tool = (name: string) => defineTool({ name, description: name, input: z.object({}), run: () => 'done' })

const task = (fields: Partial<AgentTask>): AgentTask => ({
  id: 't1',
  description: 'a job',
  requiredCapabilities: [],
  assignedTo: null,
  status: 'pending',
  priority: 0,
  deadline: null,
  dependencies: [],
  result: null,
  parentTask: null,
  ...fields,
})

const desk = {
  SearchExpert: { capabilities: ['search', 'news lookup'], tools: [tool('WebSearch')] },
  CalcBot: { tools: [tool('MathSkill')] },
  Finder: { capabilities: ['search'] },
}

t.test('the first agent of the team one of whose capabilities occurs in the text gets the task', async (t) => {
  const { answer, result } = await told(t, desk, (script) => script.route("SEARCH for today's weather"))
  t.equal(answer, 'SearchExpert')
  t.match(lastChoice(result), {
    question: `Who gets the task "SEARCH for today's weather"?`,
    choice: 'SearchExpert',
    reason: 'capability_match: the task names its capability "search", confidence 1.',
  })
})

t.test('the order of among goes before that of the team, and nobody else is chosen', async (t) => {
  const among = ['CalcBot', 'Finder', 'SearchExpert']
  t.equal((await told(t, desk, (script) => script.route('a news Lookup', { among }))).answer, 'SearchExpert')
  t.equal((await told(t, desk, (script) => script.route('search', { among }))).answer, 'Finder')
  t.equal((await told(t, desk, (script) => script.route('search', { among: ['CalcBot'] }))).answer, null)
  t.equal((await told(t, desk, (script) => script.route('search', { among: [] }))).answer, null)
})

t.test('where no capability occurs, the first agent one of whose tools does', async (t) => {
  const ask = 'calculate value of mathskill expression 2+2'
  const { answer, result } = await told(t, desk, (script) => script.route(ask))
  t.equal(answer, 'CalcBot')
  t.match(lastChoice(result)?.reason, 'names its tool "MathSkill"')
  t.equal((await told(t, desk, (script) => script.route('MathSkill search'))).answer, 'SearchExpert')
})

t.test('a capability whose name is blank is refused: it would be in every text', (t) => {
  for (const [capabilities, path] of [
    [[' '], 'agents[0].capabilities[0]'],
    [[{ name: '\n' }], 'agents[0].capabilities[0].name'],
  ] as const)
    t.throws(() => routing(t, { a: { capabilities: [...capabilities] } }, async () => ''), {
      code: 'CONFIGURATION',
      message: /not blank/,
      details: { path },
    })
  t.end()
})

t.test('a task that names nothing of anybody is for nobody', async (t) => {
  const { answer, result } = await told(t, desk, (script) => script.route('sing a song'))
  t.equal(answer, null)
  t.match(lastChoice(result), { choice: 'nobody', reason: /names no capability and no tool of anybody/ })
})

t.test('the names of tools in modules are known, those of verbs are none', async (t) => {
  const modules = {
    a: { tools: ['request'] },
    b: { tools: [{ module: new URL('../fixtures/tools/echo.js', import.meta.url) }] },
  }
  t.equal((await told(t, modules, (script) => script.route('use Echo'))).answer, 'b')
  t.equal((await told(t, modules, (script) => script.route('request it'))).answer, null)
})

t.test('a skill that no tool stands behind is a name to route by, too', async (t) => {
  const skilled = { other: {}, CalcBot: { skills: ['MathSkill'] } }
  const ask = 'calculate value of MathSkill expression 2+2'
  t.equal((await told(t, skilled, (script) => script.route(ask))).answer, 'CalcBot')
})

t.test('required capabilities are needed all, in any letter case, and the surest agent has the task', async (t) => {
  const roles = {
    a: {
      capabilities: [
        { name: 'Code', confidence: 0.9 },
        { name: 'css', confidence: 0.2 },
      ],
    },
    b: {
      capabilities: [
        { name: 'code', confidence: 0.6 },
        { name: 'CSS', confidence: 0.5 },
      ],
    },
    c: { capabilities: ['code'] },
  }
  const requiring = (...requiredCapabilities: string[]) =>
    told(t, roles, (script) => script.route(task({ requiredCapabilities })))
  t.equal((await requiring('CODE', 'css')).answer, 'b', 'as sure as it is of the least of them')
  t.equal((await requiring('code')).answer, 'c', 'a name alone is sure')
  const nobody = await requiring('code', 'rust')
  t.equal(nobody.answer, null)
  t.match(lastChoice(nobody.result)?.reason, '"a": it lacks "rust"; "b": it lacks "rust"')
})

t.test('of agents that are as sure the first has the task', async (t) => {
  const roles = {
    a: { capabilities: [{ name: 'x', confidence: 0.5 }] },
    b: { capabilities: ['x'] },
    c: { capabilities: ['X'] },
  }
  t.equal((await told(t, roles, (script) => script.route(task({ requiredCapabilities: ['x'] })))).answer, 'b')
})

t.test('of several agents that the text names, or the types, the surest has the task, then the first', async (t) => {
  const sure = (confidence: number, name = 'x') => ({ capabilities: [{ name, inputTypes: ['csv'], confidence }] })
  const choices: [roles: Record<string, object>, text: string, expected: string][] = [
    [{ a: sure(0.2), b: sure(0.9) }, 'do X', 'b'],
    [{ a: sure(0.9), b: sure(0.2) }, 'do x', 'a'],
    [{ a: sure(0.9), b: sure(0.9) }, 'x', 'a'],
    [{ a: sure(0.9), b: { capabilities: ['x'] } }, 'x', 'b'],
    [{ a: sure(0.9, 'y'), b: sure(0.1) }, 'x', 'b'],
    [{ a: { tools: [tool('x')] }, b: sure(0.1) }, 'x', 'b'],
    [{ a: sure(0), b: { tools: [tool('x')] } }, 'x', 'a'],
    [{ a: sure(0.2), b: sure(0.9) }, 'sing', 'b'],
  ]
  for (const [roles, text, expected] of choices) {
    const ask = (script: OrchestratorContext) => script.route(text, { inputTypes: ['csv'] })
    const { answer, result } = await told(t, roles, ask)
    t.equal(answer, expected, `${JSON.stringify(roles)} ${text}`)
    if (text === 'do X') t.match(lastChoice(result)?.reason, /confidence 0\.9/)
  }
})

t.test('taskRouting under a strategy that routes nothing is refused, and the error says so', (t) => {
  const strategies: OrchestrationConfig<'a' | 'b'>[] = [
    { strategy: 'sequential' },
    { strategy: 'parallel', aggregationStrategy: 'merge' },
    { strategy: 'hierarchical', manager: 'a', workers: ['b'] },
    { strategy: 'auction' },
    { strategy: 'blackboard' },
    { strategy: 'collaborate', decomposer: false },
    { strategy: 'custom', run: async () => '' },
  ]
  for (const orchestration of strategies)
    for (const taskRouting of TASK_ROUTINGS) {
      const make = () =>
        createTeam({ agents: [{ name: 'a' }, { name: 'b' }], orchestration, taskRouting, models: 'rehearsal' })
      const { strategy } = orchestration
      if (strategy === 'collaborate' && taskRouting === 'explicit')
        t.throws(make, { code: 'CONFIGURATION', message: /No task of "collaborate" names its agent/ })
      else if (strategy === 'collaborate' || strategy === 'custom') t.doesNotThrow(make)
      else
        t.throws(make, {
          code: 'CONFIGURATION',
          message: new RegExp(`taskRouting: got "${taskRouting}".*under "${strategy}" no task is routed`),
          details: { path: 'taskRouting' },
        })
    }
  t.end()
})

t.test('a capability of other types than the task is none', async (t) => {
  const roles = {
    a: { capabilities: [{ name: 'convert', inputTypes: ['xml'], outputTypes: ['json'] }] },
    b: { capabilities: [{ name: 'convert', inputTypes: ['CSV'], outputTypes: ['json', 'yaml'] }] },
    c: { capabilities: ['convert'] },
  }
  const by = (options: object, from: string | AgentTask = 'convert it') =>
    told(t, roles, (script) => script.route(from, options)).then(({ answer }) => answer)
  t.equal(await by({}), 'a')
  t.equal(await by({ inputTypes: ['csv'] }), 'b')
  t.equal(await by({ outputTypes: ['yaml'] }), 'b')
  t.equal(await by({ inputTypes: ['xml'], outputTypes: ['yaml'] }), 'c', 'who declares no types takes any')
  t.equal(await by({ inputTypes: ['csv'] }, task({ requiredCapabilities: ['convert'] })), 'b')
  t.equal(await by({ outputTypes: ['yaml'] }, task({ requiredCapabilities: ['convert'] })), 'b')
  t.equal(await by({ inputTypes: ['csv'], among: ['a'] }, task({ requiredCapabilities: ['convert'] })), null)
  t.equal(await by({ outputTypes: ['toml'], among: ['a', 'b'] }, task({ requiredCapabilities: ['convert'] })), null)
})

t.test('where the text names nobody, declared types do', async (t) => {
  const roles = { a: {}, b: { capabilities: ['sums'] }, c: { capabilities: [{ name: 'plot', inputTypes: ['csv'] }] } }
  t.equal((await told(t, roles, (script) => script.route('a picture, please', { inputTypes: ['csv'] }))).answer, 'c')
  t.equal((await told(t, roles, (script) => script.route('a picture, please', { inputTypes: ['png'] }))).answer, null)
})

t.test('who has fewer tokens left than it would take does not get the task', async (t) => {
  const roles = {
    small: { maxTokens: 1_000, capabilities: [{ name: 'essay', estimatedTokens: 5_000 }] },
    large: { maxTokens: 9_000, capabilities: [{ name: 'essay', estimatedTokens: 5_000 }] },
  }
  const essay = (perRun?: object) =>
    told(t, roles, (script) => script.route('an essay'), perRun ? { budget: { perRun } } : {})
  t.equal((await essay()).answer, 'large')
  t.equal((await essay({ tokens: 5_000 })).answer, 'large')
  t.equal((await essay({ tokens: 4_999 })).answer, null)
  const poor = await essay({ perAgentTokens: 4_999 })
  t.equal(poor.answer, null)
  t.match(lastChoice(poor.result)?.reason, '"large": "essay" takes about 5000 tokens, and it has 4999 left')
  const both = {
    a: {
      maxTokens: 5_000,
      capabilities: [
        { name: 'x', estimatedTokens: 3_000 },
        { name: 'y', estimatedTokens: 3_000 },
      ],
    },
  }
  t.equal((await told(t, both, (script) => script.route(task({ requiredCapabilities: ['x', 'y'] })))).answer, null)
  t.equal((await told(t, both, (script) => script.route(task({ requiredCapabilities: ['x'] })))).answer, 'a')
})

t.test('what was used of a budget is not left', async (t) => {
  const spends = (context: AgentContext) => context.complete({ prompt: 'x', maxOutputTokens: 300 })
  const code = defineAgent({ receive: (_message, context) => spends(context).then(() => 'done') })
  const roles = { a: { code, capabilities: [{ name: 'essay', estimatedTokens: 900 }] } }
  const after = async (perRun: TokenLimit, use: (script: OrchestratorContext) => Promise<unknown>) => {
    const model = scriptedModel([{ reply: 'word '.repeat(200) }])
    const route = (script: OrchestratorContext) => script.route('an essay')
    const ask = async (script: OrchestratorContext) => [await route(script), await use(script), await route(script)]
    const { answer } = await told(t, roles, ask, { budget: { perRun }, models: { default: model } })
    return [answer].flat().filter((one) => one === 'a' || one === null)
  }
  const others = (script: OrchestratorContext) => spends(script).then(() => '')
  const itself = (script: OrchestratorContext) => script.request('a', 'go').then(() => '')
  t.same(await after({ tokens: 1_000 }, others), ['a', null])
  t.same(await after({ tokens: 1_000 }, itself), ['a', null])
  t.same(await after({ perAgentTokens: 1_000 }, others), ['a', 'a'])
  t.same(await after({ perAgentTokens: 1_000 }, itself), ['a', null])
})

t.test('explicit: whom the task is assigned to, else nobody', async (t) => {
  const assigned = (assignedTo: string | null, options = {}) =>
    told(t, desk, (script) => script.route(task({ description: 'search', assignedTo }), { by: 'explicit', ...options }))
  t.equal((await assigned('CalcBot')).answer, 'CalcBot')
  t.equal((await assigned(null)).answer, null)
  t.equal((await assigned('CalcBot', { among: ['Finder'] })).answer, null)
  t.equal((await told(t, desk, (script) => script.route('search', { by: 'explicit' }))).answer, null)
})

t.test('load_balance: the fewest messages that wait or are under way, of those that the task names', async (t) => {
  const roles = {
    a: { code: after(100), capabilities: ['search'] },
    b: { code: after(100), capabilities: ['search'], priority: 1 },
    c: { code: after(100), capabilities: ['search'] },
    idle: {},
  }
  const { answer, result } = await told(
    t,
    roles,
    async (script) => {
      const jobs: Promise<unknown>[] = []
      const chosen: (string | null)[] = []
      for (let n = 0; n < 5; n++) {
        const agent = await script.route('search')
        chosen.push(agent)
        jobs.push(script.request(agent ?? '', 'search'))
      }
      chosen.push(await script.route('sing'))
      await Promise.all(jobs)
      return chosen
    },
    { taskRouting: 'load_balance' },
  )
  t.same(answer, ['b', 'a', 'c', 'b', 'a', 'idle'])
  t.match(lastChoice(result)?.reason, 'load_balance: it has 0 messages to handle, the fewest of 4.')
})

t.test('load_balance: what is chosen at one moment is shared out, in one run and in several', async (t) => {
  const roles = { a: { code: after(100) }, b: { code: after(100) }, c: { code: after(100) } }
  const part = async (script: Parameters<Parameters<typeof told>[2]>[0]) => {
    const agent = await script.route('part')
    await script.request(agent ?? '', 'part')
    return agent
  }
  const options = { taskRouting: 'load_balance' } as const
  const six = await told(t, roles, (script) => Promise.all(Array.from({ length: 6 }, () => part(script))), options)
  t.same(six.answer, ['a', 'b', 'c', 'a', 'b', 'c'])
  const team = routing(t, roles, part, options)
  const runs = Promise.all(['1', '2', '3'].map((query) => team.execute(query)))
  await team.clock.advance(10_000)
  t.same((await runs).map(({ finalOutput }) => finalOutput).sort(), ['"a"', '"b"', '"c"'])
})

t.test('auction: equal bids at one moment are shared out', async (t) => {
  const bidder = defineAgent({
    async receive({ metadata }, context) {
      if ('bidFor' in metadata) return { structuredData: { bid: 0.5 } }
      await context.sleep(100)
      return 'done'
    },
  })
  const six = await told(t, { a: { code: bidder }, b: { code: bidder }, c: { code: bidder } }, (script) =>
    Promise.all(
      Array.from({ length: 6 }, async () => {
        const agent = await script.route('part', { by: 'auction' })
        await script.request(agent ?? '', 'part')
        return agent
      }),
    ),
  )
  t.same((six.answer as string[]).sort(), ['a', 'a', 'b', 'b', 'c', 'c'])
})

t.test('load_balance: a choice that nothing came of counts no longer than its run', async (t) => {
  const roles = { a: {}, b: {} }
  const team = routing(t, roles, (script) => script.route('x'), { taskRouting: 'load_balance' })
  for (let run = 0; run < 3; run++) t.equal((await team.execute('q')).finalOutput, '"a"')
})

t.test('round_robin: each in turn, from run to run, over changes of who is asked', async (t) => {
  const ask = async (script: Parameters<Parameters<typeof told>[2]>[0]) => {
    const chosen: (string | null)[] = []
    for (let n = 0; n < 4; n++) chosen.push(await script.route('x'))
    chosen.push(await script.route('x', { among: ['a', 'c'] }), await script.route('x'), await script.route('x'))
    return chosen
  }
  const team = routing(t, { a: {}, b: {}, c: {} }, ask, { taskRouting: 'round_robin' })
  t.equal((await team.execute('q')).finalOutput, '["a","b","c","a","c","b","a"]')
  t.equal((await team.execute('q')).finalOutput, '["c","b","a","c","a","b","c"]')
})

t.test('round_robin and load_balance keep to required capabilities', async (t) => {
  const roles = { a: {}, b: { capabilities: ['x'] } }
  for (const by of ['round_robin', 'load_balance'] as const) {
    const ask = (name: string) =>
      told(t, roles, (script) => script.route(task({ requiredCapabilities: [name] }), { by }))
    t.equal((await ask('x')).answer, 'b')
    t.equal((await ask('y')).answer, null)
  }
})

t.test('who takes no tasks, or is stopped for good, is never chosen', async (t) => {
  const dies = defineAgent({ receive: () => 'fine', start: () => Promise.reject(new Error('no')) })
  const roles = {
    proud: { capabilities: ['x'], canBeDelegatedTo: false },
    dead: { capabilities: ['x'], code: dies },
    alive: { capabilities: ['x'] },
  }
  for (const by of ['capability_match', 'load_balance', 'round_robin'] as const)
    t.equal((await told(t, roles, (script) => script.route('x', { by }))).answer, 'alive', by)
  for (const assignedTo of ['proud', 'dead'])
    t.equal((await told(t, roles, (script) => script.route(task({ assignedTo }), { by: 'explicit' }))).answer, null)
})

t.test('an agent that was spawned in the run can be chosen', async (t) => {
  const roles = { a: {} }
  const { answer } = await told(
    t,
    roles,
    async (script) => {
      await script.spawn({ name: 'extra', capabilities: ['x'] })
      return script.route('x')
    },
    { models: 'rehearsal' },
  )
  t.equal(answer, 'extra')
})

t.test('candidates says who can get a task, how well it fits and how much it has to do', async (t) => {
  const roles = {
    busy: { code: after(50), capabilities: [{ name: 'search', confidence: 0.7 }] },
    tooled: { tools: [tool('search')] },
    other: {},
    proud: { canBeDelegatedTo: false },
  }
  const { answer } = await told(t, roles, async (script) => {
    const job = script.request('busy', 'go')
    const found = await script.candidates('search')
    await job
    return found
  })
  t.same(answer, [
    { agent: 'busy', fit: 0.7, load: 1 },
    { agent: 'tooled', fit: 0.5, load: 0 },
    { agent: 'other', fit: 0, load: 0 },
  ])
})

t.test('what is no task, no option or nobody is refused, and says so', async (t) => {
  const wrong: [input: unknown, options: unknown, code: string, says: RegExp][] = [
    ['', {}, 'MESSAGE_REJECTED', /task is ""; a text that says what is to be done is needed/],
    [undefined, {}, 'MESSAGE_REJECTED', /task is nothing; an object is needed/],
    [{ description: 5 }, {}, 'MESSAGE_REJECTED', /task\.description is 5/],
    [{ description: 'x', skill: 'y' }, {}, 'MESSAGE_REJECTED', /task\.skill.*no such field/],
    [{ description: 'x', assignedTo: 5 }, {}, 'MESSAGE_REJECTED', /task\.assignedTo is 5/],
    [{ description: 'x', assignedTo: 'zed' }, { by: 'explicit' }, 'UNKNOWN_AGENT', /"zed"/],
    ['x', { among: ['a', 'bb'] }, 'UNKNOWN_AGENT', /"bb"/],
    ['x', { among: 'a' }, 'CONFIGURATION', /options\.among: got "a"/],
    ['x', { among: ['$user'] }, 'UNKNOWN_AGENT', /\$user/],
    ['x', { by: 'dice' }, 'CONFIGURATION', /options\.by: got "dice"; accepted: "explicit"/],
    ['x', { inputTypes: [5] }, 'CONFIGURATION', /options\.inputTypes\[0\]: got 5/],
    ['x', { form: 'y' }, 'CONFIGURATION', /options\.form: there is no such option/],
    ['x', null, 'MESSAGE_REJECTED', /options is null/],
  ]
  const { answer } = await told(t, { a: {}, b: {} }, async (script) => {
    const errors: unknown[] = []
    for (const [input, options] of wrong)
      await Reflect.apply(script.route, script, [input, options]).then(
        () => errors.push('it was taken'),
        ({ code, message }: DramatisError) => errors.push({ code, message }),
      )
    return errors
  })
  t.match(
    answer,
    wrong.map(([, , code, message]) => ({ code, message })),
  )
})

t.test('candidates has no option by: it chooses nobody', async (t) => {
  const { answer } = await told(t, { a: {} }, async (script) => {
    const pending: Promise<unknown> = Reflect.apply(script.candidates, script, ['x', { by: 'auction' }])
    return pending.catch(({ code, message }: DramatisError) => ({ code, message }))
  })
  t.match(answer, { code: 'CONFIGURATION', message: /options\.by: there is no such option/ })
})

t.test('a script that is tried again is told the same, and decides once', async (t) => {
  let attempts = 0
  const team = routing(
    t,
    { a: {}, b: {} },
    async (script) => {
      const first = await script.route('x')
      attempts = script.attempt
      if (script.attempt === 1) {
        team.crash('$orchestrator')
        await script.sleep(1_000)
      }
      return [first, await script.route('x')]
    },
    { taskRouting: 'round_robin' },
  )
  const pending = team.execute('q')
  await team.clock.advance(10_000)
  const result = await pending
  t.equal(attempts, 2)
  t.equal(result.finalOutput, '["a","b"]')
  const { decisions } = result.orchestrationTrace
  t.same(pluck(decisions, 'choice'), ['a', 'b'])
})
