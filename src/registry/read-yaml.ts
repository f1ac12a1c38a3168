/** Reads a YAML file as plain values with their places, at a cost bounded by its size, whoever wrote it. */

import {
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  type Pair,
  parseDocument,
  type YAMLError,
  type YAMLMap,
  type YAMLWarning,
} from 'yaml'
import type { AgentRole } from '../actors/definition/role.ts'
import { NO_SUCH_OPTION, refusedAs } from '../shared/checks.ts'
import { ConfigurationError, describe, shown } from '../shared/errors.ts'

/** Throws for the first delegation that leads back to its origin, with its path. */
export function refuseCycles(agents: readonly AgentRole[]): void {
  const takers = new Map(agents.map(({ name, canDelegateTo = [] }) => [name, canDelegateTo]))
  const done = new Set<string>()
  // No recursion, because a chain of delegations may be as long as the team is large.
  for (const { name } of agents) {
    const way: { name: string; next: number }[] = [{ name, next: 0 }]
    for (let last = way.at(-1); last; last = way.at(-1)) {
      const to = takers.get(last.name)?.[last.next]
      if (to === undefined || done.has(last.name)) {
        done.add(last.name)
        way.pop()
        continue
      }
      const back = way.findIndex((each) => each.name === to)
      if (back >= 0) throw cycle(last, [...way.slice(back).map((each) => each.name), to])
      last.next += 1
      way.push({ name: to, next: 0 })
    }
  }
}

function cycle({ name, next }: { name: string; next: number }, round: readonly string[]): Error {
  const got = `"${round.at(-1)}", which closes a circle of delegations: ${round.join(' -> ')}`
  const advice = 'Take one of them out; who needs an answer can ask by a request.'
  return refusedAs(`agents.${name}.canDelegateTo[${next}]`, got, 'a graph without circles', advice)
}

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

  error({ line, column }: Place, text: string, details: object = {}, cause?: unknown): ConfigurationError {
    const at = { ...details, file: this.#file, line, column }
    return new ConfigurationError(`${this.#file}:${line}:${column}: ${text}`, at, cause)
  }

  /** Returns the error with the place of the option at `path` (default: its own), or of the nearest around it. */
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

/** Longest text: a longer one is no configuration, and the parser's time grows with the square of its errors. */
const MOST_CHARACTERS = 2 ** 17
const MOST_DEPTH = 100
/** Maximum number of values, including those that aliases repeat. */
const MOST_VALUES = 100_000

/** Keys whose own keys are names, which keep their spelling. */
const OF_NAMES = new Set(['agents', 'keys', 'models', 'interests', 'prompts', 'of', 'weights'])
/** Keys whose values belong to the user: nothing below them is an option. */
export const OPAQUE = new Set(['data', 'config', 'output'])
/** Option names whose spelling is not the plain camel case of their words. */
const SPELLINGS = new Map([['baseUrl', 'baseURL']])

type Kind = 'options' | 'names' | 'opaque'

/**
 * Reads one YAML 1.2 document. Keys of options are in camel case, and so are the paths of their places. `file` is its
 * name in errors.
 *
 * @throws ConfigurationError with file, line and column, for invalid YAML, a duplicate key, or an API key.
 */
export function readYaml(text: string, file: string): { value: unknown; places: Places } {
  const places = new Places(file)
  if (text.length > MOST_CHARACTERS)
    throw places.error(START, `the file has ${text.length} characters; at most ${MOST_CHARACTERS} are read.`)
  const lines = new LineCounter()
  const reader = new Reader(places, lines)
  const { contents, errors, warnings } = parsed(text, lines, places)
  const [flaw] = [...errors, ...warnings] // an unknown tag is only a warning there, but changes the value here
  if (flaw) throw places.error(placeOf(lines, flaw.pos[0]), wordsOf(flaw))
  return { value: reader.value(contents, '', '', 'options', START), places }
}

function wordsOf({ code, message }: YAMLError | YAMLWarning): string {
  if (code === 'MULTIPLE_DOCS') return 'a second document begins here; a team is one.'
  if (/call stack/.test(message)) return 'this is nested too deeply to be read.'
  return `this is no YAML: ${message}.`
}

function parsed(text: string, lineCounter: LineCounter, places: Places) {
  try {
    // The reader finds duplicate keys, because the parser compares each key with all others.
    return parseDocument(text, { lineCounter, uniqueKeys: false, prettyErrors: false, logLevel: 'error' })
  } catch (error) {
    throw places.error(START, `this cannot be read as YAML: ${describe(error)}. Write it with less nesting.`, {}, error)
  }
}

function placeOf(lines: LineCounter, offset: number): Place {
  const { line, col } = lines.linePos(offset)
  return { line: Math.max(line, 1), column: Math.max(col, 1) }
}

class Reader {
  readonly #places: Places
  readonly #lines: LineCounter
  /** Anchored nodes by name; a later anchor replaces an earlier one of the same name. */
  readonly #anchors = new Map<string, Node>()
  /** Nodes that contain the one being read. */
  readonly #around = new Set<Node>()
  #values = 0

  constructor(places: Places, lines: LineCounter) {
    this.#places = places
    this.#lines = lines
  }

  /**
   * Reads the value of a node. `path`: its path in the spelling of options. `shown`: its path in the spelling of the
   * file. `otherwise`: the place to use if the node is not in the text.
   */
  value(node: Node | null, path: string, shown: string, kind: Kind, otherwise: Place): unknown {
    const at = this.#placeOf(node, otherwise)
    this.#values += 1
    if (this.#values > MOST_VALUES)
      throw this.#places.error(at, `more than ${MOST_VALUES} values; aliases repeat theirs.`)
    if (node === null) return null
    if (isAlias(node)) {
      const meant = this.#anchors.get(node.source)
      if (meant && this.#around.has(meant))
        throw this.#places.error(at, `*${node.source} stands within what it repeats.`)
      if (meant) return this.value(meant, path, shown, kind, at)
      throw this.#places.error(at, `*${node.source}: nothing before it is named &${node.source}.`)
    }
    if (this.#around.size >= MOST_DEPTH) throw this.#places.error(at, `nested more than ${MOST_DEPTH} deep.`)
    if ('anchor' in node && node.anchor !== undefined) this.#anchors.set(node.anchor, node)
    if (isScalar(node)) return node.value
    this.#around.add(node)
    const read = isMap(node) ? this.#map(node, path, shown, kind) : this.#list(node, path, shown, kind)
    this.#around.delete(node)
    return read
  }

  #list(node: Node, path: string, shown: string, kind: Kind): unknown[] {
    const items = isSeq(node) ? (node.items as (Node | null)[]) : []
    const at = this.#placeOf(node, START)
    return items.map((item, i) => {
      const value = this.#placeOf(item, at)
      this.#places.set(`${path}[${i}]`, { key: value, value, shown: `${shown}[${i}]` })
      return this.value(item, `${path}[${i}]`, `${shown}[${i}]`, kind, value)
    })
  }

  #map(node: YAMLMap, path: string, shown: string, kind: Kind): object {
    const first = new Map<string, Place>()
    const at = this.#placeOf(node, START)
    const fields = (node.items as Pair<Node | null, Node | null>[]).map(({ key: keyNode, value: valueNode }) => {
      const key = this.#placeOf(keyNode, at)
      const written = this.#key(keyNode, key)
      const name = kind === 'options' ? optionOf(written) : written
      this.#refuseSecret(written, join(shown, written), key)
      const before = first.get(name)
      if (before) throw this.#twice(join(shown, written), key, before)
      first.set(name, key)
      const value = this.#placeOf(valueNode, key)
      this.#places.set(join(path, name), { key, value, shown: join(shown, written) })
      return [name, this.value(valueNode, join(path, name), join(shown, written), kindBelow(kind, name), key)] as const
    })
    return Object.fromEntries(fields)
  }

  #key(node: Node | null, at: Place): string {
    const key = isAlias(node) ? this.#anchors.get(node.source) : node
    if (isScalar(key) && typeof key.value === 'string') return key.value
    const got = isScalar(key) ? shown(key.value) : 'a list, an object or nothing'
    throw this.#places.error(at, `a key is a text; got ${got}. Write it in quotes if that is its name.`)
  }

  /** Rejects API keys, because files are shared, kept for ever and shown to others. */
  #refuseSecret(key: string, path: string, at: Place): void {
    if (key.toLowerCase().replaceAll(/[_-]/g, '') !== 'apikey') return
    const text = `${path}: a key does not belong into a file. Put it into the environment, and write api_key_env: THE_NAME_OF_ITS_VARIABLE.`
    throw this.#places.error(at, text, { path, got: 'an API key', accepted: 'api_key_env' })
  }

  #twice(path: string, at: Place, { line }: Place): Error {
    return this.#places.error(at, `${path}: it is there already, in line ${line}. Remove one of the two.`, { path })
  }

  #placeOf(node: Node | null | undefined, otherwise: Place): Place {
    return node?.range ? placeOf(this.#lines, node.range[0]) : otherwise
  }
}

const join = (path: string, key: string) => (path === '' ? key : `${path}.${key}`)

/** Returns the option name for a key: documents have snake_case, the interface camelCase. */
function optionOf(key: string): string {
  const camel = key.replaceAll(/_([a-z\d])/g, (_, letter: string) => letter.toUpperCase())
  return SPELLINGS.get(camel) ?? camel
}

function kindBelow(kind: Kind, key: string): Kind {
  if (kind === 'opaque' || (kind === 'options' && OPAQUE.has(key))) return 'opaque'
  return kind === 'options' && OF_NAMES.has(key) ? 'names' : 'options'
}
