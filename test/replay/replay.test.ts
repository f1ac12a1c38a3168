/** `team.replay`: the state of a run at each moment of its past, from a durable log and from memory. */
import { join } from 'node:path'
import type { Test } from 'tap'
import t from 'tap'
import type { RunReplay } from '../../src/index.ts'
import { RunState } from '../../src/runtime/host/run.ts'
import { pastInMemory } from '../../src/runtime/views/run-replay.ts'
import { deskOf, first, type Script } from '../durability/desk-team.ts'
import { folderOf } from '../durability/log-folders.ts'
import { pluck } from '../kit/lists.ts'

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
