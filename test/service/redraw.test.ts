/** Frames that are drawn over each other: the screen shows the last one, and below it nothing. */
import t from 'tap'
import { redrawOn } from '../../src/service/shared/redraw.ts'
import type { Screen } from '../../src/service/shared/screen.ts'
import { seededRandom } from '../../src/shared/random.ts'

const ROWS = 12

/** A screen that does what it is told to, as far as frames need it. Without its history that is ROWS lines high. */
function screen() {
  const lines: string[] = ['']
  let row = 0
  let column = 0
  let top = 0
  const to = (next: number) => {
    row = Math.min(top + ROWS - 1, Math.max(top, next))
    while (lines.length <= row) lines.push('')
  }
  const acts: Record<string, (value: string) => void> = {
    A: (value) => to(row - Number(value || 1)),
    B: (value) => to(row + Number(value || 1)),
    G: () => {
      column = 0
    },
    K: (value) => {
      lines[row] = value === '2' ? '' : lines[row]!.slice(0, column)
    },
    h: () => {},
    l: () => {},
  }
  const put = (text: string) => {
    const before = lines[row]!.padEnd(column)
    lines[row] = before.slice(0, column) + text + before.slice(column + text.length)
    column += text.length
  }
  const write = (text: string) => {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what a terminal is told by
    for (const [part, value = '', act] of text.matchAll(/\u001b\[([?\d;]*)([A-Za-z])|\n|[^\u001b\n]+/g)) {
      if (act !== undefined) acts[act]!(value)
      else if (part !== '\n') put(part)
      else {
        top = Math.max(top, row + 2 - ROWS)
        to(row + 1)
        column = 0
      }
    }
    return true
  }
  return { on: { columns: 40, rows: ROWS, isTTY: true, write } as unknown as Screen, lines }
}

t.test('whatever lines come and go, the screen has the last frame, and what was printed above', async (t) => {
  for (let seed = 1; seed <= 300; seed++) {
    const random = seededRandom([seed, 2, 3, 4])
    const { on, lines } = screen()
    const draw = redrawOn(on)
    const printed: string[] = []
    for (let step = 0; step < 12; step++) {
      if (random() < 0.3) {
        printed.push(`line ${step}`)
        draw.clear()
        on.write(`line ${step}\n`)
      }
      const middle = Array.from({ length: Math.floor(random() * 6) }, () => `at work ${Math.floor(random() * 3)}`)
      const frame = ['team', ...middle, 'figures', '> ']
      draw(frame.join('\n'))
      const shown = lines.map((line) => line.trimEnd())
      const wanted = [...printed, ...frame.map((line) => line.trimEnd())]
      t.same(shown.slice(0, wanted.length), wanted, `seed ${seed}, step ${step}`)
      t.same(shown.slice(wanted.length).join(''), '', 'nothing is left behind')
      if (!t.passing()) return
    }
  }
})
