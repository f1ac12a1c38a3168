/** What agents print on real threads, and what becomes of it in the log. */
import t from 'tap'
import { createTeam, type Logger } from '../../src/index.ts'
import { held } from '../held.ts'
import type { Test } from './stage.ts'

const module = new URL('../fixtures/team/printer.js', import.meta.url)

interface Line {
  level: string
  agent?: unknown
  lines?: unknown
  text: string
}

/** A team whose log is kept; `once` resolves when it is as wanted. */
function printer(t: Test) {
  const log: Line[] = []
  let check = () => {}
  const note = (level: string) => (fields: object, text: string) => {
    log.push({ level, ...fields, text })
    check()
  }
  const logger: Logger = { debug() {}, info: note('info'), warn: note('warn'), error: note('error') }
  const team = createTeam({
    agents: [{ name: 'printer', module }],
    orchestration: { strategy: 'sequential' },
    logger,
  })
  t.teardown(() => team.close())
  const once = (wanted: (log: Line[]) => boolean) =>
    held(
      new Promise<void>((resolve) => {
        check = () => {
          if (wanted(log)) resolve()
        }
        check()
      }),
    )
  return { team, log, once }
}

const printed = (log: Line[]) => log.filter(({ level }) => level === 'info')
const has = (text: string) => (log: Line[]) => log.some((line) => line.text === text)

t.test('pieces of a line are one line; what has no end is told when the thread has ended', async (t) => {
  const { team, log, once } = printer(t)
  await team.execute('in pieces')
  await once(has('one line'))
  t.notOk(has('no end')(log))
  await team.close()
  await once(has('no end'))
  t.same(printed(log), [
    { level: 'info', agent: 'printer', text: 'one line' },
    { level: 'info', agent: 'printer', text: 'no end' },
  ])
})

t.test('bytes that are no text are replaced', async (t) => {
  const { team, once } = printer(t)
  await team.execute('no text')
  await once(has('a\ufffd\ufffdb'))
})

t.test('a line of 5 MB is cut', async (t) => {
  const { team, log, once } = printer(t)
  await team.execute('a long line')
  await once((log) => printed(log).length > 0)
  t.equal(printed(log)[0]!.text, `${'x'.repeat(16_384)} ... (${5_000_000 - 16_384} characters left out)`)
})

t.test('what an agent prints before it dies is told', async (t) => {
  const { team, once } = printer(t)
  await team.execute('die')
  await once(has('my last words'))
  await once(has('and one more thing'))
})

t.test('of 10 MB at once each line is told or counted, and the team goes on', async (t) => {
  const { team, log, once } = printer(t)
  await team.execute('flood')
  await team.close()
  const leftOut = () => log.reduce((sum, { lines }) => sum + (typeof lines === 'number' ? lines : 0), 0)
  await once((log) => printed(log).length + leftOut() === 100_000)
  t.ok(leftOut() > 0)
  t.ok(log.some(({ level, agent, text }) => level === 'warn' && agent === 'printer' && text.includes('left out')))
})
