/** Several processes of one service, and one log: one has it, the others are told who, and take over when it is free. */
import { writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import t from 'tap'
import { modelServer } from '../fixtures/model-server.ts'
import { begin, type Depot, heard, type Line, live } from './depot.ts'
import { deskOf, first as firstOf, type Script } from './desk-team.ts'
import { folderOf } from './log-folders.ts'

async function depotOf(t: Test): Promise<() => Depot> {
  const server = await modelServer(t)
  server.always(({ prompt }) => `You said ${prompt}`)
  const killer = { asked: () => {}, answered: () => {} }
  return () => ({ folder: folderOf(t), baseURL: server.baseURL, runs: 1, killer })
}

type Process = ReturnType<typeof begin>

/** The next line with one of these events. Other lines before it are passed over. */
async function next({ lines }: Process, ...events: string[]): Promise<Line> {
  for (let line = await lines.next(); !line.done; line = await lines.next())
    if (events.includes(line.value.event ?? '')) return line.value
  throw new Error(`the process ended before it was ${events.join(' or ')}`)
}

t.test('of two processes at the same moment one has the log; the other is told who, and takes over', async (t) => {
  const depot = await depotOf(t)
  const undisturbed = await live(t, depot(), undefined)
  const here = depot()
  const both = [begin(t, here), begin(t, here)]
  const said = await Promise.all(both.map((each) => next(each, 'started', 'held')))
  t.same(said.map(({ event }) => event).sort(), ['held', 'started'])
  const first = both[said.findIndex(({ event }) => event === 'started')]!
  const second = both[said.findIndex(({ event }) => event === 'held')]!
  t.match(
    said.find(({ event }) => event === 'held'),
    { pid: first.child.pid, host: hostname() },
  )

  await next(first, 'accepted')
  second.child.stdin!.write('again\n')
  t.equal((await next(second, 'held', 'started')).event, 'held', 'as long as the first one lives')
  first.child.kill('SIGKILL')
  await first.exited
  second.child.stdin!.write('again\n')
  await next(second, 'started')
  t.same(await heard(second.lines), undisturbed)
  t.same(await second.exited, [0, null])
})

t.test('a process whose log is taken while it runs leaves its runs to the next one', async (t) => {
  const depot = await depotOf(t)
  const undisturbed = await live(t, depot(), undefined)
  const here = depot()
  const first = begin(t, here, { DEPOT_ANSWERS: 'no' })
  await next(first, 'question')
  const owner = { token: 'another', incarnation: 41, pid: 1, host: 'elsewhere' }
  writeFileSync(join(here.folder, 'log', 'owner'), JSON.stringify(owner))
  const { results, closed } = await heard(first.lines)
  t.same([closed, await first.exited], [true, [0, null]])
  t.match(results.get('day-0'), { success: false, error: /process 1 on elsewhere/ }, 'it says who has taken it')
  t.same(await live(t, here, undefined), undisturbed)
})

const script: Script = async (desk) => (await desk.request('bob', 'ask really')).content

/** A team that waits for a log, and what resolves when it has said so. */
function waiter(t: Test, path: string, waitForLogMs: number) {
  let told = (_fields: object) => {}
  const waits = new Promise<object>((resolve) => {
    told = resolve
  })
  const info = (fields: object, text: string) => {
    if (text.startsWith('another process has the durable log')) told(fields)
  }
  const none = () => {}
  const logger = { debug: none, info, warn: none, error: none }
  return { team: deskOf(t, path, script, { stateManagement: { path, waitForLogMs }, logger }), waits }
}

t.test('with waitForLogMs a start waits for the process that has the log, and goes on with its runs', async (t) => {
  const path = join(folderOf(t), 'log')
  const old = deskOf(t, path, script)
  await old.start()
  const { team, waits } = waiter(t, path, 600_000)
  let isOver = false
  const early = team.launch('go', { runId: 'one' }) // before the log is its own
  const started = team.start().then(() => {
    isOver = true
  })
  t.match(await waits, { pid: process.pid, host: hostname(), waitForLogMs: 600_000 }, 'it says for whom it waits')
  const { questionId } = await firstOf(old.launch('go', { runId: 'one' }).events(), 'question')
  t.notOk(isOver, 'as long as the other one has the log')
  await old.close()
  await started
  await team.getRun('one')!.answer(questionId, 'yes')
  t.match(await early.result, { success: true, finalOutput: 'yes' }, 'what was launched meanwhile joins the same run')
})

t.test('a start that has waited in vain says who has the log, and can be tried again', async (t) => {
  const path = join(folderOf(t), 'log')
  const old = deskOf(t, path, script)
  await old.start()
  const { team } = waiter(t, path, 1)
  await t.rejects(team.start(), { code: 'LOG_HELD', details: { pid: process.pid } })
  await old.close()
  await team.start()
})

t.test('a team that is closed while it waits for the log waits no more', async (t) => {
  const path = join(folderOf(t), 'log')
  await deskOf(t, path, script).start()
  const { team, waits } = waiter(t, path, 600_000)
  const started = team.start()
  const refused = t.rejects(started, { code: 'TEAM_CLOSED' })
  await waits
  await team.close()
  await refused
})
