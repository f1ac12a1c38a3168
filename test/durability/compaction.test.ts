/** A log stays bounded, and what it forgets is only what nobody needs. */
import { statSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import t from 'tap'
import { createTeam, type MultiAgentPatternOptions, type RuntimeEvent, type StateManagement } from '../../src/index.ts'
import { RecoveredLog } from '../../src/runtime/durability/recovered-log.ts'
import { FileStore } from '../../src/runtime/store/file-store.ts'
import { readLog } from '../../src/runtime/store/log-reader.ts'
import { pluck } from '../kit/lists.ts'
import { folderOf, segmentsOf } from './log-folders.ts'

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
const module = new URL('../fixtures/durability/desk-agent.js', import.meta.url)

type Script = Extract<MultiAgentPatternOptions['orchestration'], { strategy: 'custom'; run: unknown }>['run']

/** Runs that wait for a person, and short ones that let an agent remember something. */
const script: Script = async (desk, query) => {
  if (query !== 'wait') return (await desk.request('ann', `remember ${query} ${'.'.repeat(500)}`)).content
  const before = (await desk.request('bob', 'steps of')).content
  const said = (await desk.request('bob', 'ask really')).content
  return `${before} ${said} ${(await desk.request('ann', 'count')).content}`
}

function teamOf(t: Test, folder: string, keep: StateManagement['keep'], segmentBytes = 16_384) {
  process.env.DESK_EFFECTS = join(folder, 'effects')
  const store = new FileStore(join(folder, 'log'), { segmentBytes })
  const team = createTeam({
    agents: ['ann', 'bob'].map((name) => ({ name, module, env: ['DESK_EFFECTS'] })),
    stateManagement: { store, ...(keep && { keep }) },
    logger: silent,
    orchestration: { strategy: 'custom', name: 'a desk', run: script },
  })
  t.teardown(() => team.close())
  return { team, store }
}

async function questionOf(events: AsyncIterable<RuntimeEvent<unknown>>): Promise<string> {
  for await (const event of events) if (event.type === 'question') return event.questionId
  throw new Error('no question came')
}

const RUNS = 200

/** Has many short runs beside an open one, and returns how large the log has been at most. */
async function lived(t: Test, folder: string, keep: StateManagement['keep']) {
  const { team, store } = teamOf(t, folder, keep)
  await questionOf(team.launch('wait', { runId: 'open' }).events())
  let largest = 0
  for (let n = 0; n < RUNS; n++) {
    await team.execute(`run ${n}`, { runId: `short ${n}` })
    largest = Math.max(largest, store.bytes)
  }
  await team.close()
  return largest
}

async function ended(t: Test, folder: string, keep: StateManagement['keep']) {
  const { team } = teamOf(t, folder, keep)
  await team.start()
  const open = team.getRun('open')!
  await open.answer(await questionOf(open.events()), 'yes')
  const { finalOutput, messageHistory, orchestrationTrace, taskCompletion } = await open.result
  const lives = orchestrationTrace.events
    .filter(({ eventType }) => eventType === 'agent.ready')
    .map(({ agent }) => agent)
  const last = await team.execute(`run ${RUNS - 1}`, { runId: `short ${RUNS - 1}` })
  const runs = await team.listRuns()
  await team.close()
  return {
    open: {
      finalOutput,
      said: messageHistory.map(({ content }) => content),
      tasks: Object.values(taskCompletion),
      lives: lives.sort(),
    },
    last: { output: last.finalOutput, said: last.messageHistory.map(({ content }) => content) },
    runs: runs.map(({ id }) => id),
  }
}

t.test('a log of many short runs stays bounded, and all that lives is the same as if it had grown', async (t) => {
  const [small, large] = [folderOf(t), folderOf(t)]
  const bounded = await lived(t, small, { runs: 10 })
  const grown = await lived(t, large, { runs: 1_000 })
  // It is compacted in the background: on a busy machine it grows a little further meanwhile.
  t.ok(bounded < 350_000 && bounded < grown / 2, `${bounded} bytes at most, in place of ${grown}`)
  const [compacted, whole] = [await ended(t, small, { runs: 10 }), await ended(t, large, { runs: 1_000 })]
  t.same(compacted.open, whole.open)
  t.same(compacted.last, whole.last)
  t.same(compacted.open.lives, ['$orchestrator', '$orchestrator', 'ann', 'ann', 'bob', 'bob'], 'of both processes')
  t.equal(whole.runs.length, RUNS + 1)
  t.ok(compacted.runs.length < 60, `${compacted.runs.length} runs are known`)
  for (const name of segmentsOf(join(small, 'log')))
    t.equal(statSync(join(small, 'log', name)).mode & 0o077, 0, 'the files are for their owner alone')
})

t.test('a run that ended long ago is joined, and never run a second time', async (t) => {
  const folder = folderOf(t)
  await lived(t, folder, { runs: 1_000 })
  const { team } = teamOf(t, folder, { runs: 1_000 })
  const early = team.launch('run 3', { runId: 'short 3' }) // before the log is read
  t.match(await early.result, { success: true, finalOutput: /remember run 3/ })
  const [one, two] = [team.launch('run 7', { runId: 'short 7' }), team.launch('run 7', { runId: 'short 7' })]
  t.equal(one, two)
  t.equal(one.status, 'finished')
  const { finalOutput, messageHistory } = await one.result
  t.match([finalOutput, messageHistory[0]?.content], [/remember run 7/, 'run 7'])
  t.throws(() => team.launch('another', { runId: 'short 8' }), { code: 'CONFIGURATION', details: { path: 'runId' } })
  const clash = teamOf(t, folder, undefined).team
  const found = team.getRun('short 9')!
  t.equal(found.query, 'run 9')
  const types: string[] = []
  for await (const { type } of found.events()) types.push(type)
  t.equal(types.at(-1), 'run.finished')
  t.match(await team.getAgent('ann')!.run('count'), new RegExp(`^${RUNS}: `), 'none of them ran again')
  t.equal(team.getRun('never'), undefined)
  await team.close()
  const wrong = clash.launch('another', { runId: 'short 8' }) // before the log is read
  await t.rejects(wrong.result, { code: 'CONFIGURATION', details: { path: 'runId' } })
})

t.test('the run that ended first is the first that a log forgets, also after a restart', async (t) => {
  const folder = folderOf(t)
  const { team } = teamOf(t, folder, undefined)
  const late = team.launch('wait', { runId: 'launched first' })
  const question = await questionOf(late.events())
  await team.execute('once', { runId: 'ended first' })
  await late.answer(question, 'yes')
  await late.result
  await team.close()
  const { index } = await RecoveredLog.from(() => readLog(join(folder, 'log')))
  const expired = [...index.expired({ runs: 1, days: 30, bytes: 2 ** 30 }, Date.now())]
  t.strictSame(pluck(expired, 'id'), ['ended first'])
})
