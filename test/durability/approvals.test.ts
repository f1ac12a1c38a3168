/** Approvals over restarts: who has agreed stays known, nothing is paid twice, and time passes while nobody runs. */

import type { Test } from 'tap'
import t from 'tap'
import { z } from 'zod'
import { type ApprovalPolicy, createTeam, defineTool } from '../../src/index.ts'
import { answerInLog, openQuestionsIn, recordedRuns } from '../../src/runtime/views/recorded-runs.ts'
import { silent } from '../kit/team.ts'
import { calls, FakeModel } from '../models/fake-model.ts'
import { entriesIn } from './log-entries.ts'
import { MemoryDisk, MemoryStore } from './memory-store.ts'

const DAY_MS = 86_400_000
const by = (id: string) => ({ by: { id, groups: ['finance'] } })
const edited = { approved: true, input: { cents: 1 } } as const

/** A desk that pays 500 cents if people agree. `paid`: cents by the key of the call, as a bank would have them. */
function teamOn(t: Test, disk: MemoryDisk, paid: Map<string, number>, policy: ApprovalPolicy = {}, withinMs = DAY_MS) {
  const pay = defineTool({
    name: 'pay',
    description: 'Pays.',
    input: z.object({ cents: z.number() }),
    approval: { groups: ['finance'], quorum: 2, ...policy },
    answerWithinMs: withinMs,
    idempotent: true,
    run: ({ cents }, { idempotencyKey }) => void paid.set(idempotencyKey, cents),
  })
  const model = new FakeModel(({ messages }) =>
    messages.some(({ role }) => role === 'tool') ? `done: ${messages.at(-1)!.content}` : calls(['pay', { cents: 500 }]),
  )
  const team = createTeam({
    agents: [{ name: 'ann', tools: [pay] }],
    orchestration: { strategy: 'sequential' },
    models: { default: Object.assign(model, { offline: true }) },
    stateManagement: { store: new MemoryStore(disk) },
    logger: silent,
  })
  t.teardown(() => team.close())
  return { team, model }
}

type Teams = ReturnType<typeof teamOn>['team']

async function asked(team: Teams) {
  await team.start()
  const run = team.getRun('one')!
  if (team.questions('one').length === 0)
    for await (const { type } of run.events({ types: ['question', 'run.finished'] }))
      if (type === 'run.finished' || team.questions('one').length > 0) break
  return team.questions('one')[0]
}

/** Has bob agree in one process and eve in the next; returns what that has left. */
async function whole(
  t: Test,
  answers: Parameters<Teams['answer']>[1][],
  paid: Map<string, number>,
): Promise<MemoryDisk> {
  const disk = new MemoryDisk()
  for (const [n, answer] of answers.entries()) {
    const { team } = teamOn(t, disk, paid)
    void team.execute('go', { runId: 'one', caller: 'joe' })
    const question = await asked(team)
    await team.answer(question!.questionId, answer, by(['bob', 'eve', 'kim'][n]!))
    if (n === answers.length - 1) t.match(await team.getRun('one')!.result, { success: true })
    await team.close()
  }
  return disk
}

/** Goes on from each block of a log, with whoever still has to agree, and returns what was paid in each. */
async function goneOn(t: Test, disk: MemoryDisk): Promise<{ paid: Map<string, number>; voters: string[] }[]> {
  const ends: { paid: Map<string, number>; voters: string[] }[] = []
  const launched = disk.blocks.findIndex(({ entries }) => Buffer.from(entries).includes('"run.launched"'))
  for (let length = launched + 1; length <= disk.blocks.length; length++) {
    const copy = Object.assign(new MemoryDisk(), { position: disk.position, incarnation: 3 })
    copy.blocks.push(...disk.blocks.slice(0, length))
    const paid = new Map<string, number>()
    const { team } = teamOn(t, copy, paid)
    void team.execute('go', { runId: 'one', caller: 'joe' })
    const voters: string[] = []
    for (let open = await asked(team); open; open = team.questions('one')[0]) {
      t.same(paid.size, 0)
      const next = ['bob', 'eve', 'kim'].find((id) => !open!.agreed!.some((each) => each.id === id))!
      voters.push(next)
      await team.answer(open.questionId, 'yes', { ...by(next), digest: open.digest! })
    }
    t.match(await team.getRun('one')!.result, { success: true }, `with ${length} blocks`)
    await team.close()
    ends.push({ paid, voters })
  }
  return ends
}

t.test('who has agreed in one process has agreed in the next, wherever it dies, and it is paid once', async (t) => {
  const bank = new Map<string, number>()
  const disk = await whole(t, ['yes', 'yes'], bank)
  t.equal(bank.size, 1)
  const votes = entriesIn(disk.blocks).filter(({ kind }) => kind === 'question.voted')
  t.match(votes, [{ by: 'bob' }, { by: 'eve' }])
  const voters = new Set<string>()
  for (const end of await goneOn(t, disk)) {
    if (end.voters.length < 2) for (const [key, cents] of end.paid) bank.set(key, cents)
    else t.equal(end.paid.size, 1, 'nothing was paid before')
    voters.add(end.voters.join())
  }
  t.same([...bank.values()], [500], 'under one key, whoever has called it again')
  t.same([...voters].sort(), ['', 'bob,eve', 'eve'])
})

t.test('a yes with another input voids the earlier one over restarts, too', async (t) => {
  const bank = new Map<string, number>()
  const disk = await whole(t, ['yes', edited, 'yes'], bank)
  t.same([...bank.values()], [1])
  const seen = new Set<string>()
  for (const { paid, voters } of await goneOn(t, disk)) seen.add(`${voters.join()} ${[...paid.values()].join()}`.trim())
  t.ok(seen.has('bob 1'), 'eve has agreed to her input, and bob not yet')
  t.ok(seen.has('eve 500'), 'before that, bob had agreed to the one of the agent')
  t.notOk(seen.has('kim 1'))
})

t.test('time goes on while no process runs, by the log and not by the options of today', async (t) => {
  const disk = new MemoryDisk()
  const paid = new Map<string, number>()
  const first = teamOn(t, disk, paid, {}, 200)
  void first.team.execute('go', { runId: 'one' })
  const question = await asked(first.team)
  await first.team.close()
  const [record] = entriesIn(disk.blocks).flatMap((entry) => (entry.kind === 'question' ? [entry] : []))
  t.equal(record?.answerBy, question?.answerBy)
  const later = teamOn(t, disk, paid, {}, DAY_MS)
  t.match(await later.team.execute('go', { runId: 'one' }), { finalOutput: /done: .*Nobody answered/ })
  t.equal(paid.size, 0)
})

t.test('votes can be put into a log that nobody has, by those who may', async (t) => {
  const disk = new MemoryDisk()
  const paid = new Map<string, number>()
  const first = teamOn(t, disk, paid)
  void first.team.execute('go', { runId: 'one', caller: 'joe' })
  const { questionId, digest } = (await asked(first.team))!
  await first.team.close()
  const say = async (answer: Parameters<typeof answerInLog>[2], who: Parameters<typeof answerInLog>[3]) => {
    const store = new MemoryStore(disk)
    return answerInLog(store, questionId, answer, who).finally(() => store.close())
  }
  const refusals: [id: string, groups: string[], message: RegExp][] = [
    ['joe', ['finance'], /^joe began this run and cannot approve it; finance may\.$/],
    ['cli:bob@here', [], /^cli:bob@here is in none of: finance\.$/],
  ]
  for (const [id, groups, message] of refusals)
    await t.rejects(say('yes', { by: { id, groups } }), { code: 'ANSWER_REFUSED', message })
  t.match(await say('yes', { ...by('bob'), digest: digest! }), { missing: 1 })
  await t.rejects(say('yes', by('bob')), { message: 'bob has agreed already; 1 more is needed.' })
  const { runs } = await recordedRuns(() => new MemoryStore(disk).read())
  t.match(openQuestionsIn(runs), [{ approval: { agreed: [{ id: 'bob' }], digest } }])
  t.match(await say(edited, by('eve')), { missing: 1 })
  await t.rejects(say('yes', { ...by('kim'), digest: digest! }), { message: /look again/ })
  t.match(await say('yes', by('bob')), { missing: 0 })
  const later = teamOn(t, disk, paid)
  t.match(await later.team.execute('go', { runId: 'one', caller: 'joe' }), { success: true })
  t.same([...paid.values()], [1])
})

t.test('an approval of an older log goes on, with the digest that its words give', async (t) => {
  const disk = new MemoryDisk()
  const paid = new Map<string, number>()
  const first = teamOn(t, disk, paid, { groups: undefined as never, quorum: 1 })
  void first.team.execute('go', { runId: 'one', caller: 'joe' })
  const { digest } = (await asked(first.team))!
  await first.team.close()
  const { team } = teamOn(t, disk, paid, { groups: undefined as never, quorum: 1 })
  const question = await asked(team)
  t.equal(question?.digest, digest)
  await team.answer(question!.questionId, 'yes')
  t.match(await team.getRun('one')!.result, { success: true })
  t.equal(paid.size, 1)
})
