/** Who only looks at a run leaves its course as it is. */
import t from 'tap'
import { defineAgent } from '../../src/index.ts'
import { pluck } from '../kit/lists.ts'
import { all, stage } from './stage.ts'

const orchestration = { strategy: 'sequential' } as const
const waits = defineAgent({
  async receive(_message, context) {
    await context.sleep(10)
    return String(await context.blackboard.waitFor('never'))
  },
})

async function statusOf(
  t: Parameters<typeof stage>[0],
  look: (run: { board(): unknown; blackboard: unknown }) => unknown,
) {
  const team = stage(t, { a: waits }, { enableBlackboard: true, orchestration, globalTimeoutMs: 600_000 })
  const running = team.execute('q', { runId: 'one' })
  await team.clock.advance(5)
  const run = team.getRun('one')!
  look(run)
  await team.clock.advance(5_000)
  const { status } = run
  await run.cancel()
  return `${status}: ${(await running).error?.message}`
}

t.test('who looks at the board leaves a stall to be found; who takes the board may still write there', async (t) => {
  t.match(await statusOf(t, () => {}), /^failed: .*StallError/)
  t.match(await statusOf(t, (run) => run.board()), /^failed: .*StallError/)
  t.match(await statusOf(t, (run) => run.blackboard), /^running: /)
})

t.test('board() is the board of one moment', async (t) => {
  const writes = defineAgent({
    async receive(_message, context) {
      await context.blackboard.write('plan', 'one', 'fact')
      await context.blackboard.write('plan', 'two', 'fact')
      await context.blackboard.write('better', 'three', 'fact', { supersedes: 'plan', confidence: 0.5 })
      await context.sleep(10)
      await context.blackboard.write('plan', 'four', 'fact')
      return 'done'
    },
  })
  const team = stage(t, { a: writes }, { enableBlackboard: true, orchestration })
  const run = team.launch('q')
  await team.clock.advance(5)
  const board = run.board()!
  await team.clock.advance(10)
  await run.result
  t.equal(board.revision, 3)
  t.match(board.query(), [{ key: 'better', value: 'three' }])
  t.match(board.query({ key: 'plan' }), [{ value: 'two', version: 2 }])
  t.match(board.read('plan'), { value: 'two' })
  t.equal(board.read('nothing'), undefined)
  t.match(pluck(board.getHistory('plan'), 'value'), ['one', 'two'])
  t.same(board.getHistory('nothing'), [])
  t.match(run.board()?.getHistory('plan').length, 3)
  t.equal(Reflect.get(board, 'write'), undefined)
})

t.test('a board that runs share is, for a run that has ended, as it was at its end', async (t) => {
  const writes = defineAgent({
    async receive({ content }, { blackboard }) {
      await blackboard.write(content, 1, 'fact')
      return 'done'
    },
  })
  const team = stage(t, { a: writes }, { enableBlackboard: { scope: 'team' }, orchestration })
  const one = team.launch('one')
  await one.result
  const two = team.launch('two')
  await two.result
  t.match([one.board()?.query().length, two.board()?.query().length], [1, 2])
  t.same(Object.keys((await one.result).blackboardState ?? {}), ['one'])
})

t.test('a team without a blackboard has none to look at', async (t) => {
  const team = stage(t, { a: defineAgent({ receive: () => 'yes' }) })
  const run = team.launch('q')
  t.equal(run.board(), undefined)
  await all(run.events())
})
