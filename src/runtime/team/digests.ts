/** Digests of a team and of its runs: what happens, in short, for faces that show all of it. */
import { NO_TOKENS } from '../../actors/definition/model.ts'
import { systemClock } from '../../clock.ts'
import { DigestFeed, MOST_ROWS } from '../digest/digest-feed.ts'
import type { Digest, DigestFact, DigestQuestion, DigestSnapshot } from '../digest/digest-line.ts'
import { type Digested, DigestMaker } from '../digest/digest-maker.ts'
import { factOf, mayBeFact } from '../digest/fact.ts'
import type { HostRecord } from '../log/records.ts'
import type { Tallies } from '../metrics/tallies.ts'
import { type EventSource, recordEvent } from '../runs/log-events.ts'
import type { RunBook } from '../runs/runs.ts'
import { statusOf, sumOf } from '../state/busiest.ts'
import { directoryOf, type RunState } from '../state/run-state.ts'
import type { Supervisor } from '../supervision/supervisor.ts'
import { waitsOf } from './waits.ts'

interface Needs {
  readonly supervisor: Supervisor
  readonly runs: RunBook
  readonly tallies: Tallies
  questions(): DigestQuestion[]
}

/** Time that a digest of a long run takes before others have a turn. */
const SLICE_MS = 5

/** Returns the digest of a team as it happens. */
export function teamDigest(needs: Needs): DigestFeed {
  const { supervisor, runs } = needs
  const { clock, directory, journal } = supervisor
  // Once for all makers: V8 compiles what calls a function for that function alone.
  const digested = digestedFrom(supervisor, runs.host)
  return new DigestFeed({
    records$: journal.records$,
    maker: () => new DigestMaker(digested),
    settle: () => journal.tell(),
    snapshot: () => snapshotOf(needs),
    *agents() {
      for (const cell of directory.agents()) yield figuresOf(cell)
    },
    waits: () => supervisor.redactor.data(waitsOf(supervisor)),
    deadLetters: () => journal.deadLetters.length,
    now: () => clock.now(),
    seq: () => journal.seq,
  })
}

/** Yields the digest of a run until now, from its beginning or from the oldest entry that its log has. */
export async function* runDigest(supervisor: Supervisor, runs: RunBook, run: RunState): AsyncGenerator<Digest> {
  const source = {
    ...directoryOf(run, runs.host),
    epochOf: (index: number) => runs.host.epochOf(index),
    resultOf: () => runs.host.resultOf(run.id),
  }
  const maker = new DigestMaker(digestedFrom(supervisor, source))
  let since = systemClock.monotonic()
  for (const entry of run.log.entries(-1, run.log.length)) {
    maker.see(entry)
    if (maker.rows < MOST_ROWS) continue
    const line = maker.take()
    if (line) yield line
    if (systemClock.monotonic() - since < SLICE_MS) continue
    await new Promise<void>((resolve) => systemClock.defer(resolve))
    since = systemClock.monotonic()
  }
  const line = maker.take()
  if (line) yield line
}

function digestedFrom({ redactor }: Supervisor, source: EventSource): Digested {
  const shown = (text: string) => redactor.text(text)
  const fact = (record: HostRecord): DigestFact | undefined => {
    if (!mayBeFact(record)) return undefined
    if (record.kind === 'agent.ready' && record.woken) return undefined // comes and goes with messages
    if (record.kind === 'agent.exited' && record.how === 'passivated') return undefined
    const event = recordEvent(record, source)
    return event && factOf(event, shown)
  }
  return {
    name: (index) => source.name(index),
    runId: (index) => source.runId(index),
    factOf: fact,
    shown,
  }
}

const figuresOf = (cell: Parameters<typeof statusOf>[0]) => ({
  name: cell.name,
  status: statusOf(cell),
  queued: cell.mailbox.waiting + cell.mailbox.parked.length,
  inFlight: cell.mailbox.underWay,
  restarts: sumOf(cell, ({ restarts }) => restarts),
})

function snapshotOf({ supervisor, runs, tallies, questions }: Needs): DigestSnapshot {
  const { directory, journal, redactor } = supervisor
  const open = runs.list().filter(({ isSettled, listed }) => listed && !isSettled)
  return redactor.data({
    log: journal.name ?? null,
    agents: directory.agents().map((cell) => {
      const { turns, failedTurns, toolCalls } = tallies.of(cell)
      return { ...figuresOf(cell), usage: { ...NO_TOKENS, ...cell.spent }, turns: turns.count, failedTurns, toolCalls }
    }),
    runs: open.map(({ id, query, status, startedAt, state: { threadId = null } }) => ({
      id,
      query: query.slice(0, LONGEST_TEXT),
      status,
      startedAt,
      threadId,
    })),
    questions: questions().map(({ runId, questionId, agent, text, choices, askedAt }) => ({
      runId,
      questionId,
      agent,
      text: text.slice(0, LONGEST_TEXT),
      ...(choices && { choices }),
      askedAt,
    })),
    waits: waitsOf(supervisor),
    deadLetters: journal.deadLetters.length,
  })
}

const LONGEST_TEXT = 2_000
