/** What somebody waits for, and what has a high priority, does not wait until the host has taken all that others wrote. */

import type { Test } from 'tap'
import t from 'tap'
import { Link, Outbox } from '../../src/actors/turn/link.ts'
import { ASLEEP, Window } from '../../src/mailbox/channel.ts'
import { END, REQUEST, SEND } from '../../src/mailbox/frame.ts'
import { BareSupervisor } from './bare-supervisor.ts'
import { numbers } from './teams.ts'

const MANY = 300 // more than the host takes of one agent at a time
const TURN = 1
const TYPES: Record<number, 'report' | 'request' | 'response'> = {
  [SEND]: 'report',
  [REQUEST]: 'request',
  [END]: 'response',
}

/** A host whose agents do what the test writes for them; `rung` has who was woken, in that order. */
async function host(t: Test) {
  const bare = new BareSupervisor({ flooder() {}, writer() {}, flooded() {}, other() {} }, [])
  await bare.start()
  await bare.clock.runToIdle() // all sleep
  t.teardown(() => bare.host.close())
  const rung: string[] = []
  for (const [name, thread] of bare.threads) thread.ring = () => void rung.push(name)
  for (const name of ['flooder', 'writer']) void bare.ask(name) // whose turns stay open
  bare.host.loop.kick()
  for (const name of rung.splice(0)) Atomics.store(bare.host.directory.cell(name)!.life!.window.words, ASLEEP, 2)
  const index = (name: string) => bare.host.directory.cell(name)!.index
  const outboxOf = (name: string) => {
    const window = new Window(bare.host.directory.cell(name)!.life!.window.buffer)
    const link = new Link(window, bare.host.team, { ring() {}, onRing() {}, scheduler: bare.clock }, index(name))
    return new Outbox(link, index(name), 10_000, () => 0, Math.random)
  }
  const outboxes = { flooder: outboxOf('flooder'), writer: outboxOf('writer'), other: outboxOf('other') }
  const write = (from: keyof typeof outboxes, kind: number, to: string, priority = 0) => {
    const outbox = outboxes[from]
    const fields = outbox.begin(kind, bare.run.index, TURN, 1, '', undefined)
    fields.type = TYPES[kind]!
    fields.recipient = index(to)
    fields.priority = priority
    fields.correlation = kind === SEND ? 0 : 1
    const bytes = outbox.size()
    if (kind === END) return void outbox.writeEnd(bytes, [0, 0, 0, 0], 0)
    outbox.link.claim(fields.recipient, bytes, TURN, 1)
    outbox.write(bytes, 'soon')
    outbox.link.claimed()
  }
  const flood = () => {
    for (const _ of numbers(MANY)) write('flooder', SEND, 'flooded')
  }
  return { bare, rung, write, flood }
}

t.test('a message of high priority is handed over before all of a flood is taken', async (t) => {
  const { bare, rung, write, flood } = await host(t)
  flood()
  write('writer', SEND, 'other', 1)
  bare.host.loop.kick()
  t.same(rung, ['other', 'flooded'])
  t.equal(bare.host.directory.cell('flooded')!.mailbox.accepted, MANY)
})

t.test('without a priority it comes in its turn', async (t) => {
  const { bare, rung, write, flood } = await host(t)
  flood()
  write('writer', SEND, 'other')
  bare.host.loop.kick()
  t.same(rung, ['flooded', 'other'])
})

t.test('an answer is handed over before all of a flood is taken', async (t) => {
  const { bare, rung, write, flood } = await host(t)
  write('writer', REQUEST, 'other')
  bare.host.loop.kick()
  t.same(rung.splice(0), ['other'])
  flood()
  write('other', END, 'writer')
  bare.host.loop.kick()
  t.same(rung, ['writer', 'flooded'])
})
