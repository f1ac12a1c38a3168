/** Who reads a run along that a later process goes on with gets no piece that the log lacks, and none twice without a mark. */

import type { Test } from 'tap'
import t from 'tap'
import { createTeam, type Run, type RuntimeEvent, type StreamPart } from '../../src/index.ts'
import type { ModelClient } from '../../src/models.ts'
import { MultiAgentPattern } from '../../src/team.ts'
import { gate, silent } from '../kit/team.ts'
import { anotherThread, type Durability, HeldStore } from './held-store.ts'
import { MemoryDisk, MemoryStore } from './memory-store.ts'

for (const durability of ['write_behind', 'commit'] as const)
  t.test(
    `with ${durability} pieces come when the log has them; a later process marks those of a call that it makes again`,
    async (t) => {
      const disk = new MemoryDisk()
      const store = new HeldStore(durability, disk)
      const next = gate()
      const said = gate()
      const before = teamOf(store, durability, async function* () {
        yield { text: 'Once ' }
        await next.opened
        yield { text: 'upon ' }
        said.open()
        await new Promise(() => {})
      })
      t.teardown(() => before.close())
      t.teardown(() => store.release())
      await before.start()
      const parts: StreamPart<unknown>[] = []
      const firstPart = gate()
      void readParts(before.launch('go', { runId: 'one' }), (part) => {
        parts.push(part)
        firstPart.open()
      })
      await firstPart.opened
      void store.hold()
      next.open()
      await said.opened
      await anotherThread()
      t.match(parts, [{ type: 'text', text: 'Once ' }], 'the log does not have the second piece')

      disk.owner = undefined // that process is dead: what it has not written will never be there
      const after = teamOf(new MemoryStore(disk), durability, async function* () {
        yield { text: 'Twice ' }
      })
      t.teardown(() => after.close())
      await after.start()
      const run = after.getRun('one')!
      const all: StreamPart<unknown>[] = []
      await readParts(run, (part) => all.push(part))
      t.match(
        all
          .slice(0, -1)
          .map(({ type, ...part }) => [type, 'text' in part ? part.text : 'reason' in part && part.reason]),
        [
          ['text', 'Once '],
          // It is written, and only its sync was held back.
          ...(durability === 'commit' ? [['text', 'upon ']] : []),
          ['superseded', 'retried'],
          ['text', 'Twice '],
        ],
      )
      const rest: StreamPart<unknown>[] = []
      await readParts(run, (part) => rest.push(part), parts[0]!.seq)
      t.same(rest, all.slice(1), 'who knows the first piece gets what follows it')
      t.match(await run.result, { success: true, finalOutput: 'Twice ' })
    },
  )

t.test('what happens to an agent while a run ends is read along, if a later process has it in the run', async (t) => {
  const disk = new MemoryDisk()
  const before = refusingTeam(t, new MemoryStore(disk))
  await before.start()
  const { directory, journal, runs } = before.host
  let isTold = false
  journal.records$.subscribe(() => {
    if (isTold || !runs.find('one')?.over) return
    isTold = true // a reader that the end of a run calls first, as that of crashes: the log does not have the end yet
    journal.record(undefined, { kind: 'agent.reloaded', ...directory.agent('ann')!.whose, epoch: 2 })
  })
  const along = await readFrom(before.launch('go', { runId: 'one' }))
  t.match(along.slice(-2), [{ type: 'agent.reloaded' }, { type: 'run.finished' }])
  await before.close()

  const after = refusingTeam(t, new MemoryStore(disk))
  await after.start()
  t.same((await readFrom(after.getRun('one')!)).map(placeOf), along.map(placeOf))
})

t.test(
  'who has read how a run ended for its caller, when its team was closed, goes on in a later process',
  async (t) => {
    const disk = new MemoryDisk()
    const team = () => {
      const made = createTeam({
        agents: [{ name: 'ann', systemPrompt: 'You are never asked.' }],
        orchestration: { strategy: 'custom', name: 'a question', run: (script) => script.ask('Really?') },
        models: { default: { offline: true, async *complete() {} } },
        stateManagement: { store: new MemoryStore(disk) },
        logger: silent,
      })
      t.teardown(() => made.close())
      return made
    }
    const before = team()
    const along: RuntimeEvent<unknown>[] = []
    let closing: Promise<void> | undefined
    for await (const event of before.launch('go', { runId: 'one' }).events()) {
      along.push(event)
      if (event.type === 'question') closing = before.flush().then(() => before.close())
    }
    await closing // the log is free when the threads have ended, which is after the last event
    const last = along.at(-1)!
    t.match(last, { type: 'run.finished', result: { error: { code: 'RUN_ABORTED' } } })

    const after = team()
    await after.start()
    const run = after.getRun('one')!
    const rest = readFrom(run, `${after.logName}.${last.seq}`)
    await run.answer(after.questions()[0]!.questionId, 'yes')
    const kept = along.filter(({ seq }) => seq < last.seq)
    t.same([...kept, ...(await rest)].map(placeOf), (await readFrom(run)).map(placeOf))
  },
)

/** A team whose script fails, with its supervisor in sight. */
function refusingTeam(t: Test, store: MemoryStore) {
  class Team extends MultiAgentPattern<string> {
    get host() {
      return this.supervisor
    }
  }
  const run = () => Promise.reject(new Error('refused'))
  const team = new Team({
    agents: [{ name: 'ann', systemPrompt: 'You are never asked.' }],
    orchestration: { strategy: 'custom', name: 'a refusal', run },
    models: { default: { offline: true, async *complete() {} } },
    stateManagement: { store },
    logger: silent,
  })
  t.teardown(() => team.close())
  return team
}

const placeOf = ({ seq, type }: RuntimeEvent<unknown>) => `${seq} ${type}`

/** A team of one role with a tool, which is played by that model. */
function teamOf(store: MemoryStore, durability: Durability, complete: ModelClient['complete']) {
  return createTeam({
    agents: [{ name: 'ann', systemPrompt: 'You tell.', tools: ['ask_user'] }],
    orchestration: { strategy: 'sequential' },
    models: { default: { offline: true, complete } },
    stateManagement: { store, durability },
    logger: silent,
  })
}

async function readParts(run: Run<unknown>, take: (part: StreamPart<unknown>) => void, after = -1): Promise<void> {
  for await (const part of run.stream({ after })) if (part.type !== 'speaker') take(part)
}

async function readFrom(run: Run<unknown>, after?: string): Promise<RuntimeEvent<unknown>[]> {
  const events: RuntimeEvent<unknown>[] = []
  for await (const event of run.events(after === undefined ? {} : { after })) events.push(event)
  return events
}
