import t from 'tap'
import { allocate, copyBytes, type Memory, memoryOn } from '../../src/mailbox/frame.ts'

const shared = (bytes: number) => memoryOn(new SharedArrayBuffer(bytes + 64), 64)
const pairs: [name: string, from: (bytes: number) => Memory, to: (bytes: number) => Memory][] = [
  ['shared to private memory', shared, allocate],
  ['private to shared memory', allocate, shared],
  ['private to private memory', allocate, allocate],
]

for (const [name, make, makeOther] of pairs)
  for (const bytes of [8, 8_184, 8_192, 100_000])
    t.test(`${bytes} bytes are copied from ${name}, and nothing beside them`, async (t) => {
      const from = make(bytes)
      for (let i = 0; i < bytes; i++) from.u8[i] = i % 251
      const to = makeOther(bytes + 32)
      to.u8.fill(255)
      copyBytes(from.u8.subarray(0, bytes), to, 16)
      t.equal(Buffer.compare(to.u8.subarray(16, 16 + bytes), from.u8.subarray(0, bytes)), 0)
      t.ok(to.u8.subarray(0, 16).every((byte) => byte === 255))
      t.ok(to.u8.subarray(16 + bytes).every((byte) => byte === 255))
    })
