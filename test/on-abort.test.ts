import { getEventListeners } from 'node:events'
import t from 'tap'
import { systemClock } from '../src/shared/clock.ts'
import { anyAborted, onAbort } from '../src/shared/on-abort.ts'
import { ask, localTeam, never, type Receive } from './kit/team.ts'

const listeners = (signal: AbortSignal) => getEventListeners(signal, 'abort').length

/** What Node warns of meanwhile. */
async function warningsOf(act: () => Promise<unknown>): Promise<string[]> {
  const found: string[] = []
  const note = ({ name }: Error) => found.push(name)
  process.on('warning', note)
  await act()
  await new Promise((resolve) => setImmediate(resolve)) // warnings come in a later tick
  process.off('warning', note)
  return found
}

t.test('many wait under one signal with one listener, and are told in order', async (t) => {
  const controller = new AbortController()
  const told: number[] = []
  for (let i = 0; i < 30; i++) onAbort(controller.signal, () => told.push(i))
  t.equal(listeners(controller.signal), 1)
  controller.abort()
  t.same(
    told,
    Array.from({ length: 30 }, (_, i) => i),
  )
  t.equal(listeners(controller.signal), 0)
})

t.test('who took it back is not told, and the last one takes the listener along', async (t) => {
  const controller = new AbortController()
  const { signal } = controller
  const told: string[] = []
  const stop = ['a', 'b', 'c'].map((name) => onAbort(signal, () => told.push(name)))
  stop[0]!()
  stop[1]!()
  t.equal(listeners(signal), 1)
  stop[2]!()
  t.equal(listeners(signal), 0)
  onAbort(signal, () => told.push('later'))
  for (const again of stop) again()
  controller.abort()
  t.same(told, ['later'])
})

t.test('one that is taken back by who was told before it is not told', async (t) => {
  const controller = new AbortController()
  const told: string[] = []
  onAbort(controller.signal, () => stop())
  const stop = onAbort(controller.signal, () => told.push('late'))
  controller.abort()
  t.same(told, [])
})

t.test('a hundred waits under one signal cause no warning, and leave no listener', async (t) => {
  const { signal } = new AbortController()
  const everybody = Array.from({ length: 100 }, () => 'worker')
  const acts: Record<string, (...given: Parameters<Receive>) => unknown> = {
    requests: (_message, context) => Promise.all(everybody.map((name) => context.request(name, '', { signal }))),
    requestAny: (_message, context) => context.requestAny(everybody, '', { signal }),
    sleeps: (_message, context) => Promise.all(everybody.map(() => context.sleep(1))),
    'waits for an entry': async (_message, { blackboard }) => {
      const waits = everybody.map(() => blackboard.waitFor('key', { signal }))
      await blackboard.write('key', 1, 'fact')
      await Promise.all(waits)
    },
    'listeners of its own on the signal of its turn': (_message, context) => {
      for (const _ of everybody) context.signal.addEventListener('abort', () => {})
    },
  }
  const team = localTeam(t, {
    caller: async (message, context) => void (await acts[message.content]!(message, context)),
    worker: () => '',
  })
  for (const name of Object.keys(acts)) {
    const warnings = await warningsOf(async () => {
      const asked = ask(team, 'caller', name)
      await team.clock.advance(10)
      await asked
    })
    t.same(warnings, [], name)
    t.equal(listeners(signal), 0, name)
  }
})

t.test('the same for runs, and for the clock of the machine', async (t) => {
  const controller = new AbortController()
  const { signal } = controller
  const team = localTeam(t, { worker: () => never }, { maxConcurrentRuns: 100 })
  const warnings = await warningsOf(async () => {
    const runs = Array.from({ length: 30 }, () => team.execute('', { signal }).catch(({ code }) => code))
    const sleeps = Array.from({ length: 30 }, () => systemClock.sleep(1_000_000, signal).catch(() => 'aborted'))
    await team.clock.advance(1)
    t.equal(listeners(signal), 1)
    controller.abort()
    await team.clock.runToIdle()
    await Promise.all(runs)
    t.same(new Set(await Promise.all(sleeps)), new Set(['aborted']))
  })
  t.same(warnings, [])
  t.equal(listeners(signal), 0)
})

t.test('a signal of several is aborted with the first, and lets go of all when it is forgotten', async (t) => {
  const [a, b] = [new AbortController(), new AbortController()]
  const either = anyAborted([a.signal, b.signal])
  b.abort('b')
  a.abort('a')
  t.equal(either.signal.reason, 'b')
  const late = new AbortController()
  const atOnce = anyAborted([late.signal, b.signal])
  t.equal(atOnce.signal.reason, 'b', 'also of one that is aborted before')
  atOnce.forget()
  const forgotten = anyAborted([late.signal])
  forgotten.forget()
  t.equal(listeners(late.signal), 0)
  late.abort()
  t.notOk(forgotten.signal.aborted)
})
