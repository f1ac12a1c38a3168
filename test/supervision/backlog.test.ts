/** Rule 23: what a look for turns that wait in vain takes does not grow with the messages that wait in mailboxes. */

import type { Test } from 'tap'
import t from 'tap'
import { stuckNow } from '../../src/runtime/observers/stuck.ts'
import { gate, type OpenTeam, openTeam } from './teams.ts'

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
  const lists = host.directory.cells.flatMap(({ mailbox, open }) => [
    { of: mailbox, name: 'queued' },
    { of: mailbox.parked, name: Symbol.iterator },
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
  const team = openTeam(
    t,
    {
      worker: ({ content }) => (content === 'quick' ? undefined : opened),
      reader: async (_message, context) => void (await context.blackboard.waitFor('an entry')),
      sender: async (_message, context) => {
        for (let i = 0; i < quick; i++) await context.send('worker', 'quick')
        await Promise.all(Array.from({ length: messages }, (_, i) => context.send('worker', `${i}`)))
      },
    },
    {
      communication: { mailboxCapacity },
      orchestration: {
        strategy: 'custom',
        async run(script) {
          await script.requestAll(['sender', 'reader'], 'go')
          return ''
        },
      },
    },
  )
  for (const query of ['one', 'two']) team.launch(query)
  await team.clock.advance(10)
  return team
}

t.test('messages that wait in line are not looked at one by one', async (t) => {
  for (const messages of [10, 2_000]) {
    const team = await teamWith(t, messages, 100_000)
    t.ok(team.host.directory.cell('worker')!.mailbox.waiting >= messages)
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
    t.ok(team.host.directory.cell('worker')!.mailbox.parked.length > messages)
    t.equal(lookedAt(team), 2)
  }
})

t.test('messages that a thread was handed are not looked at one by one where others wait for room', async (t) => {
  const counts: number[] = []
  for (const messages of [10, 500]) {
    const team = await teamWith(t, 2 * messages, messages, 100)
    const { mailbox } = team.host.directory.cell('worker')!
    t.ok(mailbox.parked.length > 0)
    t.ok(mailbox.handed.size >= messages / 2, `${mailbox.handed.size} of ${messages}`)
    counts.push(taken([{ of: mailbox.handed, name: 'values' }], () => stuckNow(team.host)))
  }
  t.equal(counts[1], counts[0])
})
