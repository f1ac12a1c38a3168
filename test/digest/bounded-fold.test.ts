/** A fold that keeps the newest rows alone, as a page does that is open for days. */
import t from 'tap'
import type { Digest, DigestSnapshot } from '../../src/runtime/views/digest-line.ts'
import { DigestFold } from '../../src/service/digest/digest-fold.ts'

const AGENTS = ['ann', 'bob', 'eve']
const MOST = 100
const figures = { status: 'idle', queued: 0, inFlight: 0, restarts: 0, turns: 0, failedTurns: 0, toolCalls: 0 } as const
const usage = { inputTokens: 0, outputTokens: 0, totalTokens: 0, calls: 0 }
const snapshot: DigestSnapshot = {
  log: 'log',
  agents: AGENTS.map((name) => ({ name, usage, ...figures })),
  runs: [],
  questions: [],
  waits: [],
  deadLetters: 0,
}

/** Lines of runs that have a message and a turn each. The table of names begins anew with every 70th. */
function* linesOf(runs: number): Generator<Digest> {
  for (let n = 0; n < runs; n++) {
    const isNew = n % 70 === 0
    const run = AGENTS.length + (n % 70)
    const table = { rows: 1, run, turn: 1 }
    yield {
      seq: n,
      at: n,
      n,
      names: [...(isNew ? AGENTS : []), `run ${n}`],
      ...(isNew && { snapshot }),
      message: { ...table, n: 0, from: n % 3, to: (n + 1) % 3, type: 0, at: 0, bytes: 1 },
      turn: { ...table, message: 0, agent: (n + 1) % 3, start: 0, end: 0, attempt: 1, failed: 0 },
    }
  }
}

t.test('what only rows had that are gone goes with them: names of runs, and times of agents', async (t) => {
  const all = new DigestFold()
  const fold = new DigestFold({ mostRows: MOST })
  for (const line of linesOf(5_000)) {
    all.read(line)
    fold.read(line)
  }
  t.equal(all.names.length, 5_003)
  t.ok(fold.names.length <= 3 * MOST, `${fold.names.length} names`)
  const agents = [...fold.agents.values()]
  const times = agents.reduce((sum, { arrivals, ends }) => sum + arrivals.length + ends.length, 0)
  t.ok(times <= 2 * MOST, `${times} times`)
  for (const { name, turns } of agents) t.equal(turns, all.agents.get(name)!.turns)
  for (const [table, names] of [
    ['messages', ['run', 'from', 'to']],
    ['turns', ['run', 'agent']],
  ] as const) {
    const told = ({ names: known, [table]: { columns } }: DigestFold) =>
      names.map((name) => {
        const places = columns as Record<string, { length: number; at(row: number): number }>
        const column = places[name]!
        return Array.from({ length: 40 }, (_, row) => known[column.at(column.length - 40 + row)])
      })
    t.same(told(fold), told(all))
  }
})
