/** The parts of the supervisor hang on its records alone: take one away, and just what it does is gone. */
import t from 'tap'
import type { Part } from '../../src/runtime/supervision/host.ts'
import { restarts } from '../../src/runtime/supervision/restarts.ts'
import { timeouts } from '../../src/runtime/supervision/timeouts.ts'
import { watchdog } from '../../src/runtime/supervision/watchdog.ts'
import { tasks } from '../../src/runtime/verbs/task-board.ts'
import { BareSupervisor } from './bare-supervisor.ts'
import { never, outcomeOf, type Receive, silent } from './teams.ts'

const parts = { restarts, timeouts, watchdog, tasks }
type Name = keyof typeof parts
const all = { restarts: true, timeouts: true, watchdog: true, tasks: true }

/** What each part is there for, and whether it is done. */
const effects: Record<Name, (given: Part[]) => Promise<boolean>> = {
  async restarts(given) {
    const bare = new BareSupervisor({ worker: () => 'fine' }, given)
    await bare.start()
    bare.threads.get('worker')!.terminate()
    await bare.clock.advance(0)
    return bare.host.directory.cell('worker')!.life !== undefined
  },
  async timeouts(given) {
    const bare = new BareSupervisor({ worker: () => never }, given, { communication: { responseTimeoutMs: 100 } })
    await bare.start()
    const asked = outcomeOf(bare.ask('worker'))
    await bare.clock.advance(100)
    return asked.error?.code === 'REQUEST_TIMEOUT'
  },
  async watchdog(given) {
    const bare = new BareSupervisor({ worker: () => never }, given, { supervision: { watchdogMs: 100 } })
    await bare.start()
    outcomeOf(bare.ask('worker'))
    await bare.clock.advance(1)
    const thread = bare.threads.get('worker')!
    thread.ailments.add('deaf')
    await bare.clock.advance(200)
    return bare.host.directory.cell('worker')!.life?.thread !== thread
  },
  async tasks(given) {
    const bare = new BareSupervisor({ worker: () => 'fine' }, given)
    await bare.start()
    await bare.ask('worker')
    await bare.clock.advance(0)
    return [...bare.run.tasks.values()][0]?.status === 'completed'
  },
}

async function effectsOf(given: Part[]): Promise<Record<string, boolean>> {
  const found: Record<string, boolean> = {}
  for (const [name, effect] of Object.entries(effects)) found[name] = await effect(given)
  return found
}

t.test('with all of its parts the supervisor does what each is there for', async (t) => {
  t.same(await effectsOf(Object.values(parts)), all)
})

for (const missing of Object.keys(parts) as Name[]) {
  t.test(`without ${missing} exactly that is gone`, async (t) => {
    const others = Object.entries(parts).filter(([name]) => name !== missing)
    t.same(await effectsOf(others.map(([, part]) => part)), { ...all, [missing]: false })
  })
}

for (const [maxConcurrentAgents, most] of [
  [undefined, 2],
  [1, 1],
])
  t.test(`with maxConcurrentAgents ${maxConcurrentAgents} of two agents ${most} may have a turn`, async (t) => {
    let running = 0
    const work: Receive = async (_message, context) => {
      running += 1
      await context.sleep(10)
    }
    const bare = new BareSupervisor({ one: work, other: work }, [], { maxConcurrentAgents })
    await bare.start()
    void bare.ask('one')
    void bare.ask('other')
    await bare.clock.advance(5)
    t.equal(running, most)
  })

t.test('without any part messages are still routed and answered', async (t) => {
  const bare = new BareSupervisor({ worker: (message) => `${message.content}!` }, [])
  await bare.start()
  t.equal(await bare.ask('worker', 'go'), 'go!')
})

t.test('a part that throws is reported, and the others go on', async (t) => {
  const broken: Part = () => ({
    next() {
      throw new TypeError('broken part')
    },
  })
  const reported: unknown[] = []
  const logger = { ...silent, error: (fields: object, text: string) => void reported.push({ ...fields, text }) }
  t.same(await effectsOf([broken, ...Object.values(parts), broken]), all)
  const bare = new BareSupervisor({ worker: () => 'fine' }, [broken], {}, logger)
  await bare.start()
  t.equal(await bare.ask('worker'), 'fine')
  t.match(reported, [{ error: 'TypeError: broken part', text: 'a part of the supervisor threw; the others go on' }])
})

t.test('what a part records while it is told of something is told after it, to all in the same order', async (t) => {
  const told: Record<string, string[]> = { first: [], second: [] }
  const listener =
    (name: string): Part =>
    ({ journal }) => ({
      next(batch) {
        for (const record of batch) {
          if (record.kind === 'decision') told[name]!.push(record.choice)
          if (record.kind === 'agent.ready')
            journal.record(bare.run, { kind: 'decision', question: 'who', choice: name, reason: '' })
        }
      },
    })
  const bare = new BareSupervisor({ worker: () => 'fine' }, [listener('first'), listener('second')])
  await bare.start()
  await bare.clock.advance(0)
  t.same(told, { first: ['first', 'second'], second: ['first', 'second'] })
})

t.test('when the supervisor closes, its parts are closed and told nothing more', async (t) => {
  const told: string[] = []
  const part: Part = () => ({ next: () => told.push('record'), close: () => told.push('close') })
  const bare = new BareSupervisor({ worker: () => 'fine' }, [part])
  bare.host.journal.record(bare.run, { kind: 'run.started', query: '' })
  bare.host.close()
  bare.host.journal.record(bare.run, { kind: 'run.started', query: '' })
  await bare.clock.advance(0)
  t.same(told, ['record', 'close'])
})
