/** Answers in pieces, between real threads, and as the caller of a run sees them. */
import type { Test } from 'tap'
import t from 'tap'
import {
  createTeam,
  type MultiAgentPatternOptions,
  type OrchestratorContext,
  type RuntimeEvent,
} from '../../src/index.ts'
import { piece } from '../fixtures/stream-emitter.ts'
import type { Reading } from '../fixtures/stream-reader.ts'

const CREDIT = 64 // pieces on their way before the writer waits
const BATCH = 16 // in which the reader says what it has read

const numbered = (count: number) => Array.from({ length: count }, (_, n) => piece(n))

// ---- between threads

t.test('the pieces come in order, and then the answer', async (t) => {
  const outcome = await read(t, { emission: { pieces: 300 } })
  t.same(outcome, { answer: '300 pieces', pieces: numbered(300), failed: null })
})

t.test('pieces that cross in parts come whole', async (t) => {
  const { pieces } = await read(t, { emission: { pieces: 5, size: 100_000 } })
  t.equal(pieces.length, 5)
  t.ok(pieces.every((text, n) => text === piece(n, 100_000)))
})

for (const verb of ['send', 'request', 'step', 'publish', 'sleep', 'two at once'] as const) {
  t.test(`a writer that awaits ${verb} does not run away from its reader`, async (t) => {
    const team = teamOf(t, { emission: { pieces: 300, verb }, after: 'the writer waits' })
    const run = team.launch('go')
    let emitted = 0
    for await (const { type } of run.events({ types: ['output.delta'] })) {
      emitted += type === 'output.delta' ? 1 : 0
      if (emitted === CREDIT + 1) await run.blackboard?.write('the writer waits', true, 'fact')
    }
    t.equal(emitted, 300)
    let unread = 0
    let most = 0
    for (const { eventType, details } of (await run.result).orchestrationTrace.events) {
      if (eventType === 'output.delta') unread += 1
      if (eventType === 'step.finished' && 'step' in details && details.step === 'read') unread -= 1
      most = Math.max(most, unread)
    }
    t.ok(most <= CREDIT + BATCH + 1, `${most} pieces unread`)
  })
}

t.test('who waits for the answer alone does not hold the writer up', async (t) => {
  t.match(await read(t, { emission: { pieces: 300 }, answerOnly: true }), { answer: '300 pieces' })
})

t.test('a stream gets on when one agent alone may be active', async (t) => {
  const { pieces } = await read(t, { emission: { pieces: 300 } }, { maxConcurrentAgents: 1 })
  t.same(pieces, numbered(300))
})

t.test('leaving the loop cancels the writer', async (t) => {
  const run = async (orchestrator: OrchestratorContext) => {
    const reading: Reading = { emission: { pieces: 100_000 }, leaveAfter: 3 }
    const { content, structuredData } = await orchestrator.request('reader', 'read', { structuredData: reading })
    const ended = await orchestrator.request('emitter', 'how did it end?')
    return JSON.stringify({ answer: content, structuredData, ended: ended.content })
  }
  const result = await teamOf(t, run).execute('go')
  t.same(JSON.parse(result.finalOutput ?? ''), {
    answer: 'CANCELLED',
    structuredData: { pieces: numbered(3), failed: null },
    ended: 'CANCELLED',
  })
})

t.test('an error ends the loop, after the pieces before it', async (t) => {
  const outcome = await read(t, { emission: { pieces: 300, throwAt: 200 } })
  t.same(outcome, { answer: 'AGENT_FAILED', pieces: numbered(200), failed: 'AGENT_FAILED' })
})

t.test('a reader that dies gets every piece again, once', async (t) => {
  for (const dieAfter of [1, 70, 299]) {
    const outcome = await read(t, { emission: { pieces: 300 }, dieAfter })
    t.same(outcome, { answer: '300 pieces', pieces: numbered(300), failed: null }, `after ${dieAfter}`)
  }
})

t.test('a writer that dies goes on where it was', async (t) => {
  for (const dieAt of [0, 70, 299]) {
    const outcome = await read(t, { emission: { pieces: 300, dieAt } })
    t.same(outcome, { answer: '300 pieces', pieces: numbered(300), failed: null }, `before ${dieAt}`)
  }
})

t.test('both may die', async (t) => {
  const outcome = await read(t, { emission: { pieces: 300, dieAt: 150 }, dieAfter: 100 })
  t.same(outcome, { answer: '300 pieces', pieces: numbered(300), failed: null })
})

// ---- a run as its caller sees it

t.test("run.text() has the pieces of the script, and nobody else's", async (t) => {
  const run = teamOf(t, async (orchestrator) => {
    for await (const text of orchestrator.requestStream('emitter', 'emit', { structuredData: { pieces: 10 } }))
      orchestrator.emit(`<${text}>`)
    return 'the whole'
  }).launch('go')
  t.same(
    await collected(run.text()),
    numbered(10).map((text) => `<${text}>`),
  )
})

t.test('run.text() has the answer in one piece when the script emits none', async (t) => {
  t.same(
    await collected(
      teamOf(t, async () => 'the whole')
        .launch('go')
        .text(),
    ),
    ['the whole'],
  )
})

t.test('run.text() ends without a word when the run fails', async (t) => {
  const run = teamOf(t, async () => Promise.reject(new Error('no'))).launch('go')
  t.same(await collected(run.text()), [])
})

t.test('run.events({ after }) goes on where a reader had left', async (t) => {
  const run = teamOf(t, { emission: { pieces: 50 } }).launch('go')
  const seen: RuntimeEvent[] = []
  while (seen.at(-1)?.type !== 'run.finished') {
    let taken = 0
    for await (const event of run.events({ after: seen.at(-1)?.seq ?? -1 })) {
      seen.push(event)
      if (++taken === 7) break
    }
  }
  const all = await collected(run.events())
  t.same(
    seen.map(({ seq, type }) => [seq, type]),
    all.map(({ seq, type }) => [seq, type]),
  )
  t.same(
    seen.filter(({ seq }, i) => seq === seen[i - 1]?.seq),
    [],
  )
  t.ok(seen.length > 50)
})

t.test('leaving run.events() does not end the run', async (t) => {
  const run = teamOf(t, { emission: { pieces: 50 } }).launch('go')
  for await (const { type } of run.events()) if (type === 'output.delta') break
  t.match(await run.result, { success: true })
})

t.test('leaving team.stream() aborts the run and what goes on in it', async (t) => {
  const team = teamOf(t, { emission: { pieces: 1_000_000 } })
  for await (const { type } of team.stream('go')) if (type === 'output.delta') break
  t.match(await team.listRuns(), [{ status: 'aborted' }])
  const emitter = team.getAgent('emitter')
  t.equal(await emitter?.run('how did it end?'), 'RUN_ABORTED')
})

// ----

type Script = (orchestrator: OrchestratorContext) => Promise<string>

/** A team whose script has the reader read, or is the one given. */
function teamOf(t: Test, script: Reading | Script, options: Partial<MultiAgentPatternOptions> = {}) {
  const run = typeof script === 'function' ? script : scriptFor(script)
  const agents = ['reader', 'emitter', 'bystander'].map((name) => ({
    name,
    module: new URL(`../fixtures/stream-${name}.js`, import.meta.url),
  }))
  const team = createTeam({ agents, orchestration: { strategy: 'custom', run }, enableBlackboard: true, ...options })
  t.teardown(() => team.close())
  return team
}

function scriptFor(reading: Reading): Script {
  return async (orchestrator) => {
    const { content, structuredData } = await orchestrator.request('reader', 'read', { structuredData: reading })
    return JSON.stringify({ answer: content, ...(structuredData as object) })
  }
}

async function read(
  t: Test,
  reading: Reading,
  options?: Partial<MultiAgentPatternOptions>,
): Promise<{ answer: string; pieces: string[]; failed: string | null }> {
  const result = await teamOf(t, reading, options).execute('go')
  if (!result.success) throw result.error
  return JSON.parse(result.finalOutput)
}

async function collected<T>(from: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = []
  for await (const each of from) all.push(each)
  return all
}
