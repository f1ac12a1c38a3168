/** Spans are folded from the log, in batches that follow from how busy host and threads are: they must not show in the spans. */
import type { ReadableSpan } from '@opentelemetry/sdk-trace-base'
import t from 'tap'
import { END, kindOf, lengthOf, senderOf, turnOf } from '../../src/mailbox/frame.ts'
import type { Batch, HostRecord, LogEntry } from '../../src/runtime/log/records.ts'
import { Redactor } from '../../src/runtime/logging/redactor.ts'
import { Spans } from '../../src/runtime/observers/spans.ts'
import { modelSpans, Tracing } from '../../src/runtime/observers/tracing.ts'
import { ModelGateway } from '../../src/runtime/verbs/gateway.ts'
import { virtualClock } from '../../src/testing.ts'
import { type Cast, openTeam, silent } from '../kit/team.ts'
import { FakeModel } from '../models/fake-model.ts'
import { errorOf, idOf, parentOf, Recorder } from './recorder.ts'

t.test('however the log is cut into batches, the spans of turns are the same', async (t) => {
  let tries = 0
  const cast: Cast = {
    chief: async (_, context) => {
      for (const text of ['one', 'two', 'three']) await context.send('clerk', text)
      return (await context.request('sage', 'go')).content
    },
    clerk: async ({ content }, context) => {
      if (content === 'two') tries += 1
      if (content === 'two' && tries === 1) throw new Error('not yet')
      if (content === 'three') await context.request('sage', 'go')
      return ''
    },
    sage: async (_, context) => {
      await context.sleep(5)
      return ''
    },
  }
  const team = openTeam(t, cast, { supervision: { onHandlerError: 'retry' } })
  const told: Batch[] = []
  team.host.attach(() => ({ next: (batch) => void told.push(batch) }))
  const running = team.execute('go')
  await team.clock.runToIdle()
  t.ok((await running).success)
  const all = told.flat()
  const fold = (batches: readonly Batch[]) => {
    const recorder = new Recorder()
    const part = new Tracing(recorder.telemetry, team.host).part(team.host)
    for (const batch of batches) part.next(batch)
    t.equal(recorder.open, 0)
    return shapeOf(recorder)
  }
  const expected = fold(told)
  t.equal(expected.length, 7)
  const attempts = expected.map(([, attempt, error]) => `${attempt} ${error}`)
  t.strictSame(attempts.filter((attempt) => attempt !== '1 undefined').sort(), ['1 AGENT_FAILED', '2 undefined'])
  t.strictSame(fold([all]), expected)
  const late = announcedLate(all)
  t.not(late.findIndex(isStart), all.findIndex(isStart))
  t.strictSame(fold([late]), expected)
})

/** What there is to tell of each span, in an order that does not follow from when it was told. */
function shapeOf({ spans }: Recorder): (string | undefined)[][] {
  const messageOf = (span: ReadableSpan | undefined) => span && `${span.attributes['dramatis.message.id']}`
  const byId = new Map(spans.map((span) => [idOf(span), span]))
  return spans
    .map((span) => [
      span.name,
      `${span.attributes['dramatis.turn.attempt']}`,
      errorOf(span) as string | undefined,
      messageOf(span),
      messageOf(byId.get(parentOf(span) ?? '')),
    ])
    .sort((one, other) => (one.join() < other.join() ? -1 : 1))
}

/** A turn that stood in line behind another can do something before the host says that it has begun. */
function announcedLate(entries: Batch): LogEntry[] {
  const moved = [...entries]
  for (const start of entries) {
    if (!isStart(start)) continue
    const next = moved.findIndex((entry) => framesIn(entry, start).length > 0 && entry.seq > start.seq)
    if (next < 0 || framesIn(moved[next]!, start).includes(END)) continue
    moved.splice(next, 0, ...moved.splice(moved.indexOf(start), 1)) // the place of `next` has moved by one
  }
  return moved
}

const isStart = (entry: LogEntry): entry is HostRecord & { kind: 'turn.started' } => entry.kind === 'turn.started'

/** The kinds of the frames of that turn. */
function framesIn(entry: LogEntry, { index, turn }: { index: number; turn: number }): number[] {
  const kinds: number[] = []
  if (entry.kind !== 'frames') return kinds
  const { memory, from, to } = entry
  for (let at = from; at < to; at += lengthOf(memory, at))
    if (senderOf(memory, at) === index && turnOf(memory, at) === turn) kinds.push(kindOf(memory, at))
  return kinds
}

t.test('a call of a model waits until its turn is told of', async (t) => {
  const recorder = new Recorder()
  const spans = new Spans(recorder.telemetry, silent, new Redactor())
  const turn = spans.start({ name: 'turn', kind: 'internal', at: 0, parent: undefined, attributes: {} })
  let isTold = false
  const clock = virtualClock()
  const layer = modelSpans(spans, clock, () => (isTold ? turn.place : undefined))
  const model = new FakeModel(['said'])
  const gateway = new ModelGateway({
    clock,
    resolve: () => ({ client: model, model: 'm' }),
    record: () => {},
    layers: [layer],
    redactor: new Redactor(),
  })
  const caller = {
    agent: { name: 'ann', index: 3, settings: { modelTimeoutMs: 1_000, info: {} }, messageIdOf: () => 'm' },
    run: { id: 'r' },
    turn: 1,
  } as never
  const messages = [{ role: 'user', content: 'hi' }] as const
  const answer = gateway.call(caller, { messages }, new AbortController().signal, () => {})
  isTold = true
  await answer
  turn.end(1)
  t.equal(parentOf(recorder.one('chat m')), idOf(recorder.one('turn')))
})
