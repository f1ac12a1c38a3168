/** The digest of a run that nobody has made: many agents, many messages. It is the same each time. */

import type { Digest } from '../src/index.ts'
import { CALL_COLUMNS, MESSAGE_COLUMNS, TURN_COLUMNS } from '../src/runtime/views/digest-line.ts'
import { LineTable } from '../src/runtime/views/line-table.ts'
import { seededRandom } from '../src/shared/random.ts'

export interface LargeRun {
  readonly id: string
  readonly startedAt: number
  readonly endedAt: number
  readonly agents: readonly string[]
  readonly lines: readonly Digest[]
}

const ROWS = 2_000
const BYTES = 200

/** Returns requests between agents, each with its turn; one in five has a call of a model, one in fifty fails. */
export function largeRun(agents: number, messages: number, forMs: number): LargeRun {
  const random = seededRandom([agents, messages, 3, 4])
  const id = '00000000-0000-7000-8000-000000000001'
  const names = Array.from({ length: agents }, (_, at) => `agent_${String(at + 1).padStart(3, '0')}`)
  const endedAt = Date.now() - 1_000
  const startedAt = endedAt - forMs
  const upTo = (below: number) => Math.floor(random() * below)
  const lines: Digest[] = []
  const [message, turn, call] = [
    new LineTable(MESSAGE_COLUMNS),
    new LineTable(TURN_COLUMNS),
    new LineTable(CALL_COLUMNS),
  ]
  for (let sent = 0; sent < messages; sent += ROWS / 2) {
    const count = Math.min(ROWS / 2, messages - sent)
    const at = Math.round(startedAt + (sent / messages) * forMs)
    for (let row = 0; row < count; row++) {
      const time = Math.round((row / messages) * forMs)
      const [from, to] = [upTo(agents), upTo(agents)]
      const tookMs = 1 + upTo(80)
      write(message, { n: row, run: agents, from, to, type: 0, at: time, bytes: BYTES, turn: 1 })
      const start = time + 1
      const end = start + tookMs
      const failed = upTo(50) === 0 ? 1 : 0
      write(turn, { message: row, run: agents, agent: to, turn: 1, start, end, attempt: 1, failed })
      if (upTo(5) > 0) continue
      const [kind, name] = [0, agents + 1]
      write(call, { message: row, run: agents, agent: to, kind, name, start, end, in: 400, out: 60, failed: 0 })
    }
    const first = sent === 0
    lines.push({
      seq: (sent + count) * 8,
      at,
      n: sent,
      ...(first && { names: [...names, id, 'a-model'] }),
      message: message.take()!,
      turn: turn.take()!,
      call: call.take()!,
      ...(first && { facts: [{ type: 'run.started', seq: 0, at: startedAt, runId: id, query: 'A large task' }] }),
    })
  }
  const result = { success: true, finalOutput: 'done' }
  lines.push({
    seq: messages * 8 + 8,
    at: endedAt,
    n: messages,
    facts: [{ type: 'run.finished', seq: messages * 8 + 8, at: endedAt, runId: id, result }],
  })
  return { id, startedAt, endedAt, agents: names, lines }
}

function write<Name extends string>(table: LineTable<Name>, row: Record<Name, number>): void {
  const at = table.add()
  for (const name of Object.keys(row) as Name[]) table.first[name][at] = row[name]
}
