/**
 * What a request from one agent to another and its answer make the runtime run, in the host and in both threads: calls of
 * its functions, distinct functions, and the files of src that they are in. Counted are requests 20 to 120 of fresh threads.
 * Time shows the same, but a count is as good on a busy machine.
 *
 *   entered.js [list]     list: before that each function, with its calls a request
 */
import { readFileSync } from 'node:fs'
import { SourceMap } from 'node:module'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { createTeam } from 'dramatis'
import type { Order } from '../agents/counted.ts'
import { countEntered, type Entered } from '../entered.ts'

const THREADS = ['host', 'asker', 'answerer'] as const
/** Requests before any counts, and in the two turns of which the difference counts. */
const [BEFORE, FEW, MANY] = [15, 5, 105]
/** A function that is entered less often in a request belongs to something else. */
const LEAST_CALLS = 0.05

const root = new URL('../../../', import.meta.url).href
const module = new URL('../agents/counted.js', import.meta.url)
const sources = new Map<string, { lines: readonly string[]; length: number; map: SourceMap }>()

const take = countEntered()
const team = createTeam({
  agents: [
    { name: 'asker', module },
    { name: 'answerer', module },
  ],
  orchestration: {
    strategy: 'custom',
    run: async (orchestrator) => {
      const tell = async (to: string, structuredData: Order) =>
        (await orchestrator.request<Order, Entered[]>(to, '', { structuredData })).structuredData
      const enteredBy = async (ask: number) => {
        await tell('asker', { ask, of: 'answerer' })
        return [take(), await tell('asker', 'take'), await tell('answerer', 'take')]
      }
      await enteredBy(BEFORE)
      const few = await enteredBy(FEW)
      const many = await enteredBy(MANY)
      print(many.flatMap((entered, thread) => callsOf(entered, few[thread] ?? [], thread)))
      return 'done'
    },
  },
})
const { error } = await team.execute('go')
await team.close()
if (error) throw error

interface Calls {
  readonly thread: number
  readonly file: string
  readonly place: string
  readonly calls: number
}

/** Calls of a request: those of many requests less those of a few, over the requests that these are more. */
function callsOf(many: readonly Entered[], few: readonly Entered[], thread: number): Calls[] {
  const before = new Map(few.map((each) => [`${each.url} ${each.start}`, each.calls]))
  return many.flatMap((each) => {
    const calls = (each.calls - (before.get(`${each.url} ${each.start}`) ?? 0)) / (MANY - FEW)
    return calls < LEAST_CALLS ? [] : [{ thread, calls, ...placeOf(each) }]
  })
}

/** Where in the sources a function is. */
function placeOf({ url, start, length, name }: Entered): { file: string; place: string } {
  const href = url.startsWith('file:') ? url : pathToFileURL(url).href
  const path = fileURLToPath(href)
  let source = sources.get(path)
  if (!source) {
    const text = readFileSync(path, 'utf8')
    const map = new SourceMap(JSON.parse(readFileSync(`${path}.map`, 'utf8')))
    source = { lines: text.split('\n'), length: text.length, map }
    sources.set(path, source)
  }
  let column = start - Math.max(0, length - source.length - '\n})'.length) // a thread runs its entry as a function
  let line = 0
  while (column > source.lines[line]!.length) column -= source.lines[line++]!.length + 1
  const origin = source.map.findEntry(line, column)
  if (!('originalSource' in origin)) throw new Error(`The source map of ${path} knows no ${name} at ${start}.`)
  const file = new URL(origin.originalSource, href).href.replace(root, '')
  return { file, place: `${file}:${origin.originalLine + 1} ${name}` }
}

function print(all: readonly Calls[]): void {
  if (process.argv[2] === 'list')
    for (const { thread, place, calls } of all.toSorted((one, other) => other.calls - one.calls))
      console.log(THREADS[thread]!.padEnd(9), calls.toFixed(2).padStart(6), place)
  const figures = (entered: readonly Calls[]) => ({
    calls: Math.round(entered.reduce((sum, { calls }) => sum + calls, 0)),
    functions: new Set(entered.map(({ place }) => place)).size,
    files: new Set(entered.map(({ file }) => file)).size,
  })
  const byThread = THREADS.map((name, thread) => [name, figures(all.filter((each) => each.thread === thread))])
  console.log(JSON.stringify({ all: figures(all), ...Object.fromEntries(byThread) }))
}
