/** What goes into one block of the log, who waits for it, and what never gets into it. */

import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import t, { type Test } from 'tap'
import * as z from 'zod'
import { createTeam, defineTool, type MultiAgentPatternOptions } from '../../src/index.ts'
import { LogKeeper } from '../../src/runtime/durability/log-keeper.ts'
import { type LogEntry, SEQ_STEP } from '../../src/runtime/log/records.ts'
import { formsOf } from '../../src/runtime/logging/redactor.ts'
import { type Scheduler, systemClock } from '../../src/shared/clock.ts'
import { type DramatisError, LogLostError } from '../../src/shared/errors.ts'
import { modelServer } from '../fixtures/model-server.ts'
import { pluck } from '../kit/lists.ts'
import { heard } from '../kit/team.ts'
import { asked, callerModule, ledger, recordModule } from '../toolbox/desk.ts'
import { deskOf, first, type Script } from './desk-team.ts'
import { anotherThread, type Durability, HeldStore } from './held-store.ts'
import { decoded } from './log-entries.ts'
import { folderOf } from './log-folders.ts'
import { MemoryDisk, MemoryStore } from './memory-store.ts'

// What goes into one block, who waits for it, and what is told when nothing can be written any more.

async function kept(commits = false, clock: Scheduler = systemClock) {
  const disk = new MemoryDisk()
  const store = new MemoryStore(disk)
  await store.open()
  const lost: DramatisError[] = []
  const slow: boolean[] = []
  let told = () => {}
  const journal = { tell: () => told(), keep: () => {} }
  const options = {
    clock,
    journal,
    store,
    commits,
    syncMs: 60_000,
    end: 0,
    lost: (error: DramatisError) => lost.push(error),
    slow: (isSlow: boolean) => slow.push(isSlow),
  }
  const keeper = new LogKeeper(options)
  let seq = 0
  const log = (reason: string) => {
    keeper.take({ kind: 'run.aborted', reason, run: 1, at: 0, seq })
    seq += SEQ_STEP
  }
  const blocks = () => disk.blocks.map(({ entries }) => decoded(entries).map(reasonOf))
  const onTell = (listener: () => void) => {
    told = listener
  }
  return { store, keeper, lost, slow, log, blocks, onTell }
}

const reasonOf = (entry: LogEntry) => (entry.kind === 'run.aborted' ? entry.reason : entry.kind)

t.test('what one task logs is one block, with its promises and what readers log about it', async (t) => {
  const { keeper, log, blocks, onTell } = await kept()
  onTell(() => {
    onTell(() => {})
    log('a reader')
  })
  log('first')
  await Promise.resolve()
  log('second')
  await keeper.written()
  await turn()
  log('third')
  await keeper.written()
  t.same(blocks(), [['first', 'second', 'a reader'], ['third']])
  await keeper.close()
})

t.test('close writes what is left, and takes nothing after that', async (t) => {
  const { keeper, log, blocks } = await kept()
  log('left')
  await keeper.close()
  log('late')
  await turn()
  t.same(blocks(), [['left']])
  await t.rejects(keeper.written(), { code: 'TEAM_CLOSED' })
})

t.test('close ends what waits for room on the disk, and says that it is not written', async (t) => {
  const { store, keeper, lost, log } = await kept()
  let refuse = (_reason: Error) => {}
  store.append = () =>
    new Promise((_, reject) => {
      refuse = reject
    })
  const close = store.close.bind(store)
  store.close = async () => {
    refuse(new LogLostError('there was no room'))
    await close()
  }
  log('left')
  const told = keeper.written()
  await Promise.all([
    t.rejects(keeper.close(), { code: 'LOG_LOST', message: 'there was no room' }),
    t.rejects(told, { code: 'LOG_LOST', message: 'there was no room' }),
  ])
  t.same([store.state, lost], ['closed', []])
})

t.test('a store that throws loses the log, and its error is told', async (t) => {
  for (const method of ['append', 'sync'] as const) {
    const { store, keeper, lost, log } = await kept(true)
    store[method] = () => {
      throw new Error('no connection')
    }
    log('first')
    await t.rejects(keeper.written(), /no connection/)
    t.match(lost, [{ code: 'LOG_LOST', message: /no connection/ }])
    t.match(keeper.health, { ok: false })
    await keeper.close()
  }
})

t.test('a store that takes long is told of, once, and that it has done all', async (t) => {
  let now = 0
  let timers: { at: number; task: () => void }[] = []
  const pass = (ms: number) => {
    now += ms
    const due = timers.filter(({ at }) => at <= now)
    timers = timers.filter(({ at }) => at > now)
    for (const { task } of due) task()
  }
  const timer = (ms: number, task: () => void) => {
    const entry = { at: now + ms, task }
    timers.push(entry)
    return {
      cancel() {
        timers = timers.filter((each) => each !== entry)
      },
    }
  }
  const { store, keeper, slow, log } = await kept(false, { ...systemClock, monotonic: () => now, timer })
  const append = store.append.bind(store)
  const releases: (() => void)[] = []
  store.append = async (block) => {
    await new Promise<void>((resolve) => releases.push(resolve))
    return append(block)
  }
  log('first')
  await turn()
  pass(9_000)
  log('second')
  await turn()
  t.match(keeper.health, { ok: true, lagMs: 9_000 })
  releases.shift()!()
  await turn()
  pass(9_000)
  t.same([slow, keeper.health], [[], { ok: true, lagMs: 9_000 }], 'each of them took less than 10 s')
  pass(1_000)
  log('third')
  await turn()
  pass(10_000)
  t.same([slow, keeper.health], [[true], { ok: false, lagMs: 20_000 }])
  for (const release of releases.splice(0)) release()
  await keeper.written()
  t.same([slow, keeper.health], [[true, false], { ok: true, lagMs: 0 }])
  await keeper.close()
  t.same(timers, [])
})

t.test('with commit nobody is told before the block is synced', async (t) => {
  const { store, keeper, log, blocks } = await kept(true)
  let synced = () => {}
  const syncing = new Promise<void>((resolve) => {
    synced = resolve
  })
  store.sync = () => syncing
  log('paid')
  let isTold = false
  const told = keeper.written().then(() => {
    isTold = true
  })
  for (let turns = 0; turns < 5; turns++) await turn()
  t.same([blocks(), isTold], [[['paid']], false])
  synced()
  await told
  t.ok(isTold)
})

t.test('with commit a block is synced when somebody is told of it, and those before it with it', async (t) => {
  const { store, keeper, log, blocks } = await kept(true)
  let syncs = 0
  store.sync = async () => {
    syncs += 1
  }
  log('nobody waits')
  await turn()
  await turn()
  t.same([blocks(), syncs], [[['nobody waits']], 0])
  await Promise.all([keeper.written(), keeper.written()])
  t.equal(syncs, 1, 'whoever asks later waits for the disk too')
  await keeper.written()
  t.equal(syncs, 1, 'and what is on the disk is not synced again')
  log('first')
  await turn()
  log('told')
  await keeper.written()
  t.same([blocks().length, syncs], [3, 2])
  await keeper.close()
})

t.test('a block that cannot be written ends it: all who wait get the reason, and it is told once', async (t) => {
  const { store, keeper, lost, log, blocks } = await kept()
  store.append = async () => {
    throw new LogLostError('the disk is gone')
  }
  log('first')
  const waiting = keeper.written()
  await t.rejects(waiting, { code: 'LOG_LOST' })
  log('second')
  await t.rejects(keeper.written(), { code: 'LOG_LOST', message: 'the disk is gone' })
  await turn()
  t.same(pluck(lost, 'code'), ['LOG_LOST'])
  t.same(blocks(), [])
})

// An act leaves the process only when the log has what announces it. The writes of the store are held back by hand.

const script: Script = async (desk, query) => {
  const [verb, ...words] = query.split(' ')
  if (verb === 'model') return (await desk.complete({ messages: [{ role: 'user', content: 'hello' }] })).text
  if (verb === 'tool') return String(await desk.tool('pay', {}))
  return (await desk.request('ann', [verb, ...words].join(' '))).content
}

function heldTeam(t: Test, durability: Durability, more: Partial<MultiAgentPatternOptions> = {}) {
  const folder = folderOf(t)
  const store = new HeldStore(durability)
  const stateManagement = { store, durability }
  const team = deskOf(t, join(folder, 'log'), script, { ...more, stateManagement })
  t.teardown(() => store.release()) // before the team is closed
  return { store, team, effects: join(folder, 'effects') }
}

/** Checks that an act does not happen before the store goes on, and happens then. */
async function leavesWhenWritten(
  t: Test,
  store: HeldStore,
  act: () => void,
  hasLeft: () => boolean,
  done: () => Promise<unknown>,
): Promise<void> {
  const held = store.hold()
  act()
  await held
  await anotherThread()
  t.notOk(hasLeft(), 'not before')
  store.release()
  await done()
  t.ok(hasLeft(), 'then it does')
}

t.test(
  'a write from outside on the blackboard of a run that is launched before the log is open is in the log',
  async (t) => {
    const path = join(folderOf(t), 'log')
    const asks: Script = (desk) => desk.ask('Really?')
    const before = deskOf(t, path, asks, { enableBlackboard: true })
    const run = before.launch('go', { runId: 'one' })
    await run.blackboard!.write('early', 1, 'fact')
    await before.close()
    const after = deskOf(t, path, asks, { enableBlackboard: true })
    await after.start()
    t.equal(after.getRun('one')!.board()?.read('early')?.value, 1)
  },
)

for (const durability of ['write_behind', 'commit'] as const) {
  t.test(`with ${durability} a model is called when the log has the call`, async (t) => {
    const server = await modelServer(t)
    server.always(() => 'hi')
    const models = { default: { model: 'gpt-4o', baseURL: server.baseURL, apiKey: 'none' } }
    const { store, team } = heldTeam(t, durability, { models })
    await team.start()
    let result: Promise<unknown> | undefined
    const act = () => {
      result = team.execute('model')
    }
    await leavesWhenWritten(
      t,
      store,
      act,
      () => server.calls.length > 0,
      async () => result,
    )
  })

  t.test(`with ${durability} a write from outside on a blackboard is over when the log has it`, async (t) => {
    const { store, team } = heldTeam(t, durability, { enableBlackboard: true })
    const run = team.launch('steps of')
    await run.result
    let isOver = false
    let writing: Promise<unknown> | undefined
    const act = () => {
      writing = run.blackboard!.write('key', 1, 'fact').then(() => {
        isOver = true
      })
    }
    await leavesWhenWritten(
      t,
      store,
      act,
      () => isOver,
      async () => writing,
    )
  })

  for (const idempotent of [false, true])
    t.test(`with ${durability} a tool (idempotent: ${idempotent}) runs when the log has its begin`, async (t) => {
      let paid = 0
      const run = async () => String(++paid)
      const pay = defineTool({ name: 'pay', description: 'Pays.', input: z.object({}), idempotent, run })
      const { store, team } = heldTeam(t, durability, { tools: [pay] })
      await team.start()
      let result: Promise<unknown> | undefined
      const act = () => {
        result = team.execute('tool')
      }
      await leavesWhenWritten(
        t,
        store,
        act,
        () => paid > 0,
        async () => result,
      )
    })

  t.test(
    `with ${durability} a tool in a thread runs when the log has its begin, also if it may run twice`,
    async (t) => {
      const { file } = ledger(t)
      const agents = [{ name: 'ann', module: callerModule, tools: [{ module: recordModule, export: 'again' }] }]
      const { store, team } = heldTeam(t, durability, { agents })
      await team.start()
      let result: Promise<unknown> | undefined
      const act = () => {
        result = team.execute(asked('again', { file }))
      }
      await leavesWhenWritten(
        t,
        store,
        act,
        () => existsSync(file),
        async () => result,
      )
    },
  )

  t.test(`with ${durability} a step that may not run twice begins when the log has its begin`, async (t) => {
    const { store, team, effects } = heldTeam(t, durability)
    await team.start()
    let result: Promise<unknown> | undefined
    const act = () => {
      result = team.execute('once x')
    }
    await leavesWhenWritten(
      t,
      store,
      act,
      () => existsSync(effects),
      async () => result,
    )
  })

  t.test(`with ${durability} a result, and the event of it, are told when the log has them`, async (t) => {
    const { store, team } = heldTeam(t, durability)
    await team.start()
    const told = heard(team, 'run.finished', (_event) => 'team.events')
    const run = team.launch('count')
    void run.result.then(() => told.push('result'))
    const events = (async () => {
      for await (const { type } of run.events()) if (type === 'run.finished') told.push('events')
    })()
    const text = (async () => {
      let said = ''
      for await (const piece of run.text()) said += piece
      return said
    })()
    await leavesWhenWritten(
      t,
      store,
      () => {},
      () => told.length > 0,
      async () => Promise.all([run.result, events, text]),
    )
    t.same(told.sort(), ['events', 'result', 'team.events'])
    t.equal(await text, '0: ')
  })

  t.test(`with ${durability} a message and an answer from outside are accepted when the log has them`, async (t) => {
    const { store, team } = heldTeam(t, durability)
    await team.start()
    const accepted: string[] = []
    let sent: Promise<unknown> | undefined
    const send = () => {
      sent = team.sendMessage({ recipient: 'ann', content: 'count' }).then(() => accepted.push('message'))
    }
    await leavesWhenWritten(
      t,
      store,
      send,
      () => accepted.includes('message'),
      async () => sent,
    )
    const run = team.launch('ask really')
    const { questionId } = await first(run.events(), 'question')
    await team.flush()
    let answered: Promise<unknown> | undefined
    const answer = () => {
      answered = run.answer(questionId, 'yes').then(() => accepted.push('answer'))
    }
    await leavesWhenWritten(
      t,
      store,
      answer,
      () => accepted.includes('answer'),
      async () => answered,
    )
    await run.result
  })
}

t.test('without a durable log nothing of that waits', async (t) => {
  const team = deskOf(t, join(folderOf(t), 'log'), script, { stateManagement: undefined as never })
  t.equal(await team.flush(), undefined)
  t.match(await team.execute('once x'), { success: true, finalOutput: '1' })
})

// The keys of a team do not get into its log: not by its options, nor by what a provider says of them.

const KEYS = {
  option: 'kA9+option/of-a-model=31',
  header: 'kB8+header/of-a-model=42',
  env: 'kC7+variable/of-the-env=53',
}

t.test('no key of the options, the headers or the environment is in any file of a log', async (t) => {
  process.env.DESK_API_KEY = KEYS.env
  t.teardown(() => delete process.env.DESK_API_KEY)
  const path = join(folderOf(t), 'log')
  const server = await modelServer(t)
  const all = Object.values(KEYS).join(' and ')
  const failure = { error: { message: `Refused: ${all}`, type: 'invalid_request_error', param: null, code: null } }
  server.answer({ text: `Your keys are ${all}.` }, { status: 400, body: failure })
  const { option: apiKey, header } = KEYS
  const team = deskOf(
    t,
    path,
    async (desk) => {
      const said = (await desk.request('ann', 'think first')).content
      const failed = await desk.request('bob', 'think second').catch((error: Error) => error.message)
      return `${said} ${String(failed)}`
    },
    { models: { default: { model: 'gpt-4o', baseURL: server.baseURL, apiKey, headers: { 'x-api-key': header } } } },
  )
  const { finalOutput, error } = await team.execute('go', { runId: 'one' })
  t.match(finalOutput, /Your keys are .*redacted.*Refused/s, error?.message ?? 'both were said')
  t.equal(server.calls[0]!.headers['x-api-key'], header)
  await team.close()
  holdNone(
    t,
    path,
    Object.values(KEYS).flatMap((key) => [...formsOf(key)]),
  )
})

/** Checks that none of the texts is in a file of the log, and that nobody else may read one. */
function holdNone(t: Test, path: string, texts: readonly string[]): void {
  const files = readdirSync(path, { recursive: true }).map((name) => join(path, String(name)))
  t.ok(files.length > 1)
  for (const file of files) {
    t.equal(statSync(file).mode & 0o077, 0, 'nobody else may read it')
    const bytes = readFileSync(file)
    t.same(
      texts.filter((text) => bytes.includes(text)),
      [],
      file,
    )
  }
}

t.test('a key that an agent was granted is whole in its tools, and a name in all that leaves its thread', async (t) => {
  const key = 'kD6+"granted"\\of-an-agent=64'
  process.env.DESK_SEARCH_KEY = key
  t.teardown(() => delete process.env.DESK_SEARCH_KEY)
  const path = join(folderOf(t), 'log')
  const server = await modelServer(t)
  server.always(({ prompt }) => `You said ${prompt}`)
  const used: unknown[] = []
  const use = defineTool({
    name: 'use',
    description: 'Uses a key.',
    input: z.object({ with: z.array(z.string()) }),
    run(input, context) {
      used.push(input.with[0])
      context.progress(`used ${input.with[0]}`)
      return { echo: input.with }
    },
  })
  const printed: string[] = []
  const print = (fields: object, text: string) => void printed.push(`${text} ${JSON.stringify(fields)}`)
  const fixture = (name: string) => new URL(`../fixtures/durability/${name}.js`, import.meta.url)
  const team = createTeam({
    agents: [
      { name: 'desk', module: fixture('says-its-key'), env: ['DESK_SEARCH_KEY'] },
      { name: 'other', module: fixture('answers-agent') },
    ],
    tools: [use, { module: fixture('key-tool') }],
    models: { default: { model: 'gpt-4o', baseURL: server.baseURL, apiKey: 'no-secret' } },
    enableBlackboard: true,
    stateManagement: { path },
    orchestration: { strategy: 'sequential', agentOrder: ['desk'] },
    logger: { debug: print, info: print, warn: print, error: print },
  })
  t.teardown(() => team.close())
  const name = '[redacted:DESK_SEARCH_KEY]'
  const { data, error, ...result } = await team.execute('go')
  t.equal(error, null)
  const said = { used: [{ echo: [name] }, 'the key'], step: { key: name }, whole: false, [name]: [name] }
  t.same(result.agentOutputs.desk?.[0]?.structuredData, said)
  t.same(used, [key], 'the tool had the key itself')
  t.equal(server.calls.at(-1)?.prompt, `asked with ${name}`)
  const history = JSON.stringify(result.messageHistory)
  t.ok(history.includes(`sent ${name}`))
  const failed = [await team.execute('fail'), await team.execute('die')]
  t.match(failed[0]?.error?.message, `threw ${name}`)
  t.match(failed[1]?.error?.message, /died with \[redacted/)
  const trace = JSON.stringify([result.orchestrationTrace, failed.map((each) => [each.error, each.orchestrationTrace])])
  await team.close()
  for (const form of [key, JSON.stringify(key).slice(1, -1)])
    t.notOk([history, trace, server.calls.map(({ prompt }) => prompt), printed].join().includes(form))
  holdNone(t, path, [key, JSON.stringify(key).slice(1, -1)])
})
