/** Reports of Node hold the environment of the whole process. In a thread of an agent or a tool they show its own. */
import { type FrameFields, PART } from '../../mailbox/frame.ts'
import { own } from '../../shared/values.ts'

/** Makes `process.report` show what `process.env` of this thread has. It writes no files. */
export function reportGrantsAlone(): void {
  const { get, ...property } = Object.getOwnPropertyDescriptor(process, 'report') ?? {}
  Object.defineProperty(process, 'report', {
    ...property,
    get() {
      const report: NodeJS.ProcessReport = get?.call(process)
      return Object.assign(Object.create(report), {
        getReport: (error?: Error) => ({
          ...Object(report.getReport(error)),
          environmentVariables: { ...process.env },
        }),
        writeReport() {
          throw new Error(
            'process.report.writeReport: in this thread reports are not written. Take process.report.getReport().',
          )
        },
      })
    },
  })
}

const SHORTEST = 8

export class GrantedKeys {
  readonly #keys: ReadonlyMap<string, string>
  readonly #texts: RegExp
  readonly #names = new Map<string, string>()

  private constructor(keys: ReadonlyMap<string, string>) {
    this.#keys = keys
    for (const [name, key] of keys) for (const text of [key, inJson(key)]) this.#names.set(text, name)
    const longestFirst = [...this.#names.keys()].sort((one, other) => other.length - one.length)
    this.#texts = new RegExp(longestFirst.map((text) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('|'), 'g')
  }

  /** Returns undefined if none of the names is that of a key in `env`: then nothing is searched. */
  static of(env: Readonly<Record<string, string>>, names: readonly string[]): GrantedKeys | undefined {
    const keys = names.flatMap((name) => {
      const key = own(env, name)?.trim() ?? ''
      return key.length < SHORTEST ? [] : [[name, key] as const]
    })
    return keys.length === 0 ? undefined : new GrantedKeys(new Map(keys))
  }

  /** Puts `[redacted:NAME]` in the place of each key in a text, which may be JSON. */
  text(text: string): string {
    return text.replace(this.#texts, (found) => marked(this.#names.get(found)!))
  }

  /** Returns the names of the keys in a text. */
  in(text: string): string[] {
    return [...new Set(text.match(this.#texts)?.map((found) => this.#names.get(found)!))]
  }

  /** Returns a JSON value without keys. */
  data<T>(value: T): T {
    const text = JSON.stringify(value)
    const clean = text === undefined ? text : this.text(text)
    return clean === text ? value : JSON.parse(clean!)
  }

  /** Returns a JSON value with the keys in the places of their names. */
  filled<T>(value: T): T {
    let text = JSON.stringify(value)
    for (const [name, key] of this.#keys) text = text.replaceAll(marked(name), () => inJson(key))
    return JSON.parse(text)
  }

  /** Takes the keys out of what a frame says. The bytes of an image or a file stay: they have their hash. */
  clean(fields: FrameFields): void {
    if (fields.kind === PART) return
    fields.content = this.text(fields.content)
    fields.data &&= this.text(fields.data)
    fields.metadata &&= this.text(fields.metadata)
    fields.threadId &&= this.text(fields.threadId)
  }
}

const marked = (name: string) => `[redacted:${name}]`
const inJson = (key: string) => JSON.stringify(key).slice(1, -1)
