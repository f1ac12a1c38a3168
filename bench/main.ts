/**
 * `npm run bench`: measures and compares with the targets. A missed target is a result, not an error.
 *
 *   npm run bench                 everything
 *   npm run bench -- b1 b4        some
 *   npm run bench -- --json b9    one JSON document on stdout
 *   npm run bench -- criteria --questions 200 --model gpt-4.1-mini    with a real model where answers are counted
 *   npm run bench -- load ...     loads a team of yours, see load/
 *   npm run bench -- team-size    one job by teams of several sizes, see team-size/
 */
import { parseArgs } from 'node:util'
import { takeStdout } from '../src/service/shared/screen.ts'
import { b1 } from './b1.ts'
import { b2 } from './b2.ts'
import { b3 } from './b3.ts'
import { b4 } from './b4.ts'
import { b5 } from './b5.ts'
import { b6 } from './b6.ts'
import { b7 } from './b7.ts'
import { b8 } from './b8.ts'
import { b9 } from './b9.ts'
import { b10 } from './b10.ts'
import { b11, b11b, b11c } from './b11.ts'
import { b12 } from './b12.ts'
import { b13 } from './b13.ts'
import { b14 } from './b14.ts'
import { b17 } from './b17.ts'
import { b18 } from './b18.ts'
import { b19 } from './b19.ts'
import { b20 } from './b20.ts'
import { b21 } from './b21.ts'
import { b22 } from './b22.ts'
import { b23 } from './b23.ts'
import { b24 } from './b24.ts'
import { b25 } from './b25.ts'
import { b26 } from './b26.ts'
import type { Benchmark, BenchmarkOptions } from './benchmark.ts'
import { b27, b28 } from './cluster.ts'
import { criteria } from './criteria.ts'
import { machine, machineText } from './machine.ts'
import { b15, b16 } from './many-agents.ts'
import { type BenchmarkReport, format, HEADER, report } from './report.ts'

const benchmarks: readonly Benchmark[] = [
  b1,
  b2,
  b3,
  b4,
  b5,
  b6,
  b7,
  b8,
  b9,
  b10,
  b11,
  b11b,
  b11c,
  b12,
  b13,
  b14,
  b15,
  b16,
  b17,
  b18,
  b19,
  b20,
  b21,
  b22,
  b23,
  b24,
  b25,
  b26,
  b27,
  b28,
  criteria,
]

const LINGER_MS = 1_000
const MOST_QUESTIONS = 1_000_000

const [first, ...rest] = process.argv.slice(2)
const commands = { load: () => import('./load/command.ts'), 'team-size': () => import('./team-size/command.ts') }
const command =
  first !== undefined && Object.hasOwn(commands, first) ? commands[first as keyof typeof commands] : undefined
process.exitCode = await (command ? commanded(command, rest) : main(process.argv.slice(2)))

async function commanded(load: (typeof commands)[keyof typeof commands], args: string[]): Promise<number> {
  const { main } = await load()
  const code = await main(args, {
    answer: takeStdout(),
    stderr: process.stderr,
    stdin: process.stdin,
    folder: process.cwd(),
  })
  setTimeout(() => process.exit(), LINGER_MS).unref() // what a team file has left open does not keep us for ever
  return code
}

async function main(args: string[]): Promise<number> {
  let json = false
  let chosen = benchmarks
  let options: BenchmarkOptions
  try {
    const { values, positionals } = parseArgs({
      args,
      allowPositionals: true,
      options: { json: { type: 'boolean' }, questions: { type: 'string' }, model: { type: 'string' } },
    })
    json = values.json ?? false
    chosen = select(positionals)
    options = { questions: questionsIn(values.questions), model: values.model }
  } catch (error) {
    console.error(
      `${textOf(error)}\nUsage: npm run bench [-- <id ...> --json --questions <n> --model <name>], ids: ${ids()}\n       npm run bench -- load <team file>, see load --help\n       npm run bench -- team-size, see team-size --help`,
    )
    return 1
  }
  if (!json) console.log(`${machineText}\n\n${HEADER}`)

  const reports: BenchmarkReport[] = []
  const errors: { id: string; error: string }[] = []
  for (const benchmark of chosen) {
    try {
      const measured = report(benchmark, await benchmark.run(options))
      reports.push(measured)
      if (!json) console.log(format(measured))
    } catch (error) {
      // the others are still worth having
      errors.push({ id: benchmark.id, error: textOf(error) })
      console.error(`${benchmark.id} failed: ${textOf(error)}`)
    }
  }
  if (json) console.log(JSON.stringify({ machine, benchmarks: reports, errors }, null, 2))
  return errors.length === 0 ? 0 : 1
}

function select(names: readonly string[]): readonly Benchmark[] {
  if (names.length === 0) return benchmarks
  return names.map((name) => {
    const found = benchmarks.find(({ id }) => id.toLowerCase() === name.toLowerCase())
    if (!found) throw new Error(`There is no benchmark "${name}".`)
    return found
  })
}

function questionsIn(text = '1000'): number {
  const questions = Number(text)
  if (Number.isInteger(questions) && questions > 0 && questions <= MOST_QUESTIONS) return questions
  throw new Error(`--questions takes a whole number from 1 to ${MOST_QUESTIONS.toLocaleString('en')}, got "${text}".`)
}

function ids(): string {
  return benchmarks.map(({ id }) => id.toLowerCase()).join(' ')
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
