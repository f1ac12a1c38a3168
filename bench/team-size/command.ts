/** `npm run bench -- team-size`: what a larger team brings, and what it costs. */
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander'
import { ConfigurationError } from 'dramatis'
import type { Surroundings } from '../../src/service/commands/run.ts'
import { EXIT, exitCodeOf, failureWords, listenForInterrupt } from '../../src/service/shared/failure.ts'
import { loadEnv } from '../../src/service/shared/load-team-file.ts'
import { machine, machineText } from '../machine.ts'
import { JOBS, type Kind } from './jobs.ts'
import { type SizeReport, sweep } from './sweep.ts'

interface Flags {
  job: Kind
  sizes: number[]
  rounds: number
  model?: string
  json?: boolean
}

const MOST_WORKERS = 64
const MOST_ROUNDS = 100

/** Runs one command line (what follows `team-size`) and resolves to its exit code. */
export async function main(args: readonly string[], { answer, stderr, folder }: Surroundings): Promise<number> {
  const command = new Command('npm run bench -- team-size')
    .description('One job, done by teams of several sizes: time and tokens of each.')
    .addOption(
      new Option('--job <kind>', 'parts that split, questions with one right answer, or a chain of steps')
        .choices(['parts', 'question', 'chain'])
        .default('parts'),
    )
    .option('--sizes <list>', 'numbers of workers, with commas', sizes, [1, 2, 4, 8, 16])
    .option('--rounds <n>', 'how often each size does the job', rounds, 3)
    .option(
      '--model <name>',
      'a real model, with the key of OPENAI_API_KEY at OPENAI_BASE_URL (default: a simulated one)',
    )
    .option('--json', 'print one JSON object and nothing else')
    .allowExcessArguments(false)
    .exitOverride() // errors come to us: commander would end the process
    .configureOutput({ writeOut: (text) => void answer.write(text), writeErr: (text) => void stderr.write(text) })
  try {
    command.parse(args, { from: 'user' })
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.done : EXIT.usage
    throw error
  }
  return measure(command.opts<Flags>(), { answer, stderr, folder })
}

type Wanted = Pick<Surroundings, 'answer' | 'stderr' | 'folder'>

async function measure(
  { job: kind, sizes, rounds, model, json }: Flags,
  { answer, stderr, folder }: Wanted,
): Promise<number> {
  loadEnv(folder)
  const { signal, stop } = listenForInterrupt((text) => void stderr.write(text))
  try {
    const told = ({ workers, ms }: SizeReport) => void stderr.write(`${workers} workers: ${Math.round(ms)} ms\n`)
    if (model !== undefined && !process.env.OPENAI_API_KEY && !process.env.OPENAI_BASE_URL) {
      throw new ConfigurationError('--model: there is no OPENAI_API_KEY; set it, or leave --model out.', {
        path: '--model',
      })
    }
    const job = await JOBS[kind]()
    const models = { default: model === undefined ? job.simulated : { model } }
    const reports = await sweep({ job, sizes, rounds, models }, signal, told)
    const whole = {
      machine,
      model: model ?? 'simulated',
      job: job.title,
      reports,
    }
    await answer.write(
      json
        ? `${JSON.stringify(whole, null, 2)}\n`
        : `${machineText}\n\n${table(reports, `${job.title}, by ${model ?? job.by}`)}\n`,
    )
    return EXIT.done
  } catch (error) {
    if (signal.aborted) return EXIT.interrupted
    stderr.write(`error: ${failureWords(error)}\n`)
    return exitCodeOf(error)
  } finally {
    stop()
  }
}

function table(reports: readonly SizeReport[], title: string): string {
  const [first] = reports
  const rows = reports.map(({ workers, ms, tokens, calls, right }) => [
    String(workers),
    Math.round(ms).toLocaleString('en'),
    first ? (first.ms / ms).toFixed(2) : '',
    tokens.toLocaleString('en'),
    first ? `${(((tokens - first.tokens) / first.tokens) * 100).toFixed(0)} %` : '',
    String(calls),
    ...(right === undefined ? [] : [`${(100 * right).toFixed(0)} %`]),
  ])
  const header = [
    'workers',
    'time, ms',
    'speed-up',
    'tokens',
    'more tokens',
    'calls',
    ...(first?.right === undefined ? [] : ['right']),
  ]
  const widths = header.map((title, at) => Math.max(title.length, ...rows.map((row) => row[at]?.length ?? 0)))
  const line = (cells: readonly string[]) => cells.map((cell, at) => cell.padStart(widths[at] ?? 0)).join('  ')
  return [title, '', ...[header, ...rows].map(line)].join('\n')
}

function sizes(text: string): number[] {
  const numbers = text.split(',').map(Number)
  if (numbers.every((size) => Number.isInteger(size) && size >= 1 && size <= MOST_WORKERS)) return numbers
  throw new InvalidArgumentError(`It takes whole numbers from 1 to ${MOST_WORKERS}, with commas between them.`)
}

function rounds(text: string): number {
  const value = Number(text)
  if (Number.isInteger(value) && value >= 1 && value <= MOST_ROUNDS) return value
  throw new InvalidArgumentError(`It takes a whole number from 1 to ${MOST_ROUNDS}.`)
}
