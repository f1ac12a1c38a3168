/** An act leaves the process only when the log has what announces it. The writes of the store are held back by hand. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import t from 'tap'
import * as z from 'zod'
import { defineTool, type MultiAgentPatternOptions } from '../../src/index.ts'
import { modelServer } from '../fixtures/model-server.ts'
import { heard } from '../kit/team.ts'
import { asked, callerModule, ledger, recordModule } from '../toolbox/desk.ts'
import { deskOf, first, type Script } from './desk-team.ts'
import { anotherThread, type Durability, HeldStore } from './held-store.ts'
import { folderOf } from './log-folders.ts'

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
