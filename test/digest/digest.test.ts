/** The digest of a team says what its events say, in names and numbers; how its lines are made. */
import t from 'tap'
import { z } from 'zod'
import { type Digest, defineAgent, defineTool, type RuntimeEvent } from '../../src/index.ts'
import * as frame from '../../src/mailbox/frame.ts'
import { allocate } from '../../src/mailbox/frame.ts'
import { MESSAGE_TYPES } from '../../src/mailbox/message.ts'
import { type FrameBlock, SEQ_STEP } from '../../src/runtime/log/records.ts'
import { AGAIN, COPY, type Digest as DigestLines, NONE, TO_SEVERAL } from '../../src/runtime/views/digest-line.ts'
import { DigestMaker } from '../../src/runtime/views/digest-maker.ts'
import { LineTable, RecentNumbers } from '../../src/runtime/views/line-table.ts'
import { listsOf } from '../../src/service/digest/columns.ts'
import { DigestFold } from '../../src/service/digest/digest-fold.ts'
import { momentOf } from '../../src/service/digest/moment.ts'
import { systemClock } from '../../src/shared/clock.ts'
import { seededRandom } from '../../src/shared/random.ts'
import { scriptedModel, testTeam } from '../../src/testing.ts'
import { pluck } from '../kit/lists.ts'
import { importsOf, sourceFiles } from '../source-files.ts'
import { after, all, echo, stage, throws } from '../team/stage.ts'

// The digest of a team says what its events say, in names and numbers.

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

// Lines of the digest have each message and each end of a turn that the frames have, however alike these are.

const FRAMES = 60
const BEGAN_AT = 1_700_000_000_000

/** A frame's header. `serial`: number of the message that the frame is, or whose turn it ends. */
const START = {
  kind: frame.SEND,
  flags: 0,
  attempt: 0,
  type: 0,
  sender: 1,
  recipient: 2,
  turn: 1,
  correlation: 0,
  bytes: 8,
  serial: 1,
  time: BEGAN_AT,
  startedAt: BEGAN_AT,
}
type Header = typeof START

/** What may change from one frame to the next. Most go on as the one before. */
const CHANGES: { [Field in keyof Header]: (random: (below: number) => number) => number } = {
  kind: (random) => [frame.SEND, frame.REQUEST, frame.RESPONSE, frame.END, frame.NOW][random(5)]!,
  flags: (random) => [0, 0, frame.MANY, frame.FAILED, frame.BEGINS_AGAIN][random(5)]!,
  attempt: (random) => random(2),
  type: (random) => random(3),
  sender: (random) => random(3),
  recipient: (random) => [0, 1, 2, frame.NOBODY][random(4)]!,
  turn: (random) => random(5),
  correlation: (random) => random(2),
  bytes: (random) => 8 * random(3),
  serial: (random) => random(FRAMES),
  time: (random) => BEGAN_AT + random(3),
  startedAt: (random) => BEGAN_AT - random(3) * 40 * 24 * 3_600_000,
}

function write(memory: FrameBlock['memory'], at: number, header: Header): void {
  const { i32, f64 } = memory
  const { kind, flags, attempt, type, sender, recipient, turn, correlation, bytes, serial, time, startedAt } = header
  const i = at >> 2
  i32[i] = frame.HEADER
  i32[i + frame.KIND] = kind | (flags << 8) | (attempt << 16) | (type << 24)
  i32[i + frame.WHO] = sender | (recipient << 16)
  i32[i + frame.TURN] = turn
  i32[i + frame.CORRELATION] = correlation
  i32[i + frame.BODY] = bytes
  i32[i + frame.ID + 2] = 0x8000_0000 | (serial << 12)
  i32[i + frame.ID + 3] = 0
  f64[(at >> 3) + frame.TIME] = time
  f64[(at >> 3) + frame.STARTED] = startedAt
}

/** Rows of the line's tables for one frame after the other. */
function rowsOf(headers: readonly Header[], first: number, at: number) {
  const messages: Record<string, number>[] = []
  const turns: Record<string, number>[] = []
  const numbers = new Map<number, number>()
  for (const [index, header] of headers.entries()) {
    const { kind, flags, type, sender, recipient, turn, correlation, bytes, serial } = header
    const n = first + index
    const isSent = kind === frame.SEND || kind === frame.REQUEST
    if (isSent || (kind === frame.RESPONSE && correlation) || (kind === frame.END && correlation)) {
      const isToSeveral = kind === frame.SEND && (flags & frame.MANY) !== 0
      const isHead = isToSeveral && recipient === frame.NOBODY && correlation === 0
      const isCopy = isToSeveral && !isHead
      const to = recipient === frame.NOBODY ? NONE : recipient
      messages.push({ n, from: sender, to, type: type + (isHead ? TO_SEVERAL : isCopy ? COPY : 0), at, bytes, turn })
      if (!isCopy && kind !== frame.END) numbers.set(serial, n)
    }
    if (kind !== frame.END) continue
    const failed = flags & frame.BEGINS_AGAIN ? AGAIN : flags & frame.FAILED ? 1 : 0
    const [start, end] = [header.startedAt - BEGAN_AT, header.time - BEGAN_AT]
    turns.push({
      message: numbers.get(serial) ?? -1,
      agent: sender,
      turn,
      start,
      end,
      attempt: header.attempt + 1,
      failed,
    })
  }
  return { messages, turns }
}

t.test('rows of frames that are alike are those of the frames', async (t) => {
  const dice = seededRandom([1, 2, 3, 4])
  const random = (below: number) => Math.floor(dice() * below)
  let alike = 0
  for (let round = 0; round < 400; round++) {
    let header = START
    let serial = 0
    const headers = Array.from({ length: FRAMES }, () => {
      header = { ...header, serial: header.serial + 1, turn: header.turn + (round & 1) }
      const changes = random(3) === 0 ? 1 + random(2) : 0
      for (let change = 0; change < changes; change++) {
        const fields = Object.keys(CHANGES) as (keyof Header)[]
        const field = fields[random(fields.length)]!
        header = { ...header, [field]: CHANGES[field](random) }
      }
      if (header.kind === frame.END) return header
      serial += 1
      return { ...header, serial }
    })
    const maker = new DigestMaker({
      name: (index) => `agent ${index}`,
      runId: () => 'run',
      factOf: () => undefined,
      shown: (name) => name,
    })
    const memory = allocate(FRAMES * frame.HEADER)
    for (const [index, header] of headers.entries()) write(memory, index * frame.HEADER, header)
    const first = random(10)
    maker.see({
      kind: 'frames',
      seq: first * SEQ_STEP,
      at: BEGAN_AT,
      run: 0,
      memory,
      from: 0,
      to: FRAMES * frame.HEADER,
      count: FRAMES,
    })
    const line: Pick<DigestLines, 'n' | 'names' | 'message' | 'turn'> = maker.take() ?? { n: 0 }
    const { messages, turns } = rowsOf(headers, first, 0)
    t.same(told(line, 'message', ['from', 'to'], ['n']), messages, `messages of round ${round}`)
    t.same(told(line, 'turn', ['agent'], ['message']), turns, `turns of round ${round}`)
    alike += messages.length - JSON.stringify(line.message ?? 0).length / 40
  }
  t.ok(alike > 0, 'many were told together')
})

/** Rows of a line's table, with indices of agents in place of places in the table of names, and numbers of messages. */
function told(
  line: Pick<DigestLines, 'n' | 'names' | 'message' | 'turn'>,
  table: 'message' | 'turn',
  names: string[],
  numbers: string[],
): Record<string, number>[] {
  const columns = line[table]
  if (!columns) return []
  const { run, ...lists } = listsOf<string>(columns)
  return Array.from({ length: columns.rows }, (_, row) => {
    const values = Object.entries(lists).map(([name, list]) => {
      const value = list[row]!
      if (numbers.includes(name)) return [name, value + line.n]
      return [name, names.includes(name) && value >= 0 ? Number(line.names![value]!.slice('agent '.length)) : value]
    })
    return Object.fromEntries(values)
  })
}

// What a line of the digest is made with: tables of the rows that came, and the numbers of messages by their ids.

/** Returns the columns of a table with that many rows, as they stand in a line. */
function written<Name extends string>(table: LineTable<Name>, rows: number, row: (at: number) => Record<Name, number>) {
  for (let at = 0; at < rows; at++) {
    const place = table.add()
    for (const [name, value] of Object.entries<number>(row(at))) table.first[name as Name][place] = value
  }
  return table.take()
}

t.test('a table has the rows that were written, whether they are more or fewer than before', async (t) => {
  const table = new LineTable(['odd', 'same', 'mixed'])
  const random = seededRandom([1, 2, 3, 4])
  for (const rows of [3, 5, 2, 2_500, 9_000, 1, 4, 700]) {
    const mixed = Array.from({ length: rows }, () => Math.floor(random() * 3 - 1) * 2 ** 31)
    const line = written(table, rows, (at) => ({ odd: at * 2 + 1, same: 7, mixed: mixed[at]! | 0 }))!
    t.equal(line.rows, rows)
    const lists = listsOf(JSON.parse(JSON.stringify(line)) as typeof line)
    const odd = Array.from({ length: rows }, (_, at) => at * 2 + 1)
    t.same(lists, { odd, same: odd.map(() => 7), mixed: mixed.map((value) => value | 0) })
  }
  t.equal(table.take(), undefined, 'a table without rows is none')
})

t.test('what goes on by equal steps is told in short', async (t) => {
  const table = new LineTable(['n', 'at', 'turn', 'bytes'])
  const line = written(table, 1_000, (row) => ({
    n: row < 600 ? row : 2_000 - 2 * row,
    at: Math.floor(row / 250),
    turn: 9,
    bytes: (row * row) % 97,
  }))!
  t.match(line, {
    rows: 1_000,
    n: { runs: [0, 1, 600, 800, -2, 400] },
    at: { runs: [0, 0, 250, 1, 0, 250, 2, 0, 250, 3, 0, 250] },
    turn: 9,
  })
  t.equal((line.bytes as number[]).length, 1_000, 'what would be longer so is a list')
})

t.test('stretches of rows are as their rows', async (t) => {
  const table = new LineTable(['n', 'at'])
  const random = seededRandom([4, 3, 2, 1])
  for (let lines = 0; lines < 200; lines++) {
    const [n, at]: [number[], number[]] = [[], []]
    const stretches = 1 + Math.floor(random() * 40)
    for (let stretch = 0; stretch < stretches; stretch++) {
      const rows = 1 + Math.floor(random() * (lines % 2 ? 3 : 30))
      const step = rows === 1 ? 0 : Math.floor(random() * 3) - 1
      const first = Math.floor(random() * 4)
      const place = table.add()
      table.first.n[place] = first
      if (rows > 1) table.steps.n[table.lengthen(rows)] = step
      table.first.at[place] = -(first & 1)
      for (let row = 0; row < rows; row++) {
        n.push(first + row * step)
        at.push(-(first & 1))
      }
    }
    t.equal(table.rows, n.length)
    const line = table.take()!
    t.same(listsOf(JSON.parse(JSON.stringify(line)) as typeof line), { n, at })
    t.ok(JSON.stringify(line).length <= JSON.stringify({ rows: n.length, n, at }).length, 'and shorter, if anything')
  }
})

t.test('a number that needs more than 32 bits is in the line as it is', async (t) => {
  const thirtyDays = -30 * 24 * 3_600_000
  const line = written(new LineTable(['start']), 3_000, (row) => ({ start: row % 1_450 === 1 ? thirtyDays : 5 * row }))!
  const start = Array.from({ length: 3_000 }, (_, row) => (row % 1_450 === 1 ? thirtyDays : 5 * row))
  t.same(listsOf(line), { start })
})

t.test('numbers of many sources are found by their ids, and the oldest are forgotten first', async (t) => {
  const numbers = new RecentNumbers()
  t.equal(numbers.get(0, 0, 0), -1)
  let number = 0
  for (let serial = 0; serial < 5_000; serial++)
    for (let source = 1; source <= 4; source++) numbers.set(serial, -serial, source << 14, number++)
  for (let serial = 0; serial < 5_000; serial += 7)
    for (let source = 1; source <= 4; source++)
      t.equal(numbers.get(serial, -serial, source << 14), serial * 4 + source - 1)
  for (let serial = 5_000; serial < 50_000; serial++) numbers.set(serial, -serial, 1 << 14, number++)
  t.equal(numbers.get(0, 0, 2 << 14), -1, 'it is forgotten')
  t.equal(numbers.get(49_999, -49_999, 1 << 14), number - 1)
})
