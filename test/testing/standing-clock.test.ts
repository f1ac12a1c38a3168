/** A test that waits for a team whose clock nobody moves is told so, instead of ending by its runner's limit. */
import t from 'tap'
import { defineAgent, type Logger } from '../../src/index.ts'
import { SteppedClock, whileTimePasses } from '../../src/runtime/testing/virtual-clock.ts'
import { testTeam, virtualClock } from '../../src/testing.ts'

const sequential = { strategy: 'sequential' as const }
const slow = defineAgent({
  async receive(_message, context) {
    await context.sleep(5_000)
    return 'done'
  },
})
const curious = defineAgent({ receive: (_message, context) => context.ask('Which color?') })

/** A promise that the test settles. */
function open<T>() {
  let resolve: (value: T) => void = () => {}
  let reject: (error: Error) => void = () => {}
  const promise = new Promise<T>((yes, no) => {
    resolve = yes
    reject = no
  })
  return { promise, resolve, reject }
}

/** Resolves with the first warning that a team logs. */
function warning() {
  const told = open<string>()
  const logger: Logger = {
    debug() {},
    info() {},
    warn: (_fields: object, text: string) => told.resolve(text),
    error() {},
  }
  return { logger, told: told.promise }
}

/** Waits for an answer that does not come, of a team with that clock, beside a second clock for real time. */
function waiting() {
  const [clock, real] = [new SteppedClock(1, 70), virtualClock()]
  const told: string[] = []
  const answer = open<string>()
  const result = whileTimePasses(
    answer.promise,
    { clock, isAsking: () => false, warn: (text) => told.push(text) },
    real,
  )
  return { clock, real, told, answer, result }
}

t.test('after a second in which no time passed it says what to do, once', async (t) => {
  const { real, told, answer, result } = waiting()
  await real.advance(999)
  t.same(told, [])
  await real.advance(1)
  t.match(told, [/the clock of its team stands at 70 ms: .*await team\.clock\.runToIdle\(\)/])
  await real.advance(60_000)
  t.equal(told.length, 1)
  answer.resolve('late')
  t.equal(await result, 'late')
})

t.test('as long as time passes it waits', async (t) => {
  const { clock, real, told } = waiting()
  for (let i = 0; i < 5; i++) {
    await clock.advance(1)
    await real.advance(1_000)
  }
  t.same(told, [])
  await real.advance(1_000)
  t.equal(told.length, 1)
})

t.test('work that takes real time is no standstill', async (t) => {
  const { clock, real, told } = waiting()
  const work = open<void>()
  const done = clock.outside(work.promise)
  await real.advance(5_000)
  t.same(told, [])
  work.resolve()
  await done
})

t.test('an answer in time, or an error, ends it', async (t) => {
  const one = waiting()
  one.answer.resolve('in time')
  t.equal(await one.result, 'in time')
  const other = waiting()
  other.answer.reject(new Error('no'))
  await t.rejects(other.result, { message: 'no' })
  for (const { real, told } of [one, other]) {
    await real.advance(10_000)
    t.same(told, [])
  }
})

t.test('a team that sleeps', async (t) => {
  const { logger, told } = warning()
  await using team = testTeam({ agents: [{ name: 'a' }], orchestration: sequential, logger }, { modules: { a: slow } })
  const result = team.execute('q')
  t.match(await told, /time passes only while the test lets it/)
  await team.clock.runToIdle()
  t.match(await result, { finalOutput: 'done' })
})

t.test('a team that waits for a person', async (t) => {
  const { logger, told } = warning()
  await using team = testTeam(
    { agents: [{ name: 'a' }], orchestration: sequential, logger },
    { modules: { a: curious } },
  )
  const result = team.execute('q')
  t.match(await told, /waits for a person.*run\.answer/)
  await team.answer(team.questions()[0]?.questionId ?? '', 'blue')
  t.match(await result, { finalOutput: 'blue' })
})
