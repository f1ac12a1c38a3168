import t from 'tap'
import { AgentCrashedError } from '../../src/index.ts'
import { progressOn } from '../../src/service/shared/progress.ts'
import { fakeScreen, fakeTeam, runtimeEvent } from './fake-team.ts'

const crash = runtimeEvent({
  type: 'agent.crashed',
  agent: 'critic',
  epoch: 1,
  error: new AgentCrashedError('its heap is full'),
  restartInMs: 0,
})
const turn = runtimeEvent({ type: 'turn.finished', agent: 'critic', messageId: 'm', attempt: 1 })
const terminal = { columns: 80, rows: 24 }

t.test('a pipe gets plain lines', async (t) => {
  const { screen, text } = fakeScreen()
  const team = fakeTeam({ critic: {} })
  const progress = await progressOn(screen)
  progress.watch(team)
  team.events.next(turn)
  team.events.next(crash)
  progress.print('a line of the log\n')
  progress.end()
  team.events.next(crash)
  t.equal(text(), 'critic crashed: its heap is full; restarts at once\na line of the log\n')
})

t.test('a terminal gets a table that stays, and a crash above it', async (t) => {
  const { screen, text } = fakeScreen(terminal)
  const team = fakeTeam({ critic: { status: 'running', restarts: 1 } })
  const progress = await progressOn(screen, {})
  progress.watch(team)
  team.events.next(turn)
  team.events.next(crash)
  progress.end()
  progress.end()
  const whole = text()
  t.match(whole, /critic {2}running {2}0/)
  t.ok(whole.lastIndexOf('critic  running  1') > whole.indexOf('critic crashed'), 'the table is drawn again below')
  t.notOk(team.events.observed)
})

t.test('what is printed while nobody is watched is shown as it is', async (t) => {
  const { screen, text } = fakeScreen(terminal)
  const progress = await progressOn(screen, {})
  progress.print('before\n')
  progress.watch(fakeTeam())
  progress.end()
  progress.print('after\n')
  t.ok(text().startsWith('before\n'))
  t.ok(text().endsWith('after\n'))
})

t.test('on a terminal nothing that is printed is lost, however much it is', async (t) => {
  const { screen, text } = fakeScreen(terminal)
  const progress = await progressOn(screen, {})
  progress.watch(fakeTeam({ critic: {} }))
  const lines = Array.from({ length: 100 }, (_, i) => `line ${i}\n`)
  for (const line of lines) progress.print(line)
  progress.print('no end of line')
  progress.end()
  t.ok(lines.every((line) => text().includes(line)))
  t.ok(text().lastIndexOf('critic') > text().indexOf('no end of line\n'), 'the table is drawn again below')
})

t.test('a terminal that cannot move its cursor, or has no size, gets plain lines', async (t) => {
  for (const [size, TERM] of [
    [terminal, 'dumb'],
    [{ columns: 0, rows: 0 }, 'xterm'],
  ] as const) {
    const { screen, text } = fakeScreen(size)
    const progress = await progressOn(screen, { TERM })
    progress.watch(fakeTeam({ critic: {} }))
    progress.end()
    t.equal(text(), '')
  }
})
