/** Frames for the tests of this room: with fields that matter to none of them filled in. */
import fc from 'fast-check'
import type { Directory } from '../../src/mailbox/codec.ts'
import {
  allocate,
  BLANK,
  type FrameFields,
  frameBytes,
  type Memory,
  REQUEST,
  writeFrame,
} from '../../src/mailbox/frame.ts'

export const SENT_AT = 1_700_000_000_000.5

export const names = ['$runtime', '$user', '$orchestrator', 'ann', 'bob']
export const ANN = 3
export const BOB = 4

export const directory: Directory = {
  name: (index) => names[index] ?? `#${index}`,
  runId: (index) => `run-${index}`,
}

export function fieldsOf(fields: Partial<FrameFields> = {}): FrameFields {
  return { ...BLANK, kind: REQUEST, sender: ANN, recipient: BOB, run: 1, turn: 2, correlation: 3, step: 4, ...fields }
}

export const bytesOf = (fields: FrameFields): number => frameBytes(fields)

/** A frame on memory of its own that held something else before, as all memory of a ring did. */
export function frameOf(fields: Partial<FrameFields> = {}, residue = 0xa5): { memory: Memory; bytes: number } {
  const whole = fieldsOf(fields)
  const memory = allocate(bytesOf(whole))
  memory.u8.fill(residue)
  return { memory, bytes: writeFrame(memory, 0, whole, SENT_AT) }
}

/** Any text that JavaScript can hold: one byte a character, or two, lone surrogates and NUL included. */
export const anyText: fc.Arbitrary<string> = fc.oneof(
  fc.constantFrom(
    '',
    '\0',
    'a\0b',
    '\ud800',
    '\udfff',
    '\udc00\ud800',
    'é',
    'ÿ',
    'Ā',
    '漢字',
    '🙂👩‍👩‍👧',
    '\ufeff',
    '\uffff',
  ),
  fc.array(fc.integer({ min: 0, max: 0xff })).map((units) => String.fromCharCode(...units)),
  fc.array(fc.integer({ min: 0, max: 0xffff })).map((units) => String.fromCharCode(...units)),
  fc.string({ unit: 'grapheme' }),
)
