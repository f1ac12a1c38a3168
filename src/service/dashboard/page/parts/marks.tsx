/** Statuses, as a shape, a word and a colour: no two of them look alike to anybody. */

import type { JSX } from 'preact'
import { own } from '../../../../own.ts'

const SHAPES: Readonly<Record<string, string>> = {
  queued: '◌',
  starting: '◌',
  idle: '○',
  running: '●',
  waiting: '◐',
  restarting: '↻',
  passivated: '◍',
  stopped: '■',
  finished: '✓',
  failed: '✕',
  aborted: '■',
  interrupted: '‖',
}
const WORDS: Readonly<Record<string, string>> = { finished: 'done', aborted: 'stopped' }

export const shapeOf = (status: string): string => own(SHAPES, status) ?? '·'
export const wordOf = (status: string): string => own(WORDS, status) ?? status

export const Mark = ({ status }: { status: string }): JSX.Element => (
  <span class={`mark ${status}`}>
    <span aria-hidden="true">{shapeOf(status)}</span> {wordOf(status)}
  </span>
)
