/** Words to a run over a restart: they are read by the next process, and known when the run has ended long ago. */
import type { Test } from 'tap'
import t from 'tap'
import { createTeam, type Guardrail, ModelError, type MultiAgentPatternOptions, type Run } from '../../src/index.ts'
import { gate, silent } from '../kit/team.ts'
import { type Answer, FakeModel } from '../models/fake-model.ts'
import { MemoryDisk, MemoryStore } from './memory-store.ts'

function teamOn(t: Test, disk: MemoryDisk, model: FakeModel, options: Partial<MultiAgentPatternOptions> = {}) {
  const team = createTeam({
    agents: [{ name: 'ann' }],
    orchestration: { strategy: 'sequential' },
    models: { default: Object.assign(model, { offline: true }) },
    stateManagement: { store: new MemoryStore(disk) },
    logger: silent,
    ...options,
  })
  t.teardown(() => team.close())
  return team
}

t.test('what was said before a restart is read behind it, once', async (t) => {
  const disk = new MemoryDisk()
  const asked = gate()
  const never = new FakeModel(() => {
    asked.open()
    return new Promise(() => {})
  })
  const before = teamOn(t, disk, never)
  const run = before.launch('How long?', { runId: 'one' })
  await asked.opened
  const { at, settled } = await run.steer('In metres.', { id: 'a' })
  await Promise.all([t.rejects(settled, { message: /is interrupted/ }), before.close()])

  const model = new FakeModel(() => 'one metre')
  const after = teamOn(t, disk, model)
  await after.start()
  const goesOn = after.getRun('one')!
  t.equal((await goesOn.steer('In metres.', { id: 'a' })).at, at, 'they are known')
  t.match(await goesOn.result, { success: true, finalOutput: 'one metre' })
  t.equal(model.requests.length, 1)
  t.same(
    model.requests[0]!.messages.slice(1).map(({ content }) => content),
    ['How long?', 'In metres.'],
  )
  t.not(model.requests[0]!.idempotencyKey, never.requests[0]!.idempotencyKey, 'the prompt is another one')
  t.match(goesOn.steers, [{ id: 'a', readBy: ['ann'], settled: 'read' }])
  await after.close()

  const later = teamOn(t, disk, model)
  await later.start()
  const ended = later.getRun('one')!
  const receipt = await ended.steer('In metres.', { id: 'a' })
  t.equal(receipt.at, at)
  t.equal(await receipt.settled, 'read')
  await t.rejects(ended.steer('In feet.'), { code: 'RUN_ENDED' })
  t.equal(model.requests.length, 1)
})

/** What the agent says in the next process, what is checked there, the answer of the run, and what became of the words. */
const AGAIN: [what: string, next: Answer, checks: Guardrail<string>['check'], answer: string, settled: string][] = [
  ['an answer', '1 metre', () => {}, '1 metre', 'read'],
  ['a failure', [new ModelError('Broken.', { reason: 'auth' })], () => {}, '3 feet', 'unread'],
  ['a refusal', '1 metre', (text) => (text === '1 metre' ? { refuse: 'No.' } : undefined), '3 feet', 'unread'],
]

for (const [what, next, check, finalOutput, settled] of AGAIN)
  t.test(`an agent that is asked again for words is so in the next process, and in a later log: ${what}`, async (t) => {
    const disk = new MemoryDisk()
    const asked = gate()
    const never = new FakeModel((_request, nth) => {
      if (nth === 0) return '3 feet'
      asked.open()
      return new Promise(() => {})
    })
    let run: Run | undefined
    const said = async () => void (await run!.steer('In metres.', { id: 'a' }))
    const before = teamOn(t, disk, never, { guardrails: { output: [{ name: 'own', check: said }] } })
    run = before.launch('How long?', { runId: 'one' })
    await asked.opened
    await before.close()

    const model = new FakeModel(() => next)
    const after = teamOn(t, disk, model, { guardrails: { output: [{ name: 'own', check }] } })
    await after.start()
    const goesOn = after.getRun('one')!
    t.match(await goesOn.result, { success: true, finalOutput, speaker: 'ann' })
    t.equal(model.requests.length, 1)
    t.equal(model.requests[0]!.messages.at(-1)!.content, 'In metres.')
    const receipt = { id: 'a', readBy: settled === 'read' ? ['ann'] : [], settled }
    t.match(goesOn.steers, [receipt])
    await after.close()

    const later = teamOn(t, disk, model)
    await later.start()
    const ended = later.getRun('one')!
    t.match(await ended.result, { success: true, finalOutput, speaker: 'ann' })
    t.match(ended.steers, [receipt])
  })
