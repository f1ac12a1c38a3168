/** The past of a run at each moment: for programs, on the command line, and in random programs with faults. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import {
  type OrchestrationTrace,
  type RunMoment,
  type RunReplay,
  type RunView,
  sequenceDiagram,
} from '../../src/index.ts'
import { idOf } from '../../src/mailbox/frame.ts'
import { RunState } from '../../src/runtime/host/run.ts'
import type { HostRecord } from '../../src/runtime/log/records.ts'
import type { Supervisor } from '../../src/runtime/supervision/host.ts'
import { recordedRuns } from '../../src/runtime/views/recorded-runs.ts'
import { pastInMemory } from '../../src/runtime/views/run-replay.ts'
import { main } from '../../src/service/commands/program.ts'
import { scriptedModel } from '../../src/testing.ts'
import { deskOf, first, type Script } from '../durability/desk-team.ts'
import { encoded } from '../durability/log-entries.ts'
import { folderOf } from '../durability/log-folders.ts'
import { howMany } from '../how-many.ts'
import { pluck } from '../kit/lists.ts'
import { fakeSurroundings } from '../service/fake-team.ts'
import { simulate, type Watch } from '../simulation/simulation.ts'

// `team.replay`: the state of a run at each moment of its past, from a durable log and from memory.

const script: Script = async (desk) => {
  await desk.request('ann', 'publish plan')
  return (await desk.request('bob', 'ask really')).content
}

/** Plays a run to its end, and gives the number of the event at which it asked a person. */
async function played(team: ReturnType<typeof deskOf>) {
  const run = team.launch('go', { runId: 'one' })
  const asked = await first(run.events(), 'question')
  await run.answer(asked.questionId, 'yes')
  await run.result
  return asked
}

/** Checks what the run was when it asked a person, and at its end. */
function checkPast(t: Test, past: RunReplay, asked: { seq: number }) {
  t.equal(past.length, past.seqs.length)
  t.ok(past.moments.some(({ seq, sentence }) => seq <= asked.seq && sentence === 'bob asks a person: "really?"'))
  const then = past.at(asked.seq)
  t.match(
    then.agents.find(({ agent }) => agent === 'bob'),
    { status: 'waiting' },
  )
  t.match(
    then.mailboxes.find(({ agent }) => agent === 'bob'),
    { messages: [{ type: 'request', from: '$orchestrator', content: 'ask really', attempt: 1 }] },
  )
  t.same(then.waits, [
    { agent: '$user', for: ['$orchestrator'], kind: 'request' },
    { agent: '$orchestrator', for: ['bob'], kind: 'request' },
    { agent: 'bob', for: [], kind: 'ask' },
  ])
  t.same(then.board, { plan: { by: 'ann' } })
  t.match(then.tasks, [
    { assignedTo: 'ann', description: 'publish plan', status: 'completed', result: 'version 1' },
    { assignedTo: 'bob', description: 'ask really', status: /assigned|in_progress/ },
  ])
  const end = past.at(Number.POSITIVE_INFINITY)
  t.same([end.mailboxes, end.waits], [[], []])
  t.same(past.at(past.seqs.at(-1)!), end)
  t.same(pluck(end.tasks, 'status'), ['completed', 'completed'])
  t.same(past.at(asked.seq), then, 'a step back shows the same')
  const begin = past.at(-1)
  t.same([begin.mailboxes, begin.waits, begin.board, begin.tasks], [[], [], {}, []])
}

t.test('a run in memory has its past', async (t) => {
  const team = deskOf(t, undefined, script)
  await team.start()
  const asked = await played(team)
  checkPast(t, await team.replay('one'), asked)
})

t.test('a run of a durable log has its past, also after close, and in a later process', async (t) => {
  const path = join(folderOf(t), 'log')
  const team = deskOf(t, path, script)
  await team.start()
  const asked = await played(team)
  checkPast(t, await team.replay('one'), asked)
  await team.close()
  checkPast(t, await team.replay('one'), asked)
  checkPast(t, await deskOf(t, path, script).replay('one'), asked)
})

t.test('a past that was taken while the run went on ends there', async (t) => {
  const team = deskOf(t, join(folderOf(t), 'log'), script)
  const run = team.launch('go', { runId: 'one' })
  const { questionId } = await first(run.events(), 'question')
  const past = await team.replay('one')
  await run.answer(questionId, 'yes')
  await run.result
  t.ok(past.at(Number.POSITIVE_INFINITY).waits.some(({ kind }) => kind === 'ask'))
  t.ok((await team.replay('one')).length > past.length)
})

t.test('a message says that a turn has it, and no longer when that turn has died', async (t) => {
  const path = join(folderOf(t), 'log')
  const before = deskOf(t, path, script)
  const { questionId } = await first(before.launch('go', { runId: 'one' }).events(), 'question')
  await before.close()
  const after = deskOf(t, path, script)
  await after.start()
  const run = after.getRun('one')!
  await run.answer(questionId, 'yes')
  await run.result
  const past = await after.replay('one')
  const states = past.seqs.map((seq) => inTurnOf(past, seq)).filter((state, i, all) => state !== all[i - 1])
  t.same(states, ['no 1', '1', 'no 1', '2', undefined])
})

/** Says which attempt of a turn has the message of bob. */
function inTurnOf(past: RunReplay, seq: number): string | undefined {
  const message = past.at(seq).mailboxes.find(({ agent }) => agent === 'bob')?.messages[0]
  return message && `${message.inTurn ? '' : 'no '}${message.attempt}`
}

t.test('the blackboard of a team has what earlier runs wrote', async (t) => {
  const path = join(folderOf(t), 'log')
  const writes: Script = async (desk, query) => (await desk.request('ann', `publish ${query}`)).content
  const team = deskOf(t, path, writes, { enableBlackboard: { scope: 'team' } })
  await team.execute('first', { runId: 'one' })
  await team.execute('second', { runId: 'two' })
  const past = await team.replay('two')
  t.same(Object.keys(past.at(-1).board), ['first'])
  t.same(Object.keys(past.at(Number.POSITIVE_INFINITY).board), ['first', 'second'])
})

t.test('the keys of a team are not in the past of its runs', async (t) => {
  const models = { default: { model: 'gpt-4o', baseURL: 'http://127.0.0.1:9/v1', apiKey: 'key-that-nobody-may-see' } }
  const team = deskOf(t, undefined, async (desk, query) => (await desk.request('ann', `publish ${query}`)).content, {
    models,
  })
  await team.execute('key-that-nobody-may-see', { runId: 'one' })
  const past = await team.replay('one')
  const all = JSON.stringify(past.seqs.map((seq) => past.at(seq)))
  t.match(all, '[redacted]')
  t.notMatch(all, 'nobody-may-see')
})

t.test('a run that is not known, or no longer whole, has no past', async (t) => {
  const team = deskOf(t, join(folderOf(t), 'log'), script)
  await t.rejects(team.replay('one'), { code: 'UNKNOWN_RUN', details: { runId: 'one' } })
  await played(team)
  await t.rejects(team.replay('two'), { code: 'UNKNOWN_RUN' })
  const past = await team.replay('one')
  t.throws(() => past.at(Number.NaN), { code: 'CONFIGURATION', details: { path: 'seq' } })

  const run = new RunState(1, 'long', 'go', 0)
  for (let seq = 0; seq < 80; seq += 8) run.log.append({ kind: 'run.aborted', seq, at: 0, run: 1, reason: 'x' })
  run.log.trim(1_000)
  const names = { name: () => '', runId: () => 'long' }
  t.throws(() => pastInMemory(run, { names, indexOf: () => undefined }), {
    code: 'UNKNOWN_RUN',
    message: /oldest \d+ entries of run "long" are no longer in memory.*stateManagement/,
  })
})

// `dramatis replay`: the moments of a run, and its state at one of them, from its log.

t.test('without --at it lists what happened, with numbers and times, in order', async (t) => {
  const path = join(folderOf(t), 'log')
  await answered(t, path)
  const { code, stdout } = await replayed('one', '--log', path)
  t.equal(code, 0)
  const lines = stdout.trimEnd().split('\n')
  for (const line of lines) t.match(line, /^ *\d+ {2}\d{4}-\d\d-\d\dT[\d:.]+Z {2}\S/)
  const sentences = lines.map((line) => line.slice(line.indexOf('Z  ') + 3))
  t.ok(
    inOrder(sentences, [
      'the run starts: "go"',
      '$orchestrator sends ann a request: "publish plan"',
      'ann writes "plan" on the blackboard, version 1',
      'ann answers $orchestrator: "version 1"',
      'bob asks a person: "really?"',
      'a person answers bob: "yes"',
      'bob answers $orchestrator: "yes"',
      'the run is finished',
    ]),
    stdout,
  )
  const moments: RunMoment[] = JSON.parse((await replayed('one', '--log', path, '--json')).stdout)
  t.same(pluck(moments, 'sentence'), sentences)
  t.same(
    pluck(moments, 'seq'),
    [...moments.map(({ seq }) => seq)].sort((a, b) => a - b),
  )
})

t.test('--at prints the state at a moment, and the numbers of those beside it', async (t) => {
  const path = join(folderOf(t), 'log')
  const team = await answered(t, path)
  const moments: RunMoment[] = JSON.parse((await replayed('one', '--log', path, '--json')).stdout)
  const index = moments.findIndex(({ sentence }) => sentence.startsWith('bob asks a person'))
  const [before, asked, after] = moments.slice(index - 1, index + 2)
  const { stdout } = await replayed('one', '--log', path, '--at', String(asked!.seq))
  t.match(stdout, /bob asks a person: "really\?"\n\nagents\n/)
  t.match(stdout, /\n {2}bob: waiting\n/)
  t.match(stdout, /\n {2}bob has a request of \$orchestrator \(in a turn\): ask really\n/)
  t.match(stdout, /\n {2}bob waits \(ask\)\n/)
  t.match(stdout, /\nboard\n {2}plan: {"by":"ann"}\n/)
  t.match(stdout, /\n {2}completed, ann: publish plan\n/)
  t.ok(stdout.endsWith(`\nprevious: ${before!.seq}  next: ${after!.seq}\n`), stdout)

  const state = JSON.parse((await replayed('one', '--log', path, '--at', String(asked!.seq), '--json')).stdout)
  const { moment, previous, next, ...view } = state
  t.same([moment, previous, next], [asked, before!.seq, after!.seq])
  t.same(view, plain((await team.replay('one')).at(asked!.seq)))
})

t.test('--at end is the last moment, and 0 is before the first', async (t) => {
  const path = join(folderOf(t), 'log')
  await answered(t, path)
  const end = await replayed('one', '--log', path, '--at', 'end')
  t.match(end.stdout, /the run is finished\n[\s\S]*mailboxes: none\n\nwaits: none\n/)
  t.match(end.stdout, /\nprevious: \d+\n$/)
  const begin = await replayed('one', '--log', path, '--at', '0')
  t.match(begin.stdout, /^before the first moment\n[\s\S]*tasks: none\n\nnext: \d+\n$/)
  t.match(JSON.parse((await replayed('one', '--log', path, '--at', '0', '--json')).stdout), {
    moment: null,
    previous: null,
    tasks: [],
  })
  t.match(await replayed('one', '--log', path, '--at', 'soon'), { code: 2, stderr: /number of the list.*or "end"/ })
})

t.test('a run that is open has a past, and its team is not disturbed', async (t) => {
  const path = join(folderOf(t), 'log')
  const team = deskOf(t, path, script)
  const run = team.launch('go', { runId: 'one' })
  const { questionId } = await first(run.events(), 'question')
  await team.flush()
  const files = readdirSync(path)
  const { code, stdout } = await replayed('one', '--log', path, '--at', 'end')
  t.equal(code, 0)
  t.match(stdout, /\n {2}bob waits \(ask\)\n/)
  t.same(readdirSync(path), files)
  await run.answer(questionId, 'yes')
  t.match(await run.result, { finalOutput: 'yes' })
})

t.test('steps, models, tasks, sync points and handoffs are told in words', async (t) => {
  const path = join(folderOf(t), 'log')
  const many: Script = async (desk) => {
    for (const task of ['steps page', 'think hello', 'give', 'pass']) await desk.request('ann', task)
    await Promise.all(['ann', 'bob'].map((agent) => desk.request(agent, 'meet')))
    return 'done'
  }
  const model = scriptedModel([{ reply: 'good day' }])
  const team = deskOf(t, path, many, {
    models: { default: model },
    syncPoints: [{ name: 'noon', requiredAgents: ['ann', 'bob'], timeoutMs: 60_000 }],
  })
  t.match(await team.execute('go', { runId: 'one' }), { success: true })
  await team.close()
  const { stdout } = await replayed('one', '--log', path)
  for (const sentence of [
    'ann begins the step "page-0"',
    'the step "page-0" of ann is done',
    'ann calls model',
    /the model \S+ has answered ann, for \d+ tokens/,
    'ann sends bob a delegate: "steps given"',
    'a task of bob is completed: "steps given"',
    'handoff from ann to bob: handed_off',
    /sync point noon: .* met/,
  ])
    t.match(stdout, sentence)
})

t.test('a run that failed shows why', async (t) => {
  const path = join(folderOf(t), 'log')
  const fails: Script = async (desk) => {
    await desk.request('ann', 'publish plan')
    throw new Error('the plan is bad')
  }
  const team = deskOf(t, path, fails)
  await team.execute('go', { runId: 'one' })
  await team.close()
  const { stdout } = await replayed('one', '--log', path)
  t.match(stdout, /\$orchestrator fails for \$user: ".*the plan is bad/)
  t.match(stdout, /the run fails: ".*the plan is bad/)
})

t.test(
  'what agents say stays on its line, and secrets of the environment are not printed, not even in part',
  async (t) => {
    const path = join(folderOf(t), 'log')
    const secret = 's3cr3t-s3cr3t-s3cr3t'
    const query = `${'x'.repeat(112)}${secret} \n\u001b[2Jforged`
    const team = deskOf(t, path, async () => 'done')
    await team.execute(query, { runId: 'one' })
    await team.close()
    process.env.DESK_PASSWORD = secret
    t.teardown(() => delete process.env.DESK_PASSWORD)
    for (const more of [[], ['--at', 'end'], ['--json']]) {
      const { stdout } = await replayed('one', '--log', path, ...more)
      t.notMatch(stdout, 's3cr3t')
      t.notMatch(stdout, '\u001b')
      t.notMatch(stdout, /^forged/m)
    }
  },
)

t.test('an unknown run is refused with the ids that are near, and a damaged log with its place', async (t) => {
  const path = join(folderOf(t), 'log')
  await answered(t, path)
  t.match(await replayed('on', '--log', path), { code: 2, stdout: '', stderr: /UNKNOWN_RUN.*Did you mean "one"\?/ })
  t.match(await replayed('one'), { code: 2, stderr: /required option '--log <folder or url>'/ })
  const file = join(path, readdirSync(path).find((name) => name.endsWith('.log'))!)
  const bytes = readFileSync(file)
  bytes.fill(0xff, 8, 16) // in the header of the segment
  writeFileSync(file, bytes)
  t.match(await replayed('one', '--log', path), { code: 1, stdout: '', stderr: /LOG_CORRUPT/ })
})

/** A run that asks a person, and has ended. */
async function answered(t: Parameters<typeof deskOf>[0], path: string) {
  const team = deskOf(t, path, script)
  const run = team.launch('go', { runId: 'one' })
  await run.answer((await first(run.events(), 'question')).questionId, 'yes')
  await run.result
  await team.close()
  return team
}

/** Whether the texts occur in that order. */
function inOrder(all: readonly string[], texts: readonly string[]): boolean {
  let at = -1
  return texts.every((text) => {
    at = all.indexOf(text, at + 1)
    return at >= 0
  })
}

const plain = (view: RunView): unknown => JSON.parse(JSON.stringify(view))

async function replayed(...args: string[]) {
  const { surroundings, stdout, stderr } = fakeSurroundings()
  const code = await main(['replay', ...args], surroundings)
  return { code, stdout: stdout(), stderr: stderr() }
}

// Runs that a reader finds in a log which its team keeps bounded.

t.test('what is left of a forgotten run is no run that goes on, also if its id was used again before', async (t) => {
  const launched = (run: number, id: string, seq: number): HostRecord => {
    const options = { metadata: {}, models: {}, timeoutMs: 1, priority: 0, target: 1, own: false }
    return { kind: 'run.launched', run, seq, at: 1, id, query: `query ${run}`, startedAt: 1, ...options }
  }
  const entries: HostRecord[] = [
    launched(1, 'again', 1),
    launched(2, 'once', 9), // the ends of both were given up with another part of the log
    launched(3, 'again', 17),
    { kind: 'runs.gone', run: 0, seq: 25, at: 1, runs: [1, 2] },
  ]
  const block = { firstSeq: 1, lastSeq: 32, carried: false, runs: [0, 1, 2, 3], entries: encoded(entries) }
  const { ids, runs, statuses } = await recordedRuns(async function* () {
    yield { ...block, position: 0, incarnation: 1 }
  })
  t.same(ids, ['again'])
  t.same(
    runs.map(({ launched: { query } }) => query),
    ['query 3'],
  )
  t.same(statuses, new Map([['again', 'unfinished']]))
})

// `dramatis trace`: what happened in a run, from its log.

const traceCommandScript: Script = async (desk, query) => {
  await desk.request('ann', `steps ${query}`)
  return (await desk.request('bob', 'ask really')).content
}

t.test('the trace of a run that has ended is the one that its result had', async (t) => {
  const path = join(folderOf(t), 'log')
  const team = deskOf(t, path, traceCommandScript)
  await team.start()
  const runs = [team.launch('one', { runId: 'report-1' }), team.launch('two', { runId: 'report-2' })]
  for (const run of runs) await run.answer((await first(run.events(), 'question')).questionId, 'yes')
  const [, { orchestrationTrace }] = await Promise.all([runs[0]!.result, runs[1]!.result])
  await team.close()
  const { code, stdout } = await traced('report-2', '--log', path, '--json')
  t.equal(code, 0)
  t.same(JSON.parse(stdout), JSON.parse(JSON.stringify(orchestrationTrace)))
  t.equal((await traced('report-2', '--log', path)).stdout, sequenceDiagram(orchestrationTrace))
})

t.test('a run that goes on has a trace, and its team keeps the log', async (t) => {
  const path = join(folderOf(t), 'log')
  const team = deskOf(t, path, traceCommandScript)
  const run = team.launch('one', { runId: 'report-1' })
  const { questionId } = await first(run.events(), 'question')
  await team.flush()
  const before = readdirSync(path)
  const { stdout } = await traced('report-1', '--log', path, '--json')
  const trace: OrchestrationTrace = JSON.parse(stdout)
  t.match(trace.events.at(-1), { eventType: 'question', details: { questionId } })
  t.same(readdirSync(path), before)
  await run.answer(questionId, 'yes')
  t.match(await run.result, { success: true, finalOutput: 'yes' })
})

t.test('a run that was interrupted, and goes on in a later process, has one trace', async (t) => {
  const path = join(folderOf(t), 'log')
  const before = deskOf(t, path, traceCommandScript)
  await first(before.launch('one', { runId: 'report-1' }).events(), 'question')
  await before.close()
  const interrupted: OrchestrationTrace = JSON.parse((await traced('report-1', '--log', path, '--json')).stdout)
  t.notOk(interrupted.events.some(({ eventType }) => eventType === 'run.finished'))

  const after = deskOf(t, path, traceCommandScript)
  await after.start()
  const run = after.getRun('report-1')!
  await run.answer((await first(run.events(), 'question')).questionId, 'yes')
  await run.result
  await after.close()
  const whole: OrchestrationTrace = JSON.parse((await traced('report-1', '--log', path, '--json')).stdout)
  t.same(whole.messageFlow.slice(0, interrupted.messageFlow.length), interrupted.messageFlow)
  t.ok(whole.events.some(({ eventType }) => eventType === 'step.finished'))
  t.equal(whole.events.filter(({ eventType }) => eventType === 'run.finished').length, 1)
})

t.test('an unknown run is refused with the ids that are near', async (t) => {
  const path = join(folderOf(t), 'log')
  const team = deskOf(t, path, async () => 'done')
  for (const runId of ['report-7', 'summary']) await team.execute('go', { runId })
  await team.close()
  t.match(await traced('reprot-7', '--log', path), {
    code: 2,
    stdout: '',
    stderr: /UNKNOWN_RUN.*Did you mean "report-7"\?/,
  })
  t.match(await traced('x', '--log', path), { code: 2, stderr: /Its last runs are "report-7", "summary"/ })
})

t.test('a folder without a log is refused', async (t) => {
  const folder = folderOf(t)
  mkdirSync(join(folder, 'empty'))
  t.match(await traced('x', '--log', join(folder, 'empty')), { code: 2, stderr: /is no log.*stateManagement\.path/ })
  t.match(await traced('x', '--log', join(folder, 'none')), { code: 2, stderr: /cannot be read.*ENOENT/ })
  t.match(await traced('x'), { code: 2, stderr: /required option '--log <folder or url>'/ })
})

t.test('secrets of the environment are not printed', async (t) => {
  const path = join(folderOf(t), 'log')
  const team = deskOf(t, path, async (_desk, query) => `never say ${query}`)
  await team.execute('s3cr3t-s3cr3t', { runId: 'one' })
  await team.close()
  process.env.DESK_PASSWORD = 's3cr3t-s3cr3t'
  t.teardown(() => delete process.env.DESK_PASSWORD)
  const { stdout } = await traced('one', '--log', path, '--json')
  t.match(stdout, '[redacted]')
  t.notMatch(stdout, 's3cr3t')
})

async function traced(...args: string[]) {
  const { surroundings, stdout, stderr } = fakeSurroundings()
  const code = await main(['trace', ...args], surroundings)
  return { code, stdout: stdout(), stderr: stderr() }
}

// The past of a run is compared with what its team was while it ran, moment by moment, in random programs with
// faults.

const SEEDS = howMany(1, 500)

/** What a run has at one moment, in a form that can be compared. */
interface Moment {
  readonly seq: number
  readonly runId: string
  readonly messages: readonly string[]
  readonly waits: readonly string[]
  readonly tasks: string
  readonly board: string
}

/** Notes the state of each run after each batch of records. */
const compared: (seen: { moments: number; messages: number; waits: number; tasks: number }) => Watch =
  (seen) => (team) => {
    const { host } = team
    const moments: Moment[] = []
    host.journal.records$.subscribe(() => {
      if (host.journal.hasNews) return // what readers log about it comes next
      for (const run of host.runs.values()) moments.push(momentOf(host, run))
    })
    return async () => {
      const problems: string[] = []
      for (const { id } of host.runs.values()) {
        const past = await team.replay(id)
        for (const moment of moments) {
          if (moment.runId !== id) continue
          const { mailboxes, waits, tasks, board } = past.at(moment.seq)
          const found: Moment = {
            seq: moment.seq,
            runId: id,
            messages: mailboxes.flatMap(({ agent, messages }) => messages.map((each) => `${agent} ${each.id}`)).sort(),
            waits: waits.map(({ agent }) => agent).sort(),
            tasks: JSON.stringify(tasks),
            board: JSON.stringify(board),
          }
          seen.moments += 1
          seen.messages += found.messages.length
          seen.waits += found.waits.length
          seen.tasks += tasks.length
          if (JSON.stringify(found) !== JSON.stringify(moment))
            problems.push(`${differences(found, moment)} at ${moment.seq} of ${id}`)
        }
      }
      return problems
    }
  }

/** Names what the past says and what was, where they differ. */
function differences(found: Moment, moment: Moment): string {
  const fields = (['messages', 'waits', 'tasks', 'board'] as const).filter(
    (field) => JSON.stringify(found[field]) !== JSON.stringify(moment[field]),
  )
  return fields.map((field) => `${field}: ${found[field]} instead of ${moment[field]}`).join('; ')
}

function momentOf(host: Supervisor, run: RunState): Moment {
  const messages: string[] = []
  const waits: string[] = []
  for (const agent of host.directory.byIndex) {
    const { name, mailbox, instances, open, calls } = agent
    const handed = instances.flatMap((each) => [...each.mailbox.handed.all()])
    for (const { memory, at, run: of } of [...mailbox.queued(), ...mailbox.pending, ...handed])
      if (of === run) messages.push(`${name} ${idOf(memory, at)}`)
    for (const { envelope } of open.values()) if (envelope.run === run) waits.push(name)
    for (const { turn } of calls.values()) if (agent.messageOf(turn)?.run === run) waits.push(name)
  }
  for (const { callee, envelope } of host.blocked.all)
    if (envelope.run === run) messages.push(`${callee.name} ${idOf(envelope.memory, envelope.at)}`)
  return {
    seq: host.journal.seq - 1,
    runId: run.id,
    messages: messages.sort(),
    waits: waits.sort(),
    tasks: JSON.stringify([...run.tasks.values()]),
    board: JSON.stringify(run.board?.snapshot() ?? {}),
  }
}

for (const mode of ['orderly', 'talkative', 'entangled'] as const)
  t.test(`the past of each run of ${SEEDS} ${mode} programs is what its team was at each moment`, async (t) => {
    const seen = { moments: 0, messages: 0, waits: 0, tasks: 0 }
    for (let seed = 1; seed <= SEEDS; seed++) {
      const { problems } = await simulate(seed, mode, { watch: compared(seen) })
      t.same(problems.slice(0, 3), [], `seed ${seed}`)
    }
    for (const [what, count] of Object.entries(seen)) t.ok(count > SEEDS, `${count} ${what}`)
  })
