/** Places of the options in a file, so that an error about an option can name the line. */
import { ConfigurationError } from '../errors.ts'
import { NO_SUCH_OPTION } from '../runtime/checks/checks.ts'

/** Position in a file; line and column count from 1, as in editors. */
export interface Place {
  line: number
  column: number
}

interface Spot {
  /** Place of the key; for an entry of a list, the place of its value. */
  key: Place
  value: Place
  /** Path of the option in the spelling of the file. */
  shown: string
}

const START: Place = { line: 1, column: 1 }

export class Places {
  readonly #file: string
  readonly #spots = new Map<string, Spot>()

  /** Creates an empty set. `file`: name of the file, as its user writes it. */
  constructor(file: string) {
    this.#file = file
  }

  set(path: string, spot: Spot): void {
    this.#spots.set(path, spot)
  }

  /** Returns an error at that place of the file. */
  error({ line, column }: Place, text: string, details: object = {}, cause?: unknown): ConfigurationError {
    const at = { ...details, file: this.#file, line, column }
    return new ConfigurationError(`${this.#file}:${line}:${column}: ${text}`, at, cause)
  }

  /**
   * Returns the same error with the place of the option at `path`, or of the nearest option around it. Default: the
   * path of the error itself.
   */
  located(error: ConfigurationError, path = error.details.path): ConfigurationError {
    const { path: own, ...details } = error.details
    if (typeof path !== 'string' || 'line' in details) return error
    let found = path
    while (found !== '' && !this.#spots.has(found)) found = found.slice(0, Math.max(0, lastStep(found)))
    const spot = this.#spots.get(found)
    const shown = `${spot?.shown ?? ''}${path.slice(found.length)}`
    const text = error.message.startsWith(`${own}`) ? `${shown}${error.message.slice(`${own}`.length)}` : error.message
    const isKeys = found !== path || details.got === NO_SUCH_OPTION
    return this.error((isKeys ? spot?.key : spot?.value) ?? START, text, { path: shown, ...details }, error.cause)
  }
}

const lastStep = (path: string) => Math.max(path.lastIndexOf('.'), path.lastIndexOf('['))
