/** A step that is asked for again is known by its bytes, whatever stood in the memory before. */
import t from 'tap'
import {
  allocate,
  type FrameFields,
  type Memory,
  plainFrameBytes,
  SEND,
  sameStep,
  writeFrame,
} from '../../src/mailbox/frame.ts'

const fields = (content: string, data?: string): FrameFields => ({
  kind: SEND,
  flags: 0,
  type: 'request',
  sender: 3,
  recipient: 4,
  run: 1,
  turn: 1,
  correlation: 0,
  step: 1,
  attempt: 1,
  content,
  data,
  metadata: undefined,
  threadId: undefined,
  name: undefined,
  limit: -1,
  priority: 0,
  waiting: 0,
  polling: false,
})

function written(content: string, data: string | undefined, garbage: number): Memory {
  const memory = allocate(plainFrameBytes(content, data))
  memory.u8.fill(garbage)
  writeFrame(memory, 0, fields(content, data), 0)
  return memory
}

t.test('the same content is the same step at every length, narrow and wide', async (t) => {
  for (const letter of ['x', 'ж', '🐟'])
    for (let length = 0; length < 12; length++) {
      const content = letter.repeat(length)
      const [one, other] = [written(content, content, 0x00), written(content, content, 0xff)]
      t.ok(sameStep(one, 0, other, 0), `${length} times ${letter}`)
    }
})

t.test('another content, other data or no data is another step', async (t) => {
  const step = written('go', '{"n":1}', 0)
  for (const [content, data] of [
    ['gx', '{"n":1}'],
    ['go', '{"n":2}'],
    ['go', undefined],
    ['go ', '{"n":1}'],
  ] as const)
    t.notOk(sameStep(step, 0, written(content, data, 0), 0), `${content} ${data}`)
})
