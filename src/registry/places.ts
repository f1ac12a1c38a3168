/** Where each option stands in a file, so that an error about an option can say the line. */
import { ConfigurationError } from '../errors.ts'
import { NO_SUCH_OPTION } from '../runtime/checks/checks.ts'

/** From 1 on, as editors count. */
export interface Place {
  line: number
  column: number
}

interface Spot {
  /** Of the key; of an entry of a list, as its value. */
  key: Place
  value: Place
  /** The way there in the file's own words. */
  shown: string
}

const START: Place = { line: 1, column: 1 }

export class Places {
  readonly #file: string
  readonly #spots = new Map<string, Spot>()

  /** `file`: as its user names it. */
  constructor(file: string) {
    this.#file = file
  }

  set(path: string, spot: Spot): void {
    this.#spots.set(path, spot)
  }

  /** The error at that place of the file. */
  error({ line, column }: Place, text: string, details: object = {}, cause?: unknown): ConfigurationError {
    const at = { ...details, file: this.#file, line, column }
    return new ConfigurationError(`${this.#file}:${line}:${column}: ${text}`, at, cause)
  }

  /** The same error with the place of the option at `path`, which is its own unless given, or of the nearest one around it. */
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
