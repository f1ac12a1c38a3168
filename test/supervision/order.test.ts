/** Rule 16: order is kept per sender and recipient within a priority, whatever comes between. */

import type { Test } from 'tap'
import t from 'tap'
import type { OrchestrationConfig } from '../../src/protocols/index.ts'
import { stuckNow } from '../../src/runtime/observers/stalls.ts'
import { Dice } from '../dice.ts'
import { howMany } from '../how-many.ts'
import { pluck } from '../kit/lists.ts'
import { ask, gate, given, never, numbers, type OpenTeam, openTeam, outcomeOf, type Receive } from '../kit/team.ts'

t.test('rule 16: order is kept per sender, also for large payloads', async (t) => {
  const got: string[] = []
  const sends: Receive = async (_message, context) => {
    for (let i = 0; i < 40; i++)
      await context.send('worker', `${context.role.name}${i}`, {
        structuredData: i % 7 === 3 ? 'x'.repeat(150_000) : i % 5 === 2 ? 'x'.repeat(3_000) : null,
      })
  }
  const team = openTeam(t, { a: sends, b: sends, worker: (message) => void got.push(message.content) })
  await Promise.all([ask(team, 'a'), ask(team, 'b')])
  await team.clock.advance(0)
  for (const sender of ['a', 'b'])
    t.same(
      got.filter((content) => content.startsWith(sender)),
      numbers(40).map((i) => sender + i),
    )
})

t.test('rule 16: order is kept over deaths of recipient and sender', async (t) => {
  const got: string[] = []
  const team = given(t, { supervision: { maxRestarts: 100 } }).team({
    async sender(_message, context) {
      for (let i = 0; i < 30; i++) {
        await context.send('worker', `${i}`, { structuredData: i % 4 === 1 ? 'x'.repeat(100_000) : null })
        if (i === 10 * context.attempt && context.attempt < 3) {
          team.crash('sender')
          return never
        }
      }
    },
    async worker(message, context) {
      if (Number(message.content) % 9 === 5 && context.attempt === 1) {
        team.crash('worker')
        return never
      }
      got.push(message.content)
    },
  })
  const sending = ask(team, 'sender')
  await team.clock.runToIdle()
  await sending
  t.same(got, numbers(30))
})

t.test('rule 16: order is kept when large messages in parts are cut by deaths of recipient and sender', async (t) => {
  const got: string[] = []
  const large = 'x'.repeat(600_000) // more than either window holds
  const team = given(t, {
    communication: { mailboxBytes: 2 ** 23 },
    supervision: { maxRestarts: 100, poisonAttempts: 100, backoff: { baseMs: 1, capMs: 1 } },
  }).team({
    async sender(_message, context) {
      for (let i = 0; i < 24; i++) await context.send('worker', `${i}`, { structuredData: i % 3 === 1 ? large : null })
    },
    worker: (message) => void got.push(message.content),
  })
  let batches = 0
  let deaths = 0
  team.host.journal.records$.subscribe(() => {
    batches += 1
    const cut = team.agent('worker').incarnation?.sending !== undefined
    if (cut && batches % 3 === 0 && deaths < 6) {
      deaths += 1
      team.host.clock.defer(() => team.crash('worker'))
    }
    if (batches % 7 === 0 && batches < 60) team.host.clock.defer(() => team.crash('sender'))
  })
  const sending = ask(team, 'sender')
  await team.clock.runToIdle()
  await sending
  t.ok(deaths >= 4, `${deaths} deaths, each while a large message was half in the window`)
  t.same(got, numbers(24))
})

t.test('rule 16: higher priority comes first, equal priority in order', async (t) => {
  const { opened, open } = gate()
  const got: string[] = []
  const team = openTeam(t, {
    async sender(_message, context) {
      const priorities = [0, -1, 2, 0, 2, 1, -1, 5]
      for (const [i, priority] of priorities.entries()) await context.send('worker', `${priority} ${i}`, { priority })
    },
    async worker(message) {
      if (message.content === 'hold') await opened
      else got.push(message.content)
    },
  })
  await team.sendMessage({ recipient: 'worker', content: 'hold' })
  await ask(team, 'sender')
  open()
  await team.clock.advance(0)
  t.same(got, ['5 7', '2 2', '2 4', '1 5', '0 0', '0 3', '-1 1', '-1 6'])
})

t.test('rule 16: order within a priority is kept over a death', async (t) => {
  const got: string[] = []
  const { opened, open } = gate()
  const team = openTeam(t, {
    async sender(_message, context) {
      for (const content of numbers(6)) await context.send('worker', content, { priority: Number(content) % 2 })
    },
    async worker(message, context) {
      if (message.content === 'hold' && context.attempt === 1) return never
      if (message.content === 'hold') await opened
      else got.push(message.content)
    },
  })
  await team.sendMessage({ recipient: 'worker', content: 'hold' })
  await team.clock.advance(0) // the worker is at it
  await ask(team, 'sender')
  await team.dies('worker')
  open()
  await team.clock.advance(0)
  t.same(got, ['1', '3', '5', '0', '2', '4'])
})

for (const priority of [3, -3]) {
  t.test(`rule 16: a large message of priority ${priority} keeps its place among small ones`, async (t) => {
    const { opened, open } = gate()
    const got: string[] = []
    const team = openTeam(t, {
      async sender(_message, context) {
        for (const content of numbers(7))
          await context.send('worker', content, {
            priority,
            structuredData: Number(content) % 3 === 1 ? 'x'.repeat(60_000) : null,
          })
      },
      async worker(message) {
        if (message.content === 'hold') await opened
        else got.push(message.content)
      },
    })
    await team.sendMessage({ recipient: 'worker', content: 'hold' })
    await ask(team, 'sender')
    open()
    await team.clock.advance(0)
    t.same(got, numbers(7))
  })
}

t.test('rule 16: what is sent while earlier messages wait for room comes after them', async (t) => {
  const got: string[] = []
  const { opened, open } = gate()
  const team = given(t, { communication: { mailboxCapacity: 4 } }).team({
    async sender(_message, context) {
      for (let i = 0; i < 100; i++) void context.send('worker', `${i}`)
      void context.request('worker', '100')
      void context.send('worker', '101')
      return (await context.request('worker', '102')).content
    },
    async worker(message) {
      await opened
      got.push(message.content)
      return 'answer'
    },
  })
  const sending = ask(team, 'sender')
  await team.clock.advance(0)
  open()
  t.equal(await sending, 'answer')
  t.same(got, numbers(103))
})

// Rules 0 and 16: a message that is tried again comes before all that its sender sent after it, whatever else
// happens.

const MESSAGES = 12
const SENDERS = ['ann', 'bob']

interface Told {
  sender: string
  number: number
  fails: number
}

/** Two senders tell a worker that fails on some of it; in which order it succeeded, or gave up, by sender and priority. */
async function play(test: Parameters<typeof openTeam>[0], seed: number, onHandlerError: 'retry' | 'restart') {
  const dice = new Dice(seed)
  const ended = new Map<string, number[]>()
  const note = (line: string, number: number) => ended.set(line, [...(ended.get(line) ?? []), number])
  const sends: Receive = async (_message, context) => {
    const { name: sender } = context.role
    const asked: Promise<unknown>[] = []
    for (let number = 0; number < MESSAGES; number++) {
      const structuredData: Told = { sender, number, fails: dice.chance(0.4) ? 1 + dice.upTo(2) : 0 }
      const options = { structuredData, priority: dice.pick([0, 0, 1, 5, -1]) }
      const content = 'x'.repeat(dice.pick([1, 40_000]))
      if (dice.chance(0.2)) asked.push(context.request('worker', content, options))
      else await context.send('worker', content, options)
      if (dice.chance(0.3)) await context.sleep(dice.upTo(4))
    }
    await Promise.all(asked)
  }
  const team = given(test, {
    seed,
    maxConcurrentAgents: 1 + dice.upTo(3),
    communication: dice.chance(0.3) ? { mailboxCapacity: 3 } : {},
    script: async (script) =>
      (await script.requestAll(SENDERS, 'go')).map((outcome) => (outcome.ok ? 'told' : outcome.error.message)).join(),
    roles: {
      worker: {
        supervision: {
          onHandlerError,
          maxRestarts: 1_000,
          backoff: { baseMs: 1, capMs: 2 },
        },
      },
    },
  }).team({
    ann: sends,
    bob: sends,
    async worker({ structuredData, priority }, context) {
      const { sender, number, fails } = structuredData as Told
      await context.sleep(dice.upTo(3))
      if (context.attempt <= fails) throw new Error(`${sender} ${number} fails in attempt ${context.attempt}`)
      note(`${sender} at ${priority}`, number)
    },
  })
  const runs = [team.execute('first'), ...(dice.chance(0.5) ? [team.execute('second')] : [])]
  await team.clock.runToIdle()
  const results = await Promise.all(runs)
  return { ended, runs: results, problems: team.wrong() }
}

for (const onHandlerError of ['retry', 'restart'] as const) {
  t.test(`rule 16: with '${onHandlerError}' each sender's messages of one priority keep their order`, async (t) => {
    for (let seed = 1; seed <= howMany(6, 25); seed++) {
      const { ended, runs, problems } = await play(t, seed, onHandlerError)
      t.same(problems, [], `seed ${seed}`)
      t.same(new Set(runs.map(({ finalOutput }) => finalOutput)), new Set(['told,told']), `seed ${seed}`)
      if (runs.length > 1) continue // the same numbers come in both runs
      for (const [line, numbers] of ended)
        t.same(
          numbers,
          [...numbers].sort((a, b) => a - b),
          `seed ${seed}: ${line}`,
        )
      t.equal([...ended.values()].flat().length, SENDERS.length * MESSAGES, `seed ${seed}: none is lost`)
    }
  })
}

// Rules 16 and 19: an agent whose next message waits for a permit goes on with other runs, and keeps their order.

/** A script that asks and tells as its query says: `worker:ask holder:tell`. */
const script = {
  strategy: 'custom' as const,
  async run(orchestrator: Parameters<Receive>[1], query: string): Promise<string> {
    const asked = query.split(' ').map((part) => {
      const [to = '', content = ''] = part.split(':')
      return orchestrator.request(to, content)
    })
    return (await Promise.all(asked)).map(({ content }) => content).join(' ')
  },
}

/** One permit a run: `holder` keeps that of its run until `open`, `worker` notes what it gets. */
function contended(t: Parameters<typeof openTeam>[0], cast: Record<string, Receive> = {}, roles = {}) {
  const { opened, open } = gate()
  const got: string[] = []
  const team = given(t, { maxConcurrentAgents: 1, orchestration: script, roles }).team({
    async holder({ content }) {
      if (content === 'hold') await opened
      return 'held'
    },
    worker({ content }) {
      got.push(content)
      return content
    },
    ...cast,
  })
  return { team, got, open }
}

t.test('rule 19: a message that waits for the permit of its run does not hold up those of other runs', async (t) => {
  const { team, got, open } = contended(t)
  const first = outcomeOf(team.execute('holder:hold worker:first'))
  await team.clock.advance(0)
  const others = await Promise.all(['second', 'third'].map((content) => team.execute(`worker:${content}`)))
  t.same(pluck(others, 'finalOutput'), ['second', 'third'])
  t.same(got, ['second', 'third'])
  t.equal(first.settled, false)
  open()
  await team.clock.runToIdle()
  t.match(first.value, { finalOutput: 'held first' })
  t.same(got, ['second', 'third', 'first'])
})

t.test('rule 19: messages of a run that waits keep their order, whatever has passed them', async (t) => {
  const { team, got, open } = contended(t)
  const waiting = team.execute('holder:hold worker:1 worker:2 worker:3')
  await team.clock.advance(0)
  await team.execute('worker:other')
  open()
  await team.clock.runToIdle()
  t.equal((await waiting).finalOutput, 'held 1 2 3')
  t.same(got, ['other', '1', '2', '3'])
})

t.test('rule 16: what one agent sends in two runs keeps its order, so the later waits for the earlier', async (t) => {
  const { team, got, open } = contended(t, { sender: () => '' })
  const { id, result } = team.launch('holder:hold')
  await team.clock.advance(0)
  await team.sendMessage({ recipient: 'worker', content: 'second', sender: 'sender', runId: id })
  await team.sendMessage({ recipient: 'worker', content: 'third', sender: 'sender' })
  await team.sendMessage({ recipient: 'worker', content: 'urgent', sender: 'sender', priority: 1 })
  await team.sendMessage({ recipient: 'worker', content: 'of the user' })
  await team.clock.advance(0)
  open()
  await team.clock.runToIdle()
  await result
  t.same(got, ['urgent', 'of the user', 'second', 'third'])
})

t.test('rule 16: what the caller outside sends keeps its order too', async (t) => {
  const { team, got, open } = contended(t)
  const { id, result } = team.launch('holder:hold')
  await team.clock.advance(0)
  await team.sendMessage({ recipient: 'worker', content: 'first', runId: id })
  await team.sendMessage({ recipient: 'worker', content: 'second' })
  t.equal((await team.execute('worker:of-a-script')).finalOutput, 'of-a-script')
  open()
  await team.clock.runToIdle()
  await result
  t.same(got, ['of-a-script', 'first', 'second'])
})

t.test('rule 19: who could not come when its permit was free waits for it next, whatever others want', async (t) => {
  const order: string[] = []
  const works: Receive = async ({ content }, context) => {
    order.push(`${context.role.name} ${content}`)
    await context.sleep(10)
    return content
  }
  const { team } = contended(t, { worker: works, rival: works, other: works })
  // The run's permit goes from rival to other and back, and a message of another run is always there for the worker.
  const run = team.execute(`rival:0 worker:wanted ${[1, 2, 3, 4, 5, 6].map((i) => `other:${i} rival:${i}`).join(' ')}`)
  for (let i = 0; i < 30; i++) {
    void team.sendMessage({ recipient: 'worker', content: `flood ${i}` })
    await team.clock.advance(7)
  }
  await team.clock.runToIdle()
  await run
  const others = order.filter((what) => !what.startsWith('worker flood'))
  t.equal(order.length - others.length, 30)
  const place = others.indexOf('worker wanted')
  t.ok(place < 10, `it was the ${place + 1}th of ${others.length} of its run`)
})

t.test('rule 19: many runs on few permits all come to their end, with every permit back', async (t) => {
  for (let seed = 1; seed <= 10; seed++) {
    const busy: Receive = async ({ content }, context) => {
      await context.sleep(Math.floor(context.random() * 5))
      return content
    }
    const names = ['a', 'b', 'c']
    const team = openTeam(t, Object.fromEntries(names.map((name) => [name, busy])), {
      maxConcurrentAgents: 1,
      orchestration: script,
      seed,
    })
    const runs = Array.from({ length: 8 }, (_, i) =>
      team.execute(names.map((name, n) => `${names[(n + i) % 3] ?? name}:${n}`).join(' ')),
    )
    await team.clock.advance(13)
    team.crash(names[seed % 3]!)
    await team.clock.runToIdle()
    for (const { finalOutput } of await Promise.all(runs)) t.equal(finalOutput, '0 1 2')
    t.same(
      team.host.directory.byIndex.map(({ permit }) => permit).filter((permit) => permit !== undefined),
      [],
    )
  }
})

t.test('rule 19: a retried message that waits for its permit is not passed by those behind it', async (t) => {
  const handled: string[] = []
  const { team, open } = contended(
    t,
    {
      async worker({ content }, context) {
        if (content === 'fails' && context.attempt === 1) throw new Error('again')
        handled.push(content)
        return content
      },
      third: () => 'third',
    },
    { worker: { supervision: { onHandlerError: 'retry' } } },
  )
  const run = team.execute('worker:fails holder:hold worker:behind third:x')
  await team.clock.advance(0)
  t.equal(await ask(team, 'worker', 'other'), 'other')
  open()
  await team.clock.runToIdle()
  await run
  t.same(
    handled.filter((content) => content !== 'other'),
    ['fails', 'behind'],
  )
})

t.test('rule 19: agents that wait for permits of the same two runs do not pass them on for ever', async (t) => {
  const heard: string[] = []
  const works: Receive = async ({ content }, { role, runId }) => void heard.push(`${role.name} ${runId} ${content}`)
  const team = given(t, {
    maxConcurrentAgents: 1,
    script: async (script, query) => {
      const [first, ...others] = query.split(' ')
      const asked = [script.request(first!, '')]
      await script.sleep(1)
      asked.push(...others.map((name) => script.request(name, '')))
      await Promise.all(asked)
      return ''
    },
  }).team({
    a: works,
    b: works,
    hog: (_message, context) => context.sleep(1_000),
    short: (_message, context) => context.sleep(10),
  })
  const long = outcomeOf(team.execute('hog a b', { runId: 'long' }))
  await team.clock.advance(2)
  const short = outcomeOf(team.execute('short a b', { runId: 'short' }))
  await team.clock.advance(100)
  t.same(heard, ['a short ', 'b short '])
  t.equal(short.value?.success, true)
  await team.clock.runToIdle()
  t.equal(long.value?.success, true)
})

// Rule 19: how long an agent keeps its permit while others wait, and how many messages it is given ahead of time.

const FLOOD = 60

const NAMES = ['first', 'second', 'third', 'fourth']

/** Fills the queues of all agents, then waits until they have worked them off. */
const fillAll = (messages: number): OrchestrationConfig => ({
  strategy: 'custom',
  async run(script) {
    for (let n = 0; n < messages; n++) for (const name of NAMES) await script.send(name, String(n))
    await script.requestAll(NAMES, 'done?')
    return 'done'
  },
})

/** Who had a turn, in that order, when four with full queues share one permit and each turn takes `ms`. */
async function turnsOf(test: Pick<typeof t, 'teardown' | 'equal'>, ms: number, messages = FLOOD): Promise<string[]> {
  const turns: string[] = []
  const worker =
    (name: string): Receive =>
    async (_message, context) => {
      turns.push(name)
      if (ms > 0) await context.sleep(ms)
    }
  const cast = Object.fromEntries(NAMES.map((name) => [name, worker(name)]))
  const team = openTeam(test, cast, { maxConcurrentAgents: 1, orchestration: fillAll(messages) })
  const run = team.execute('go')
  await team.clock.runToIdle()
  test.equal((await run).success, true)
  test.equal(turns.length, NAMES.length * (messages + 1))
  return turns
}

const changes = (turns: readonly string[]) => turns.filter((name, i) => i > 0 && name !== turns[i - 1]).length

t.test('rule 19: who has long turns passes its permit on after each', async (t) => {
  const turns = await turnsOf(t, 100)
  t.equal(changes(turns), turns.length - 1)
})

t.test('rule 19: who has short turns goes on for a slice, so that a wake-up is not paid for each', async (t) => {
  const turns = await turnsOf(t, 0)
  t.ok(changes(turns) < turns.length / 2, `${changes(turns)} changes in ${turns.length} turns`)
  t.ok(changes(turns) > 1, 'all get on, although all have more to do all the time')
})

t.test('rule 19: a slice has an end, however much there is to do', async (t) => {
  const turns = await turnsOf(t, 0, 400)
  let longest = 0
  let length = 0
  for (const [i, name] of turns.entries()) {
    length = name === turns[i - 1] ? length + 1 : 1
    longest = Math.max(longest, length)
  }
  t.ok(longest < 200, `${longest} turns of one agent after each other`)
})

t.test('an agent with long turns is given one message at a time: the next is chosen when it is free', async (t) => {
  const got: string[] = []
  const team = openTeam(t, {
    async worker({ content }, context) {
      got.push(content)
      await context.sleep(1_000)
    },
  })
  for (const content of ['a', 'b', 'c']) await team.sendMessage({ recipient: 'worker', content })
  await team.clock.advance(500)
  t.equal(team.health().agents.worker?.inFlight, 1)
  await team.sendMessage({ recipient: 'worker', content: 'urgent', priority: 1 })
  await team.clock.runToIdle()
  t.same(got, ['a', 'urgent', 'b', 'c'])
})

t.test('an agent whose turns become long is given one message at a time again', async (t) => {
  const team = given(t, { unfinished: true }).team({
    async worker({ content }, context) {
      if (content === 'long') await context.sleep(1_000)
    },
    async sender({ content }, context) {
      for (let n = 0; n < 40; n++) await context.send('worker', content)
    },
  })
  const inFlight = () => team.health().agents.worker?.inFlight
  await team.sendMessage({ recipient: 'sender', content: 'short' })
  await team.clock.advance(0)
  await team.sendMessage({ recipient: 'sender', content: 'long' })
  await team.clock.advance(500)
  t.equal(inFlight(), 40, 'all at once, for its turns had been short')
  await team.clock.advance(40_000)
  await team.sendMessage({ recipient: 'sender', content: 'long' })
  await team.clock.advance(500)
  t.equal(inFlight(), 1)
})

t.test('an agent with short turns is given many', async (t) => {
  let most = 0
  const team = openTeam(t, {
    async worker() {
      most = Math.max(most, team.health().agents.worker?.inFlight ?? 0)
    },
    async sender(_message, context) {
      for (let n = 0; n < 500; n++) await context.send('worker', String(n))
    },
  })
  await team.sendMessage({ recipient: 'sender', content: 'go' })
  await team.sendMessage({ recipient: 'sender', content: 'go' })
  await team.clock.runToIdle()
  t.ok(most > 20, `${most} at once`)
})

// Rule 23: what a look for turns that wait in vain takes does not grow with the messages that wait in mailboxes.

/** How many items are taken from what these give, while `look` runs. */
function taken(iterables: { of: object; name: string | symbol }[], look: () => void): number {
  let count = 0
  for (const { of, name } of iterables) {
    const give = Reflect.get(of, name) as () => Iterable<unknown>
    Object.assign(of, {
      *[name]() {
        for (const item of give.call(of)) {
          count += 1
          yield item
        }
      },
    })
  }
  look()
  return count
}

/** How many waiting messages, and open requests, a look at the team looks at. */
function lookedAt({ host }: OpenTeam): number {
  stuckNow(host) // the first counts what waits of each run
  const lists = host.directory.byIndex.flatMap(({ mailbox, open }) => [
    { of: mailbox, name: 'queued' },
    { of: mailbox.pending, name: Symbol.iterator },
    { of: open, name: 'values' },
  ])
  return taken(lists, () => stuckNow(host))
}

/**
 * A worker that is busy, and somebody who waits for an entry. A sender has that many messages for the worker, and `quick`
 * ones before them, of which it is done.
 */
async function teamWith(t: Test, messages: number, mailboxCapacity: number, quick = 0): Promise<OpenTeam> {
  const { opened } = gate()
  const team = given(t, {
    unfinished: true,
    communication: { mailboxCapacity },
    script: async (script) => {
      await script.requestAll(['sender', 'reader'], 'go')
      return ''
    },
  }).team({
    worker: ({ content }) => (content === 'quick' ? undefined : opened),
    reader: async (_message, context) => void (await context.blackboard.waitFor('an entry')),
    sender: async (_message, context) => {
      for (let i = 0; i < quick; i++) await context.send('worker', 'quick')
      await Promise.all(Array.from({ length: messages }, (_, i) => context.send('worker', `${i}`)))
    },
  })
  for (const query of ['one', 'two']) team.launch(query)
  await team.clock.advance(10)
  return team
}

t.test('messages that wait in line are not looked at one by one', async (t) => {
  for (const messages of [10, 2_000]) {
    const team = await teamWith(t, messages, 100_000)
    t.ok(team.agent('worker').mailbox.waiting >= messages)
    t.equal(lookedAt(team), 2, 'what the two scripts wait for')
  }
})

t.test('messages that wait for room, and requests from outside, are not looked at one by one', async (t) => {
  for (const messages of [20, 200]) {
    const team = await teamWith(t, 0, 5)
    for (let i = 0; i < messages; i++) {
      team.sendMessage({ recipient: 'worker', content: `${i}` }).catch(() => {})
      team.sendMessage({ recipient: 'worker', content: `${i}`, requiresResponse: true }).catch(() => {})
    }
    await team.clock.advance(0)
    t.ok(team.agent('worker').mailbox.pending.length > messages)
    t.equal(lookedAt(team), 2)
  }
})

t.test('messages that a thread was handed are not looked at one by one where others wait for room', async (t) => {
  const counts: number[] = []
  for (const messages of [10, 500]) {
    const team = await teamWith(t, 2 * messages, messages, 100)
    const { mailbox } = team.agent('worker')
    t.ok(mailbox.pending.length > 0)
    t.ok(mailbox.handed.size >= messages / 2, `${mailbox.handed.size} of ${messages}`)
    counts.push(taken([{ of: mailbox.handed, name: 'values' }], () => stuckNow(team.host)))
  }
  t.equal(counts[1], counts[0])
})
