/** The logger of a team can be pino's own: its bindings, levels and serializers do what they do elsewhere. */
import { type Level, type Logger as Pino, pino } from 'pino'
import t from 'tap'
import { type Cast, localTeam, openTeam } from '../supervision/teams.ts'

type Line = Readonly<Record<string, unknown>>

/** A pino logger, and what it has written. */
function recording(level: Level): { logger: Pino; lines: Line[] } {
  const lines: Line[] = []
  const write = (line: string) => void lines.push(JSON.parse(line) as Line)
  return { logger: pino({ level, base: { service: 'desk' } }, { write }), lines }
}

const WARN = 40

const cast: Cast = {
  ann: (message, context) => {
    context.log.debug({ step: 1 }, 'begins')
    context.log.warn({ step: 2 }, 'wonders')
    return message.content
  },
}

t.test('lines of agents have the bindings of the logger, their agent and their run', async (t) => {
  const { logger, lines } = recording('debug')
  const team = localTeam(t, cast, { logger: logger.child({ team: 'review' }) })
  await team.execute('go', { runId: 'run-1' })
  const all = { service: 'desk', team: 'review', agent: 'ann', runId: 'run-1' }
  t.match(
    lines.filter(({ step }) => step !== undefined),
    [
      { ...all, level: 20, step: 1, msg: 'begins' },
      { ...all, level: 40, step: 2, msg: 'wonders' },
    ],
  )
  t.match(
    lines.find(({ msg }) => msg === 'a run begins'),
    { level: 20, service: 'desk', team: 'review', runId: 'run-1' },
  )
})

t.test('what is below the level of the logger is not written', async (t) => {
  const { logger, lines } = recording('warn')
  const team = localTeam(t, cast, { logger })
  await team.execute('go')
  t.match(lines, [{ level: WARN, msg: 'wonders' }])
  t.equal(lines.length, 1)
})

t.test('the error of a crash is written with its code, without keys', async (t) => {
  const { logger, lines } = recording('warn')
  const team = openTeam(t, cast, { logger })
  await team.start()
  team.crash('ann', new Error('lost sk-12345678901234567890'))
  await team.clock.runToIdle()
  const [line] = lines
  t.match(line, { level: WARN, event: 'agent.crashed', agent: 'ann', error: { code: 'AGENT_CRASHED' } })
  t.match(line, { error: { message: /lost \[redacted\]/ } })
})
