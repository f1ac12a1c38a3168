/** Checks of what goes into a team, a role and a tool, and of what comes out: they pass, change or refuse. */
import t from 'tap'
import { z } from 'zod'
import { turnBehind } from '../../src/actors/turn/context.ts'
import { createTeam, defineTool, type Guardrail, type RuntimeEvent } from '../../src/index.ts'
import type { TestTeam } from '../../src/testing.ts'
import { MemoryDisk, MemoryStore } from '../durability/memory-store.ts'
import { pluck } from '../kit/lists.ts'
import { gate, given, localTeam, type Receive, silent } from '../kit/team.ts'
import { doing } from '../toolbox/tools.ts'
import { type Answers, calls, type FakeModel } from './fake-model.ts'
import { modelTeam } from './teams.ts'

const add = defineTool({
  name: 'add',
  description: 'Adds.',
  input: z.object({ a: z.number(), b: z.number() }),
  run: ({ a, b }) => String(a + b),
})

const refusing = (word: string, more: Partial<Guardrail> = {}): Guardrail => ({
  name: `no ${word}`,
  check: (text) => (text.includes(word) ? { refuse: `It says ${word}.` } : undefined),
  ...more,
})
const replacing = (word: string, by: string, more: Partial<Guardrail> = {}): Guardrail => ({
  name: `${by} for ${word}`,
  check: (text) => (text.includes(word) ? { change: text.replaceAll(word, by) } : undefined),
  ...more,
})

/** What guardrails have decided in a run. */
async function decided(team: Pick<TestTeam, 'getRun'>, runId: string): Promise<string[]> {
  const all: string[] = []
  for await (const event of team.getRun(runId)!.events({ types: ['guardrail', 'run.finished'] }))
    if (event.type === 'guardrail')
      all.push(
        `${event.agent} ${event.on}${event.tool ? ` of ${event.tool}` : ''}: ${event.guardrail} ${event.outcome}`,
      )
  return all
}

const lastOf = ({ requests }: FakeModel, nth = 0) => requests[nth]?.messages.at(-1)?.content

t.test('the query of a run passes, is changed or refused', async (t) => {
  const input = [replacing('4111', '[card]', { when: 'before' }), refusing('bomb')]
  const { team, model } = modelTeam(t, () => 'fine', [{ name: 'bot' }], { guardrails: { input } })
  t.match(await team.execute('pay with 4111', { runId: 'one' }), { success: true, finalOutput: 'fine' })
  t.equal(lastOf(model), 'pay with [card]')
  t.same(await decided(team, 'one'), ['null input: [card] for 4111 changed', 'null input: no bomb passed'])
  const { error } = await team.execute('a bomb', { runId: 'two' })
  t.match(error, {
    code: 'GUARDRAIL',
    message: 'The guardrail "no bomb" refuses the input of the run: It says bomb.',
    details: { guardrail: 'no bomb', on: 'input', reason: 'It says bomb.' },
  })
  const { events } = (await team.execute('go')).orchestrationTrace
  t.match(events.find(({ eventType }) => eventType === 'guardrail')?.details, {
    guardrail: '[card] for 4111',
    outcome: 'passed',
  })
})

t.test('a check of the query runs beside the work, which ends if it refuses; there is no answer before', async (t) => {
  const asked = gate()
  const decide = gate()
  const gone = gate()
  const slow: Guardrail = {
    name: 'slow',
    async check(text) {
      await decide.opened
      return text === 'bad' ? { refuse: 'no' } : undefined
    },
  }
  const answers: Answers = async (request) => {
    asked.open()
    if (request.messages.at(-1)?.content !== 'bad') return 'fine'
    request.signal.addEventListener('abort', gone.open)
    await gone.opened
    return 'too late'
  }
  const { team } = modelTeam(t, answers, [{ name: 'bot' }], { guardrails: { input: [slow] } })
  const good = team.launch('good')
  await asked.opened
  await team.clock.advance(1_000)
  t.equal(good.status, 'running', 'the answer waits for the check')
  const bad = team.launch('bad')
  await team.clock.advance(1_000)
  decide.open()
  t.match(await good.result, { finalOutput: 'fine' })
  t.match((await bad.result).error, { code: 'GUARDRAIL' })
  await gone.opened
})

t.test('the answer of a run is checked before anybody sees a word of it', async (t) => {
  const output = [replacing('secret', '***'), refusing('bomb')]
  const { team } = modelTeam(
    t,
    (_request, nth) => (nth === 0 ? [{ text: 'a sec' }, { text: 'ret' }] : 'a bomb'),
    [{ name: 'bot' }],
    {
      guardrails: { output },
    },
  )
  const run = team.launch('go')
  let read = ''
  for await (const piece of run.text()) read += piece
  t.same([read, (await run.result).finalOutput], ['a ***', 'a ***'])
  const events: RuntimeEvent<unknown>[] = []
  for await (const event of run.events()) events.push(event)
  t.notOk(events.some(({ type }) => type === 'output.delta' || type === 'model.delta'))
  t.match(await team.execute('again'), {
    success: false,
    finalOutput: null,
    error: { code: 'GUARDRAIL', details: { on: 'output' } },
  })
})

t.test('an answer that is changed is read by its schema again', async (t) => {
  const { team } = modelTeam(t, () => '{"n": 1}', [{ name: 'bot' }], { guardrails: { output: [replacing('1', '2')] } })
  t.match(await team.execute('go', { output: z.object({ n: z.number() }) }), { data: { n: 2 } })
})

t.test(
  'a role has checks of what its model is asked and answers, and its conversation has what they made',
  async (t) => {
    const guardrails = {
      input: [replacing('Ann', 'somebody', { when: 'before' as const }), refusing('bomb')],
      output: [replacing('damn', '***')],
    }
    const answers: Answers = ['damn you', 'fine', 'never']
    const { team, model } = modelTeam(t, answers, [{ name: 'bot', guardrails }])
    t.equal((await team.execute('I am Ann', { threadId: 'a', runId: 'one' })).finalOutput, '*** you')
    await team.execute('go on', { threadId: 'a' })
    t.same(pluck(model.requests[1]!.messages.slice(1), 'content'), ['I am somebody', '*** you', 'go on'])
    t.same(await decided(team, 'one'), [
      'bot input: somebody for Ann changed',
      'bot input: no bomb passed',
      'bot output: *** for damn changed',
    ])
    t.match((await team.execute('a bomb')).error, { code: 'GUARDRAIL', details: { agent: 'bot', on: 'input' } })
  },
)

t.test('nothing of a role with checks of its answers is streamed; the whole comes when it has passed', async (t) => {
  const guardrails = { output: [replacing('b', 'c')] }
  const { team } = modelTeam(t, () => [{ text: 'a' }, { text: 'b' }], [{ name: 'bot', guardrails }])
  const run = team.launch('go')
  const pieces: string[] = []
  for await (const piece of run.text()) pieces.push(piece)
  t.same(pieces, ['ac'])
  const parts: string[] = []
  for await (const part of run.stream()) parts.push(part.type === 'text' ? part.text : part.type)
  t.same(parts, ['speaker', 'ac', 'run.finished'])
})

t.test('a call of a tool passes, is changed or refused: a model is told why, code gets the error', async (t) => {
  const tool: Guardrail<{ tool: string; input: unknown }>[] = [
    {
      name: 'small numbers',
      check({ tool: name, input }) {
        const { a, b } = input as { a: number; b: number }
        if (name !== 'add') return undefined
        if (a > 100) return { refuse: 'That is too much.' }
        return b === 0 ? { change: { tool: name, input: { a, b: 1 } } } : undefined
      },
    },
  ]
  const answers: Answers = (_request, nth) =>
    nth < 3 ? calls(['add', { a: [1, 1, 101][nth]!, b: [2, 0, 0][nth]! }]) : 'done'
  const { team, model } = modelTeam(t, answers, [{ name: 'bot', tools: ['add'] }], {
    tools: [add],
    guardrails: { tool },
  })
  await team.execute('go', { runId: 'one' })
  t.match(
    [1, 2, 3].map((nth) => lastOf(model, nth)),
    ['3', '2', 'Error: The guardrail "small numbers" refuses a call of the tool "add" of "bot": That is too much.'],
  )
  t.same(
    (await decided(team, 'one')).map((text) => text.slice(text.lastIndexOf(' ') + 1)),
    ['passed', 'changed', 'refused'],
  )
  const ann = async (_message: unknown, context: { tool(name: string, input: object): Promise<unknown> }) =>
    String(await context.tool('add', { a: 101, b: 1 }).catch((error: Error) => error.message))
  const coded = localTeam(t, { ann }, { tools: [add], roles: { ann: { guardrails: { tool } } } })
  t.match((await coded.execute('go')).finalOutput, /too much/)
})

const limits = {
  name: 'at most 100',
  check({ tool, input }: { tool: string; input: unknown }) {
    const { a, b } = input as { a: number; b: number }
    if (a < 0) return { refuse: 'Nothing negative.' }
    return a > 100 ? { change: { tool, input: { a: 100, b } } } : undefined
  },
}

for (const way of ['a model', 'code', 'code that calls without asking'] as const)
  t.test(`an input that a person has edited is checked again: ${way}`, async (t) => {
    const added: unknown[] = []
    const tool = defineTool({
      name: 'sum',
      description: 'Adds.',
      input: z.object({ a: z.number(), b: z.number() }),
      approval: true,
      run: (input) => {
        added.push(input)
        return String(input.a + input.b)
      },
    })
    const options = { tools: [tool], guardrails: { tool: [limits] } }
    const given = { a: 1, b: 1 }
    const ann: Receive = async (_message, context) => {
      const call = { name: 'sum', input: given, callId: 'one' }
      const made = way === 'code' ? context.tool('sum', given) : turnBehind(context)!.call('tool', call)
      return made.then(String, ({ code }) => code)
    }
    const roles = { ann: { tools: ['sum'] } }
    const agents = [{ name: 'ann', tools: ['sum'] }]
    const answers: Answers = ({ messages }) => {
      const last = messages.at(-1)
      return last?.role === 'tool' ? String(last.content) : calls(['sum', given])
    }
    const team =
      way === 'a model' ? modelTeam(t, answers, agents, options).team : localTeam(t, { ann }, { ...options, roles })
    const play = async (...edits: unknown[]) => {
      const questions: unknown[] = []
      const run = team.launch('go')
      for (const input of edits) {
        await team.clock.advance(1)
        const [open] = run.questions
        questions.push(open?.input)
        await run.answer(open!.questionId, input === 'yes' ? 'yes' : { approved: true, input })
      }
      await team.clock.advance(1_000)
      return { said: (await run.result).finalOutput, questions }
    }
    const refused = await play({ a: -1, b: 1 })
    t.match(refused.said, way === 'a model' ? /"at most 100" refuses .*Nothing negative/ : 'GUARDRAIL')
    t.same(added, [])
    t.match(await play({ a: 2, b: 3 }), { said: /5$/, questions: [given] })
    t.match(await play({ a: 500, b: 3 }, 'yes'), { said: /103$/, questions: [given, { a: 100, b: 3 }] })
    t.same(added, [
      { a: 2, b: 3 },
      { a: 100, b: 3 },
    ])
  })

t.test('a call begins with the input alone that a person has agreed to', async (t) => {
  const added: unknown[] = []
  const tool = defineTool({
    name: 'sum',
    description: 'Adds.',
    input: z.object({ a: z.number(), b: z.number() }),
    approval: true,
    run: (input) => void added.push(input),
  })
  const forger: Receive = async (_message, context) => {
    const turn = turnBehind(context)!
    const call = { name: 'sum', callId: 'one' }
    await turn.call('approve', { ...call, input: { a: 1, b: 1 } })
    await turn.call('tool', { ...call, input: { a: 1, b: 900 } }).catch(() => {})
    return 'done'
  }
  const team = localTeam(t, { ann: forger }, { tools: [tool], roles: { ann: { tools: ['sum'] } } })
  const run = team.launch('go')
  for (const [b, answer] of [
    [1, 'yes'],
    [900, 'no'],
  ] as const) {
    await team.clock.advance(1)
    t.match(run.questions, [{ input: { a: 1, b } }])
    await run.answer(run.questions[0]!.questionId, answer)
  }
  await team.clock.advance(1_000)
  t.equal((await run.result).finalOutput, 'done')
  t.same(added, [])
})

t.test('an input that was edited and changed by a check is asked about once, also after a crash', async (t) => {
  const tool = defineTool({
    name: 'sum',
    description: 'Adds.',
    input: z.object({ a: z.number(), b: z.number() }),
    approval: true,
    run: ({ a, b }) => a + b,
  })
  const ann: Receive = async (_message, context) => {
    const sum = String(await context.tool('sum', { a: 1, b: 1 }))
    await context.sleep(100)
    return sum
  }
  const team = given(t, { tools: [tool], roles: { ann: { tools: ['sum'] } }, guardrails: { tool: [limits] } }).team({
    ann,
  })
  const run = team.launch('go')
  await team.clock.advance(1)
  await run.answer(run.questions[0]!.questionId, { approved: true, input: { a: 500, b: 3 } })
  await team.clock.advance(1)
  team.crash('ann')
  await team.clock.advance(50)
  t.match(run.questions, [{ input: { a: 100, b: 3 } }])
  await run.answer(run.questions[0]!.questionId, 'yes')
  await team.clock.advance(1)
  team.crash('ann')
  await team.clock.runToIdle()
  t.equal((await run.result).finalOutput, '103')
  t.same(run.questions, [])
})

t.test('what was decided is not asked again when a turn is redelivered', async (t) => {
  const checked: string[] = []
  const note = (text: string) => void checked.push(text)
  const guardrails = {
    input: [{ name: 'in', check: note, when: 'before' as const }],
    output: [{ name: 'out', check: note }],
  }
  const wait = gate()
  const answers: Answers = async (_request, nth) => {
    if (nth === 0) await wait.opened
    return nth === 0 ? calls(['add', { a: 1, b: 2 }]) : 'three'
  }
  const { team } = modelTeam(t, answers, [{ name: 'bot', tools: ['add'], guardrails }], { tools: [add] })
  const run = team.launch('go')
  await team.clock.advance(10)
  team.crash('bot')
  await team.clock.advance(10_000)
  wait.open()
  await team.clock.advance(10_000)
  t.match(await run.result, { finalOutput: 'three' })
  t.same(checked, ['go', 'three'])
})

t.test('a run of an earlier process has its query checked again, before its answer', async (t) => {
  const disk = new MemoryDisk()
  const asked = gate()
  const teamOf = (check: Guardrail['check'], complete: () => AsyncIterable<{ text: string }>) =>
    createTeam({
      agents: [{ name: 'bot', systemPrompt: 'Talk.' }],
      orchestration: { strategy: 'sequential' },
      guardrails: { input: [{ name: 'slow', check }] },
      models: { default: { offline: true, complete } },
      stateManagement: { store: new MemoryStore(disk) },
      logger: silent,
    })
  const before = teamOf(
    () => new Promise(() => {}),
    async function* () {
      asked.open()
      await new Promise(() => {})
      yield { text: '' }
    },
  )
  before.launch('go', { runId: 'one' })
  await asked.opened
  await before.close()
  const after = teamOf(
    () => ({ refuse: 'late, but not never' }),
    async function* () {
      yield { text: 'an answer' }
    },
  )
  t.teardown(() => after.close())
  await after.start()
  t.match((await after.getRun('one')!.result).error, { code: 'GUARDRAIL', message: /late, but not never/ })
})

t.test('a later process has the answer of a run as it was changed', async (t) => {
  const disk = new MemoryDisk()
  const teamOf = () =>
    createTeam({
      agents: [{ name: 'bot', systemPrompt: 'Talk.' }],
      orchestration: { strategy: 'sequential' },
      guardrails: { output: [replacing('secret', '***')] },
      models: {
        default: {
          async *complete() {
            yield { text: '{"a":"secret"}' }
          },
        },
      },
      stateManagement: { store: new MemoryStore(disk) },
      logger: silent,
    })
  const before = teamOf()
  const { finalOutput, messages } = await before.execute('go', { runId: 'one' })
  t.equal(finalOutput, '{"a":"***"}')
  await before.close()
  const after = teamOf()
  t.teardown(() => after.close())
  await after.start()
  const again = await after.getRun('one')!.result
  t.equal(again.finalOutput, finalOutput)
  t.same(again.messages, messages)
  t.match(await after.resume('one', { output: z.object({ a: z.string() }) }), { data: { a: '***' } })
})

t.test('a check that fails, is late, or decides nonsense refuses', async (t) => {
  const wrong: [check: Guardrail['check'], said: RegExp][] = [
    [() => Promise.reject(new Error('no network')), /refuses the output of the run: it failed: Error: no network/],
    [
      () => {
        throw new TypeError('oops')
      },
      /it failed: TypeError: oops/,
    ],
    [() => new Promise(() => {}), /it did not decide within 50 ms \(timeoutMs\)/],
    [() => true as never, /it gave true; undefined, \{ change \} or \{ refuse: 'why' \} is needed/],
    [() => ({}) as never, /it gave an object/],
    [() => ({ change: 5 }) as never, /it changed the output into 5/],
  ]
  for (const [check, said] of wrong) {
    const { team } = modelTeam(t, () => 'x', [{ name: 'bot' }], {
      guardrails: { output: [{ name: 'odd', timeoutMs: 50, check }] },
    })
    const result = team.execute('go')
    await team.clock.advance(100)
    t.match((await result).error, { code: 'GUARDRAIL', message: said })
  }
  const { team } = modelTeam(t, () => 'x', [{ name: 'bot' }], {
    guardrails: { input: [{ name: 'odd', check: () => ({ change: 'y' }) }] },
  })
  t.match((await team.execute('go')).error?.message, /set when: 'before'/)
  const act = doing(() => 'done')
  const odd = { name: 'odd', check: () => ({ change: { at: 'home' } }) as never }
  const answers = [calls(['act', {}]), 'done']
  const { team: other, model } = modelTeam(t, answers, [{ name: 'bot', tools: [act], guardrails: { tool: [odd] } }])
  await other.execute('go')
  t.match(
    model.requests[1]?.messages.at(-1)?.content,
    'it changed the call into an object; { change: { tool, input } }',
  )
})

t.test('wrong guardrails are refused, with the option and what is accepted', async (t) => {
  const wrong: [options: object, said: RegExp][] = [
    [{ guardrails: { input: [{ name: 'x' }] } }, /guardrails\.input\[0\]\.check: got nothing; accepted: a function/],
    [{ guardrails: { input: [{ check() {} }] } }, /guardrails\.input\[0\]\.name/],
    [{ guardrails: { input: [{ name: 'x', check() {}, when: 'after' }] } }, /when.*"before", "beside"/],
    [{ guardrails: { output: [{ name: 'x', check() {}, when: 'before' }] } }, /output\[0\]\.when.*it is for input/],
    [{ guardrails: { inputs: [] } }, /guardrails\.inputs.*did you mean "input"/],
    [{ guardrails: [] }, /guardrails: got an empty list; accepted: an object/],
  ]
  for (const [options, said] of wrong)
    t.throws(() => modelTeam(t, () => 'x', [{ name: 'bot' }], options), { code: 'CONFIGURATION', message: said })
  const guardrails = { input: [refusing('x')] }
  t.throws(() => localTeam(t, { ann: () => '' }, { roles: { ann: { guardrails } } }), {
    code: 'CONFIGURATION',
    message: /agents\[0\]\.guardrails\.input.*Check it in the code/,
  })
})

t.test('the first refusal beside the work ends the other checks', async (t) => {
  let ended: AbortSignal | undefined
  const waiting: Guardrail = {
    name: 'waits',
    check: (_text, { signal }) => {
      ended = signal
      return new Promise(() => {})
    },
  }
  const { team } = modelTeam(t, () => 'x', [{ name: 'bot' }], { guardrails: { input: [waiting, refusing('go')] } })
  t.match((await team.execute('go')).error, { code: 'GUARDRAIL' })
  t.equal(ended?.aborted, true)
})

t.test(
  'a check has its time in its event; its signal fires when it is late, and not once it has decided',
  async (t) => {
    const signals: AbortSignal[] = []
    const { team } = modelTeam(t, () => 'x', [{ name: 'bot' }], {
      guardrails: {
        output: [30, 100].map((ms) => ({
          name: `takes ${ms}`,
          timeoutMs: 50,
          check: async (_text, { signal }) => {
            signals.push(signal)
            await team.clock.sleep(ms)
            return undefined
          },
        })),
      },
    })
    const run = team.launch('go')
    await team.clock.advance(1_000)
    t.match((await run.result).error, { code: 'GUARDRAIL', details: { guardrail: 'takes 100' } })
    t.same(pluck(signals, 'aborted'), [false, true])
    const times: number[] = []
    for await (const event of run.events({ types: ['guardrail'] }))
      if (event.type === 'guardrail') times.push(event.durationMs)
    t.same(times, [30, 50])
  },
)

t.test('a run that is cancelled while a check decides was not refused', async (t) => {
  const { open, opened } = gate()
  const check: Guardrail['check'] = () => {
    open()
    return new Promise(() => {})
  }
  const { team } = modelTeam(t, () => 'x', [{ name: 'bot' }], { guardrails: { output: [{ name: 'slow', check }] } })
  const run = team.launch('go', { runId: 'one' })
  await opened
  await run.cancel('enough')
  t.match((await run.result).error, { code: 'RUN_ABORTED' })
  t.same(await decided(team, 'one'), [])
})
