/** The past of a run is compared with what its team was while it ran, moment by moment, in random programs with faults. */
import t from 'tap'
import { idOf } from '../../src/mailbox/frame.ts'
import type { RunState } from '../../src/runtime/host/run.ts'
import type { Supervisor } from '../../src/runtime/supervision/host.ts'
import { howMany } from '../how-many.ts'
import { simulate, type Watch } from '../simulation/simulation.ts'

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
