/** Teams of code that come to their end: those of the Savina suite, and other patterns of messages. */
import type { AgentContext, AgentDefinition } from '../../src/index.ts'
import { FakeModel } from '../models/fake-model.ts'
import { type CodeProgram, counter, many, receives, script, silent, sum, told } from './code-program.ts'
import { tool } from './program.ts'

const TIMES = 60
const SECOND = 1_000

/** Sends what it gets and one more, until there is enough. */
const countsTo = (to: string, enough = 200): AgentDefinition =>
  receives(async ({ content }, context) => {
    if (Number(content) < enough) await context.send(to, `${Number(content) + 1}`)
  })

/** Sends the same until it has done so often enough: its count does not show. */
const bats = (to: string, times: number): AgentDefinition => {
  let left = times
  return receives(async ({ content }, context) => {
    if (left-- > 0) await context.send(to, content)
  })
}

const repeats = (times: number, what: (context: AgentContext, n: number) => Promise<unknown>, pauseMs = 0) =>
  receives(async (_message, context) => {
    for (let n = 0; n < times; n++) {
      await what(context, n)
      if (pauseMs > 0) await context.sleep(pauseMs)
    }
    return 'done'
  })

const asks = (to: string, what: (n: number) => string) => (context: AgentContext, n: number) =>
  context.request(to, what(n))
const says = (text: string): AgentDefinition => receives(() => text)

/** Answers so many times that it is not ready. */
const readyAfter = (times: number): AgentDefinition => {
  let asked = 0
  return receives(() => (++asked > times ? 'ready' : 'not yet'))
}

const pollsFor = (to: string, pauseMs: number) =>
  receives(async (_message, context) => {
    while ((await context.request(to, 'ready?')).content !== 'ready') await context.sleep(pauseMs)
    return 'done'
  })

/** Fails so many times. */
const failsFor = (times: number): AgentDefinition => {
  let asked = 0
  return receives(() => {
    if (++asked <= times) throw new Error('the service is down')
    return 'up'
  })
}

const retries = (to: string, pauseMs: (n: number) => number) =>
  receives(async (_message, context) => {
    for (let n = 0; ; n++) {
      const answer = await context.request(to, 'go').catch(() => undefined)
      if (answer) return answer.content
      await context.sleep(pauseMs(n))
    }
  })

/** A fork with a token: who is asked for it gives it away when he has eaten with it. */
const forks = (meals: number): AgentDefinition =>
  receives(async (_message, context) => {
    for (let meal = 0; meal < meals; meal++) {
      await context.request('left', `meal ${meal}`)
      await context.request('right', `meal ${meal}`)
    }
    return 'full'
  })

/** Of 0 and 1 it knows them, of others it makes two agents that know those before. */
const fibonacci = receives(async ({ content }, context) => {
  const n = Number(content)
  if (n < 2) return `${n}`
  const { name } = context.role
  const answers = [`${name}l`, `${name}r`].map(async (kid, at) => {
    await context.spawn({ name: kid, trust: 'privileged' })
    return Number((await context.request(kid, `${n - 1 - at}`)).content)
  })
  return `${sum(await Promise.all(answers))}`
})

const namesOf = (n: number, name: string): string[] =>
  n < 2 ? [name] : [name, ...namesOf(n - 1, `${name}l`), ...namesOf(n - 2, `${name}r`)]

const slowModel = (ms: number) =>
  new FakeModel(async ({ clock }) => {
    await clock?.sleep(ms)
    return 'thought'
  })

const primes = (next: string | undefined): AgentDefinition => {
  let own: number | undefined
  return receives(async ({ content }, context) => {
    own ??= Number(content)
    if (Number(content) % own !== 0 && next) await context.send(next, content)
  })
}

const account = (): AgentDefinition => {
  let balance = 100
  return receives(({ content }) => {
    balance += Number(content)
    return `${balance}`
  })
}

const barber = (): AgentDefinition => receives(async (_message, context) => void (await context.sleep(50)))

export const codePrograms: Readonly<Record<string, CodeProgram>> = {
  'ping-pong of two counters': script(
    { ping: countsTo('pong'), pong: countsTo('ping') },
    (run) => run.send('ping', '0'),
    silent,
  ),
  'ping-pong of two who count for themselves': script(
    { ping: bats('pong', 300), pong: bats('ping', 300) },
    (run) => run.send('ping', 'ball'),
    told,
  ),
  'ping-pong by requests': script(
    {
      ping: repeats(
        200,
        asks('pong', (n) => `${n}`),
      ),
      pong: says('pong'),
    },
    (run) => run.request('ping', 'go'),
    silent,
  ),
  'ping-pong by equal requests': script(
    {
      ping: repeats(
        200,
        asks('pong', () => 'ping'),
      ),
      pong: says('pong'),
    },
    (run) => run.request('ping', 'go'),
    told,
  ),
  'a work queue of a hundred items': script(
    { worker: counter() },
    (run) => many(100, (n) => run.send('worker', `item ${n}`)),
    silent,
  ),
  'a work queue of a hundred equal items': script(
    { worker: counter() },
    (run) => many(100, () => run.send('worker', 'item')),
    silent,
  ),
  'a queue whose items go through three workers': script(
    {
      a: receives(({ content }, context) => context.send('b', content)),
      b: receives(({ content }, context) => context.send('c', content)),
      c: counter(),
    },
    (run) => many(60, (n) => run.send('a', `item ${n}`)),
    silent,
  ),
  'fork and join': script(
    Object.fromEntries(['a', 'b', 'c', 'd'].map((name) => [name, says('done')])),
    async (run) => many(10, (n) => run.requestAll(['a', 'b', 'c', 'd'], `part ${n}`)),
    silent,
  ),
  'a ring with a token that counts': script(
    { a: countsTo('b'), b: countsTo('c'), c: countsTo('a') },
    (run) => run.send('a', '0'),
    silent,
  ),
  'a ring with a token that says nothing': script(
    { a: bats('b', 60), b: bats('c', 60), c: bats('a', 60) },
    (run) => run.send('a', 'token'),
    told,
  ),
  'the sieve of Eratosthenes': script(
    { two: primes('three'), three: primes('five'), five: primes('seven'), seven: primes(undefined) },
    (run) => many(100, (n) => run.send('two', `${n + 2}`)),
    silent,
  ),
  'bank transfers, one after the other': script(
    { a: account(), b: account() },
    (run) =>
      many(60, async (n) => {
        await run.request('a', `${-n}`)
        await run.request('b', `${n}`)
      }),
    silent,
  ),
  'producers and consumers with a bounded mailbox': {
    ...script(
      { producer: repeats(100, (context, n) => context.send('consumer', `item ${n}`)), consumer: counter() },
      (run) => run.request('producer', 'go'),
      silent,
    ),
    options: { communication: { mailboxCapacity: 4 } },
  },
  'philosophers who pass their forks on': script(
    { ann: forks(15), bob: forks(15), left: says('here'), right: says('here') },
    (run) => run.requestAll(['ann', 'bob'], 'dine'),
    silent,
  ),
  'a barber who is woken by each customer': script(
    { barber: barber() },
    (run) => many(40, (n) => run.request('barber', `customer ${n}`)),
    silent,
  ),
  'Fibonacci numbers by agents that make agents': {
    ...script({ fib: fibonacci }, (run) => run.request('fib', '5'), silent),
    later: Object.fromEntries(namesOf(5, 'fib').map((name) => [name, fibonacci])),
    roles: { fib: { trust: 'privileged' } },
  },
  'a count of two hundred increments': script(
    { counter: counter() },
    (run) => many(200, () => run.send('counter', 'increment')),
    silent,
  ),
  'who looks the same keys up again and again': script(
    {
      ann: repeats(100, (context, n) => context.request(n % 3 ? 'bob' : 'cleo', `key ${n % 30}`)),
      bob: says('value'),
      cleo: says('value'),
    },
    (run) => run.request('ann', 'go'),
    told,
  ),
  'a pipeline of drafts': script(
    {
      writer: receives(({ content }) => `draft of ${content}`),
      editor: receives(({ content }) => `edited ${content}`),
    },
    (run) => many(20, async (n) => run.request('editor', (await run.request('writer', `page ${n}`)).content)),
    silent,
  ),
  'two-phase commits': script(
    { a: says('yes'), b: says('yes') },
    (run) =>
      many(20, async (n) => {
        await run.requestAll(['a', 'b'], `prepare ${n}`)
        await run.requestAll(['a', 'b'], `commit ${n}`)
      }),
    silent,
  ),
  'the election of a leader in a ring': script(
    { a: countsTo('b', 30), b: countsTo('c', 30), c: countsTo('a', 30) },
    (run) => run.send('a', '0'),
    silent,
  ),

  // ---- waiting, trying again, asking again

  'polls of a job that changes at every twentieth': script(
    {
      ann: repeats(
        60,
        asks('job', () => 'how far?'),
        500,
      ),
      job: receives(counting((n) => `part ${Math.floor(n / 20)}`)),
    },
    (run) => run.request('ann', 'go'),
    silent,
  ),
  'polls of a job that is done after fifteen': script(
    { ann: pollsFor('job', SECOND), job: readyAfter(15) },
    (run) => run.request('ann', 'go'),
    silent,
  ),
  'polls of a job that is done after forty': script(
    { ann: pollsFor('job', 100), job: readyAfter(40) },
    (run) => run.request('ann', 'go'),
    told,
  ),
  'forty marked polls': script(
    { ann: repeats(40, (context) => context.request('job', 'ready?', { polling: true })), job: says('not yet') },
    (run) => run.request('ann', 'go'),
    silent,
  ),
  'five retries': script(
    { ann: retries('service', () => 0), service: failsFor(5) },
    (run) => run.request('ann', 'go'),
    silent,
  ),
  'ten retries with back-off': script(
    { ann: retries('service', (n) => 10 * 2 ** n), service: failsFor(10) },
    (run) => run.request('ann', 'go'),
    silent,
  ),
  'fourteen retries after equal pauses': script(
    { ann: retries('service', () => 100), service: failsFor(14) },
    (run) => run.request('ann', 'go'),
    silent,
  ),
  'fifteen samples of one question': script(
    { ann: receives(counting((n) => (n % 3 ? 'blue' : 'red'))) },
    (run) => many(15, () => run.request('ann', 'which?')),
    silent,
  ),
  'a batch of a hundred with forty equal rows': script(
    { ann: says('stored') },
    (run) => many(100, (n) => run.request('ann', n % 5 < 2 ? 'the same row' : `row ${n}`)),
    silent,
  ),
  'a hundred heartbeats to one who only listens': script(
    { ann: repeats(100, (context) => context.send('bob', 'alive'), 200), bob: counter() },
    (run) => run.request('ann', 'go'),
    silent,
  ),
  'heartbeats that are answered, every 200 ms, beside a model that thinks for ten seconds': {
    ...script(
      {
        ann: repeats(
          50,
          asks('bob', () => 'alive?'),
          200,
        ),
        bob: says('yes'),
        cleo: receives(async (_message, context) => (await context.complete({ prompt: 'Think.' })).text),
      },
      (run) => run.requestAll(['cleo', 'ann'], 'go'),
      silent,
    ),
    options: { models: { default: slowModel(10_000) } },
  },
  'a tool that is polled by its definition': {
    ...script({ ann: repeats(TIMES, (context) => context.tool('job', {})) }, (run) => run.request('ann', 'go'), silent),
    options: { tools: [tool('job', () => 'running', true)] },
  },
  'a tool with another input each time': {
    ...script(
      { ann: repeats(TIMES, (context, n) => context.tool('store', { n })) },
      (run) => run.request('ann', 'go'),
      silent,
    ),
    options: { tools: [tool('store', () => 'ok')] },
  },
  'a task that comes back once, with notes': script(
    {
      ann: receives(async ({ content }, context) =>
        content === 'go' ? `${(await context.delegate('bob', 'write')).result}` : 'noted',
      ),
      bob: receives(async (_message, context) => `${(await context.delegate('ann', 'notes?')).result}`),
    },
    (run) => run.request('ann', 'go'),
    silent,
    { ann: { reentrancy: 'chain' }, bob: { reentrancy: 'chain' } },
  ),
}

function counting(text: (n: number) => string): () => string {
  let n = 0
  return () => text(n++)
}
