/** Sync points are the host's: a thread that writes its frames itself arrives for a turn that it has, and watches nothing. */
import t from 'tap'
import { CALL } from '../../src/mailbox/frame.ts'
import { hostileTeam } from './raw-thread.ts'

t.test('rule 31: a thread arrives by a turn that it has open alone, and only a script watches', async (t) => {
  const team = hostileTeam(t, { syncPoints: [{ name: 'meet', requiredAgents: ['mallory', 'ann'], timeoutMs: 1_000 }] })
  const { turn, run } = await team.turn()
  const call = (step: number, of: number, content: string) =>
    team.thread.send({ kind: CALL, run, turn: of, step, correlation: step, content, data: '{"point":"meet"}' })
  for (const [i, of] of [turn + 7, 0, -1].entries()) call(i + 1, of, 'sync')
  call(4, turn, 'synced')
  await team.team.clock.advance(0)
  t.same([...team.host.syncPoints.open], [])
  call(5, turn, 'sync')
  await team.team.clock.advance(0)
  const [open] = team.host.syncPoints.open
  t.match(open, { generation: 1, missing: ['ann'] })
  t.same(await team.ailments(), [])
})
