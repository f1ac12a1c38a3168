/** Rule 24: what stands between naming a cycle of turns on threads and breaking it. Threads that are none, so that time is virtual. */
import t from 'tap'
import { deadlock } from '../../src/runtime/observers/deadlock.ts'
import { ahead, BareSupervisor } from './bare-supervisor.ts'
import { outcomeOf, type Receive } from './teams.ts'
import { after } from './verdicts.ts'

/**
 * Two agents that wait for each other from the start, and who was named as the victim, if anybody, each time. `ann` gets a
 * sleep of which its thread knows nothing.
 */
async function bargain(ann: (unseen: (ms: number) => Promise<void>) => Receive, mode: 'break' | 'report' = 'break') {
  const act = ann((ms) => team.clock.sleep(ms))
  const team: BareSupervisor = new BareSupervisor({ ann: act, bob: after('ann'), cleo: after('ann') }, [
    deadlock(mode, 250, true),
  ])
  const victims: (string | null)[] = []
  const tails: (readonly string[])[] = []
  team.host.journal.records$.subscribe((batch) => {
    for (const record of batch) {
      if (record.kind !== 'alarm' || record.name !== 'deadlock') continue
      victims.push(record.fields.victim)
      tails.push(record.fields.tail)
    }
  })
  await team.start()
  const asked = outcomeOf(team.ask('ann'))
  await team.clock.advance(0)
  return { team, victims, tails, asked }
}

t.test('rule 24: a cycle is named at once, and broken when it has stood for confirmMs', async (t) => {
  const { team, victims, asked } = await bargain(() => after('bob'))
  t.same(victims, [null])
  await team.clock.advance(249)
  t.same([victims, asked.settled], [[null], false])
  await team.clock.advance(1)
  t.same([victims.length, asked.settled], [2, true])
  t.match(victims[1], /ann|bob/)
})

t.test('rule 25: who has come to wait for it meanwhile is in the tail when it is broken', async (t) => {
  const { team, victims, tails } = await bargain(() => after('bob'))
  await team.clock.advance(100)
  const asked = outcomeOf(team.ask('cleo'))
  await team.clock.advance(149)
  t.same(victims, [null], 'that is no other cycle')
  await team.clock.advance(1)
  t.notOk(tails[0]!.includes('cleo'))
  t.ok(tails[1]!.includes('cleo'))
  await team.clock.runToIdle()
  t.equal(asked.settled, true)
})

t.test('rule 24: who is found at work when it is asked again has all of the time anew', async (t) => {
  const { team, victims, asked } = await bargain((unseen) => async (_message, context) => {
    const quote = context.request('bob', 'your quote?')
    quote.catch(() => {})
    await unseen(200)
    await context.sleep(100)
    return (await quote).content
  })
  t.same(victims, [null])
  await team.clock.advance(250)
  t.same([victims, asked.settled], [[null], false], 'it sleeps then')
  await team.clock.advance(299)
  t.same([victims, asked.settled], [[null], false], 'it says so at 300, when it has slept')
  await team.clock.advance(1)
  t.same([victims.length, asked.settled], [2, true])
})

t.test('rule 24: who has done something unseen meanwhile has all of the time anew', async (t) => {
  const { team, victims } = await bargain((unseen) => async (_message, context) => {
    const quote = context.request('bob', 'your quote?')
    await unseen(100)
    return (await Promise.any([quote, context.request('bob', 'and this?')])).content
  })
  await team.clock.advance(349)
  t.same(victims, [null], 'it is named once')
  await team.clock.advance(1)
  t.match(victims, [null, /ann|bob/])
})

t.test("rule 24: with 'report' it is named and left, however long it stands", async (t) => {
  const { team, victims, asked } = await bargain(() => after('bob'), 'report')
  await team.clock.advance(10_000)
  t.same([victims, asked.settled], [[null], false])
})

t.test('rule 24: a cycle that has come apart meanwhile is not broken', async (t) => {
  const { team, victims, asked } = await bargain((unseen) => async ({ content }, context) => {
    if (content !== 'go') return 'mine'
    const first = context.request('bob', 'your quote?')
    first.catch(() => {})
    await Promise.race([first, unseen(200)])
    return 'I go without'
  })
  t.same(victims, [null])
  await team.clock.advance(200)
  t.equal(asked.value, 'I go without')
  await team.clock.advance(1_000)
  t.same(victims, [null])
})

t.test('rule 27: a stall of which a script of the user in the host may be the end is left to it', async (t) => {
  for (const [isolated, foreign] of [
    [true, true],
    [false, true],
    [false, false],
  ] as const) {
    const barber: Receive = async (_message, context) => void (await context.blackboard.waitFor('a customer'))
    const team = new BareSupervisor({ script: after('barber'), barber }, [deadlock('break', 250, foreign)], {
      blackboard: 'run',
      watch: (clock) => ahead(clock, () => 0), // no virtual one: there somebody could see what the script has under way
    })
    team.run.held = false
    let stalls = 0
    team.host.journal.records$.subscribe((batch) => {
      for (const record of batch) if (record.kind === 'alarm' && record.name === 'stall') stalls += 1
    })
    await team.start()
    team.threads.get('script')!.isolated = isolated
    const asked = outcomeOf(team.ask('script'))
    await team.clock.advance(0)
    t.equal(stalls, isolated || !foreign ? 1 : 0)
    await team.clock.advance(250)
    t.equal(asked.settled, isolated || !foreign)
  }
})
