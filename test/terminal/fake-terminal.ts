/** A terminal that is none: what was drawn on it last can be read, and keys can be pressed. */
import { PassThrough, Writable } from 'node:stream'
import { stripVTControlCharacters } from 'node:util'
import type { Screen } from '../../src/service/shared/screen.ts'
import type { Keys } from '../../src/service/terminal/top.ts'

export class FakeTerminal {
  readonly screen: Screen
  readonly keys: Keys & PassThrough
  /** All that was written, without what steers the terminal. */
  text = ''
  #pressedAt = 0
  readonly #waiting = new Set<() => void>()

  constructor({ columns = 80, rows = 24 } = {}) {
    const screen = new Writable({
      decodeStrings: false,
      write: (chunk: string, _encoding, done) => {
        this.text += stripVTControlCharacters(String(chunk))
        for (const look of [...this.#waiting]) look()
        done()
      },
    })
    this.screen = Object.assign(screen, { isTTY: true, columns, rows }) as unknown as Screen
    this.keys = Object.assign(new PassThrough(), { isTTY: true, setRawMode: () => {} })
  }

  /** Presses keys, as a terminal sends them. */
  press(keys: string): void {
    this.#pressedAt = this.text.length
    this.keys.write(keys)
  }

  /** Resolves when that was written, since keys were pressed last. */
  async shows(wanted: RegExp | string): Promise<void> {
    const isThere = () => {
      const shown = this.text.slice(this.#pressedAt)
      return typeof wanted === 'string' ? shown.includes(wanted) : wanted.test(shown)
    }
    await new Promise<void>((resolve) => {
      const look = () => {
        if (!isThere()) return
        this.#waiting.delete(look)
        resolve()
      }
      this.#waiting.add(look)
      look()
    })
  }
}
