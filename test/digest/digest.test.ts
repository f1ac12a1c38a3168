/** The digest of a team says what its events say, in names and numbers. */
import t from 'tap'
import { z } from 'zod'
import { type Digest, defineAgent, defineTool, type RuntimeEvent } from '../../src/index.ts'
import { MESSAGE_TYPES } from '../../src/mailbox/message.ts'
import { DigestFold } from '../../src/service/digest/digest-fold.ts'
import { momentOf } from '../../src/service/digest/moment.ts'
import { systemClock } from '../../src/shared/clock.ts'
import { scriptedModel, testTeam } from '../../src/testing.ts'
import { pluck } from '../kit/lists.ts'
import { importsOf, sourceFiles } from '../source-files.ts'
import { after, all, echo, stage, throws } from '../team/stage.ts'

const SECRET = 'sk-0123456789abcdef0123456789abcdef'

/** Keeps the process alive while a test waits for a line: a digest alone does not. */
const alive = systemClock.hold()
t.teardown(() => alive.cancel())

function foldOf(lines: readonly Digest[]): DigestFold {
  const fold = new DigestFold()
  for (const line of lines) fold.read(JSON.parse(JSON.stringify(line)))
  return fold
}

t.test('the messages and turns of a run are those of its history and its trace', async (t) => {
  const asks = defineAgent({
    async receive({ content }, context) {
      await context.sleep(5)
      const { content: answer } = await context.request('b', content)
      await context.broadcast('all of you')
      return answer
    },
  })
  const team = stage(t, { a: asks, b: after(3), c: throws() }, { orchestration: { strategy: 'parallel' } })
  const run = team.launch('q')
  await team.clock.advance(50)
  const result = await run.result
  const fold = foldOf(await all(team.digestOf(run.id)))
  const { columns: told } = fold.messages
  const seen = result.messageHistory.map(({ sender, recipient, type, sentAt }) =>
    [sender, recipient ?? 'all', type, Math.round(sentAt)].join(' '),
  )
  const rows = Array.from({ length: fold.messages.length }, (_, row) => row)
  const originals = rows.filter((row) => (told.type.at(row) & 16) === 0)
  t.same(
    originals.map((row) =>
      [
        fold.names[told.from.at(row)],
        told.to.at(row) < 0 ? 'all' : fold.names[told.to.at(row)],
        MESSAGE_TYPES[told.type.at(row) & 7],
        told.at.at(row),
      ].join(' '),
    ),
    seen,
  )
  const { columns: turns } = fold.turns
  t.same(
    Array.from({ length: fold.turns.length }, (_, row) =>
      [fold.names[turns.agent.at(row)], turns.start.at(row), turns.end.at(row)].join(' '),
    ).sort(),
    result.orchestrationTrace.agentActivations
      .map(({ agent, startedAt, endedAt }) => [agent, Math.round(startedAt), Math.round(endedAt)].join(' '))
      .sort(),
  )
  for (let row = 0; row < fold.turns.length; row++) {
    const message = fold.rowOf(turns.message.at(row))
    t.ok(message >= 0, 'the message of each turn is known')
    t.ok(told.at.at(message) <= turns.start.at(row))
  }
  t.match(fold.runs.get(run.id), { status: result.success ? 'finished' : 'failed', endedAt: result.executionTimeMs })
  t.ok(fold.agents.get('c')!.failedTurns > 0)
})

t.test('calls of models and tools are rows with their message, their tokens and their outcome', async (t) => {
  const team = testTeam(
    {
      agents: [{ name: 'a', systemPrompt: 'Add.', tools: ['publish'] }],
      enableBlackboard: true,
      orchestration: { strategy: 'sequential' },
    } as never,
    {
      model: scriptedModel([
        { toolCall: { name: 'publish', input: { key: 'sum', value: '3', entryType: 'fact' } } },
        { reply: 'done' },
      ]),
    },
  )
  t.teardown(() => team.close())
  const run = team.launch('q')
  const result = await run.result
  t.equal(result.error, null)
  const lines = await all(team.digestOf(run.id))
  const fold = foldOf(lines)
  const agent = fold.agents.get('a')!
  const { inputTokens, outputTokens, calls } = result.totalTokenUsage
  t.same([agent.inputTokens, agent.outputTokens, agent.modelCalls], [inputTokens, outputTokens, calls])
  const { columns } = fold.calls
  const called = (await all(run.events({ types: ['model.called'] }))) as Extract<
    RuntimeEvent,
    { type: 'model.called' }
  >[]
  t.same(
    pluck(called, 'messageId'),
    called.map(() => result.messageHistory.find(({ recipient }) => recipient === 'a')?.id),
    'the event names the message of the turn',
  )
  for (let row = 0; row < fold.calls.length; row++)
    t.equal(fold.names[fold.messages.columns.to.at(fold.rowOf(columns.message.at(row)))], 'a')
  t.same(
    lines
      .flatMap(({ facts = [] }) => facts.map(({ type }) => type))
      .filter((type) => !['task', 'agent.ready'].includes(type)),
    ['run.started', 'blackboard', 'run.finished'],
    'begins of turns, calls and their pieces are no facts',
  )
})

t.test('whoever watches a team gets its state first, and then what happens', async (t) => {
  const team = stage(t, { a: after(10), b: echo })
  const open = team.launch('open', { threadId: 'talk' })
  await team.clock.advance(1)
  const fold = new DigestFold()
  const stop = new AbortController()
  const reading = (async () => {
    for await (const line of team.watch({ signal: stop.signal })) {
      fold.read(line)
      if (fold.runs.get(open.id)?.endedAt) stop.abort()
    }
  })()
  await new Promise((resolve) => setImmediate(resolve))
  t.match(fold.runs.get(open.id), { query: 'open', status: 'running', threadId: 'talk', endedAt: null })
  t.match(
    [...fold.agents.values()],
    [
      { name: 'a', status: 'running', inFlight: 1 },
      { name: 'b', status: 'idle' },
    ],
  )
  t.equal(fold.log, team.logName)
  await team.clock.advance(50)
  await reading
  t.match(fold.runs.get(open.id), { status: 'finished', messages: 4 })
  t.equal(fold.agents.get('b')!.turns, 1)
})

t.test('who watches later counts as one who watched from the beginning', async (t) => {
  const works = defineAgent({
    async receive({ content }, context) {
      await context.tool('add', {})
      if (content === 'fail') throw new Error('as asked')
      return 'done'
    },
  })
  const add = defineTool({ name: 'add', description: 'Adds.', input: z.object({}), run: () => 2 })
  const team = stage(t, { a: { code: works, tools: [add] } })
  await team.start()
  const stop = new AbortController()
  const fold = new DigestFold()
  const reading = (async () => {
    for await (const line of team.watch({ signal: stop.signal })) fold.read(line)
  })()
  await new Promise((resolve) => setImmediate(resolve))
  for (const query of ['one', 'fail', 'two']) await team.execute(query)
  const later = new DigestFold()
  for await (const line of team.watch()) {
    later.read(line)
    break
  }
  stop.abort()
  await reading
  const of = ({ agents }: DigestFold) => {
    const { turns, failedTurns, toolCalls } = agents.get('a')!
    return { turns, failedTurns, toolCalls }
  }
  t.same(of(later), { turns: 3, failedTurns: 1, toolCalls: 3 })
  t.same(of(fold), of(later))
})

t.test('facts are cut, and have none of the keys of the team', async (t) => {
  const long = 'x'.repeat(5_000)
  const writes = defineAgent({
    async receive(_message, { blackboard }) {
      await blackboard.write('note', { text: long, key: `${'y'.repeat(190)}${SECRET}` }, 'fact')
      throw new Error(long)
    },
  })
  const team = stage(t, { a: writes }, {
    enableBlackboard: true,
    models: { default: { model: 'small', baseURL: 'http://localhost:1/v1', apiKey: SECRET } },
    orchestration: { strategy: 'sequential' },
  } as never)
  const run = team.launch(`${long}${SECRET}`)
  await run.result
  const lines = await all(team.digestOf(run.id))
  const text = JSON.stringify(lines)
  t.ok(text.length < 8_000, `${text.length} characters`)
  t.notMatch(text, /sk-0123/)
  t.ok(lines.flatMap(({ facts = [] }) => facts).some(({ type }) => type === 'blackboard'))
})

t.test('the digest of an unknown run is refused', async (t) => {
  const team = stage(t, { a: echo })
  await t.rejects(all(team.digestOf('none')), { code: 'UNKNOWN_RUN' })
})

t.test('any time of a run can be looked at: who has what, and who waits for whom', async (t) => {
  const asks = defineAgent({
    async receive({ content }, context) {
      const answers = await Promise.all(['b', 'c'].map((name) => context.request(name, content)))
      await context.sleep(7)
      return answers.map(({ content: said }) => said).join()
    },
  })
  const options = {
    orchestration: {
      strategy: 'custom' as const,
      run: async (desk: { request(to: string, text: string): Promise<{ content: string }> }) =>
        (await Promise.all([1, 2, 3].map((n) => desk.request('a', `${n}`)))).map(({ content }) => content).join(),
    },
  }
  const team = stage(t, { a: asks, b: after(11), c: after(29) }, options as never)
  const run = team.launch('q')
  await team.clock.advance(1_000)
  await run.result
  const fold = foldOf(await all(team.digestOf(run.id)))
  const { columns: messages } = fold.messages
  const { columns: turns } = fold.turns
  const rowsOf = (length: number) => Array.from({ length }, (_, row) => row)
  for (let time = fold.began - 2; time <= fold.now + 2; time += 3) {
    const { agents, waits } = momentOf(fold, time)
    for (const { name, inMailbox, turns: running } of agents) {
      const place = fold.names.indexOf(name)
      const came = rowsOf(fold.messages.length).filter(
        (row) => messages.to.at(row) === place && MESSAGE_TYPES[messages.type.at(row)] !== 'response',
      )
      const has = came.filter((row) => messages.at.at(row) <= time && messages.end.at(row) > time)
      t.equal(inMailbox, has.length, `${name} at ${time - fold.began}`)
      const open = rowsOf(fold.turns.length).filter(
        (row) => turns.agent.at(row) === place && turns.start.at(row) <= time && turns.end.at(row) > time,
      )
      t.same(running, open)
    }
    const asked = rowsOf(fold.messages.length).filter(
      (row) =>
        MESSAGE_TYPES[messages.type.at(row)] === 'request' &&
        messages.at.at(row) <= time &&
        messages.end.at(row) > time &&
        fold.agents.has(fold.names[messages.from.at(row)] ?? ''),
    )
    t.same(
      waits.map(({ message }) => message).sort((a, b) => a - b),
      asked,
    )
  }
})

t.test('the fold uses nothing of Node or of a browser', async (t) => {
  const files = sourceFiles.filter(({ path }) => path.startsWith('src/service/digest/'))
  t.ok(files.length > 2)
  const seen = new Set(files.map(({ path }) => path))
  for (const file of files) for (const to of importsOf(file)) seen.add(to)
  t.same([...seen].filter((path) => !path.startsWith('src/service/digest/')).sort(), [
    'src/mailbox/message-type.ts',
    'src/runtime/views/digest-line.ts',
    'src/runtime/views/slow.ts',
  ])
  t.notMatch(sourceFiles.find(({ path }) => path === 'src/shared/text.ts')?.text, /^import/m, 'what slow.ts imports')
  for (const { path, text } of sourceFiles.filter((file) => seen.has(file.path))) {
    t.notMatch(text, /from 'node:|\b(process|Buffer|window|document|globalThis|setTimeout|setInterval)\b/, path)
    const values = text.match(/^import (?!type|\{ grouped \} from '\.\.\/\.\.\/shared\/text\.ts').*$/gm) ?? []
    if (!path.startsWith('src/service/')) t.same(values, [], `${path} imports types alone`)
  }
})
