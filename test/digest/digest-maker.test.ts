/** Lines of the digest have each message and each end of a turn that the frames have, however alike these are. */
import t from 'tap'
import * as frame from '../../src/mailbox/frame.ts'
import { allocate } from '../../src/mailbox/frame.ts'
import { type FrameBlock, SEQ_STEP } from '../../src/runtime/log/records.ts'
import { AGAIN, COPY, type Digest, NONE, TO_SEVERAL } from '../../src/runtime/views/digest-line.ts'
import { DigestMaker } from '../../src/runtime/views/digest-maker.ts'
import { listsOf } from '../../src/service/digest/columns.ts'
import { seededRandom } from '../../src/shared/random.ts'

const FRAMES = 60
const BEGAN_AT = 1_700_000_000_000

/** A frame's header. `serial`: number of the message that the frame is, or whose turn it ends. */
const START = {
  kind: frame.SEND,
  flags: 0,
  attempt: 0,
  type: 0,
  sender: 1,
  recipient: 2,
  turn: 1,
  correlation: 0,
  bytes: 8,
  serial: 1,
  time: BEGAN_AT,
  startedAt: BEGAN_AT,
}
type Header = typeof START

/** What may change from one frame to the next. Most go on as the one before. */
const CHANGES: { [Field in keyof Header]: (random: (below: number) => number) => number } = {
  kind: (random) => [frame.SEND, frame.REQUEST, frame.RESPONSE, frame.END, frame.NOW][random(5)]!,
  flags: (random) => [0, 0, frame.MANY, frame.FAILED, frame.BEGINS_AGAIN][random(5)]!,
  attempt: (random) => random(2),
  type: (random) => random(3),
  sender: (random) => random(3),
  recipient: (random) => [0, 1, 2, frame.NOBODY][random(4)]!,
  turn: (random) => random(5),
  correlation: (random) => random(2),
  bytes: (random) => 8 * random(3),
  serial: (random) => random(FRAMES),
  time: (random) => BEGAN_AT + random(3),
  startedAt: (random) => BEGAN_AT - random(3) * 40 * 24 * 3_600_000,
}

function write(memory: FrameBlock['memory'], at: number, header: Header): void {
  const { i32, f64 } = memory
  const { kind, flags, attempt, type, sender, recipient, turn, correlation, bytes, serial, time, startedAt } = header
  const i = at >> 2
  i32[i] = frame.HEADER
  i32[i + frame.KIND] = kind | (flags << 8) | (attempt << 16) | (type << 24)
  i32[i + frame.WHO] = sender | (recipient << 16)
  i32[i + frame.TURN] = turn
  i32[i + frame.CORRELATION] = correlation
  i32[i + frame.BODY] = bytes
  i32[i + frame.ID + 2] = 0x8000_0000 | (serial << 12)
  i32[i + frame.ID + 3] = 0
  f64[(at >> 3) + frame.TIME] = time
  f64[(at >> 3) + frame.STARTED] = startedAt
}

/** Rows of the line's tables for one frame after the other. */
function rowsOf(headers: readonly Header[], first: number, at: number) {
  const messages: Record<string, number>[] = []
  const turns: Record<string, number>[] = []
  const numbers = new Map<number, number>()
  for (const [index, header] of headers.entries()) {
    const { kind, flags, type, sender, recipient, turn, correlation, bytes, serial } = header
    const n = first + index
    const isSent = kind === frame.SEND || kind === frame.REQUEST
    if (isSent || (kind === frame.RESPONSE && correlation) || (kind === frame.END && correlation)) {
      const isToSeveral = kind === frame.SEND && (flags & frame.MANY) !== 0
      const isHead = isToSeveral && recipient === frame.NOBODY && correlation === 0
      const isCopy = isToSeveral && !isHead
      const to = recipient === frame.NOBODY ? NONE : recipient
      messages.push({ n, from: sender, to, type: type + (isHead ? TO_SEVERAL : isCopy ? COPY : 0), at, bytes, turn })
      if (!isCopy && kind !== frame.END) numbers.set(serial, n)
    }
    if (kind !== frame.END) continue
    const failed = flags & frame.BEGINS_AGAIN ? AGAIN : flags & frame.FAILED ? 1 : 0
    const [start, end] = [header.startedAt - BEGAN_AT, header.time - BEGAN_AT]
    turns.push({
      message: numbers.get(serial) ?? -1,
      agent: sender,
      turn,
      start,
      end,
      attempt: header.attempt + 1,
      failed,
    })
  }
  return { messages, turns }
}

t.test('rows of frames that are alike are those of the frames', async (t) => {
  const dice = seededRandom([1, 2, 3, 4])
  const random = (below: number) => Math.floor(dice() * below)
  let alike = 0
  for (let round = 0; round < 400; round++) {
    let header = START
    let serial = 0
    const headers = Array.from({ length: FRAMES }, () => {
      header = { ...header, serial: header.serial + 1, turn: header.turn + (round & 1) }
      const changes = random(3) === 0 ? 1 + random(2) : 0
      for (let change = 0; change < changes; change++) {
        const fields = Object.keys(CHANGES) as (keyof Header)[]
        const field = fields[random(fields.length)]!
        header = { ...header, [field]: CHANGES[field](random) }
      }
      if (header.kind === frame.END) return header
      serial += 1
      return { ...header, serial }
    })
    const maker = new DigestMaker({
      name: (index) => `agent ${index}`,
      runId: () => 'run',
      factOf: () => undefined,
      shown: (name) => name,
    })
    const memory = allocate(FRAMES * frame.HEADER)
    for (const [index, header] of headers.entries()) write(memory, index * frame.HEADER, header)
    const first = random(10)
    maker.see({
      kind: 'frames',
      seq: first * SEQ_STEP,
      at: BEGAN_AT,
      run: 0,
      memory,
      from: 0,
      to: FRAMES * frame.HEADER,
      count: FRAMES,
    })
    const line: Pick<Digest, 'n' | 'names' | 'message' | 'turn'> = maker.take() ?? { n: 0 }
    const { messages, turns } = rowsOf(headers, first, 0)
    t.same(told(line, 'message', ['from', 'to'], ['n']), messages, `messages of round ${round}`)
    t.same(told(line, 'turn', ['agent'], ['message']), turns, `turns of round ${round}`)
    alike += messages.length - JSON.stringify(line.message ?? 0).length / 40
  }
  t.ok(alike > 0, 'many were told together')
})

/** Rows of a line's table, with indices of agents in place of places in the table of names, and numbers of messages. */
function told(
  line: Pick<Digest, 'n' | 'names' | 'message' | 'turn'>,
  table: 'message' | 'turn',
  names: string[],
  numbers: string[],
): Record<string, number>[] {
  const columns = line[table]
  if (!columns) return []
  const { run, ...lists } = listsOf<string>(columns)
  return Array.from({ length: columns.rows }, (_, row) => {
    const values = Object.entries(lists).map(([name, list]) => {
      const value = list[row]!
      if (numbers.includes(name)) return [name, value + line.n]
      return [name, names.includes(name) && value >= 0 ? Number(line.names![value]!.slice('agent '.length)) : value]
    })
    return Object.fromEntries(values)
  })
}
