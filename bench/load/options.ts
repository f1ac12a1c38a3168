/** What a load test is asked for on the command line. */
import { Command, CommanderError, InvalidArgumentError } from 'commander'

/** How a team is loaded. */
export interface Plan {
  /** As it was written. */
  file: string
  /** Executes under way at a time, at most; null: as many as are due. */
  concurrency: number | null
  /** Executes per second; null: the next as soon as one has ended. */
  rate: number | null
  seconds: number
  /** Bytes of each query. */
  size: number
}

export interface LoadOptions {
  plan: Plan
  json: boolean
}

interface Flags {
  concurrency?: number
  rate?: number
  seconds: number
  size: number
  json?: boolean
}

const DETAILS = `
Without --rate each execute begins when one has ended, so a slow team is asked less often. With --rate they begin at
fixed times, and a latency counts from when its execute was due; with --concurrency besides, what is due waits its turn.

Ctrl-C ends the test and prints what there is so far. What the figures mean: bench/README.md
Exit codes: 0 done, 1 nothing was answered, 2 wrong usage or configuration, 130 interrupted.`

/** The largest query that still fits a message, with room for what a message has besides. */
const MAX_SIZE = 16_000_000
const MAX_SECONDS = 86_400
const MAX_CONCURRENCY = 100_000
const MAX_RATE = 1_000_000

/** The options, or the exit code where help or an error has been written. */
export function loadOptions(
  args: readonly string[],
  write: { out: (text: string) => void; error: (text: string) => void },
): LoadOptions | number {
  let options: LoadOptions | undefined
  const command = new Command('npm run bench -- load')
    .description('Loads the team of a team file with queries, and says how it bears up.')
    .argument('<team-file>', 'a .ts or .js file, as dramatis run takes it')
    .option('--concurrency <n>', 'executes under way at a time (default: 1, and no limit with --rate)', count)
    .option('--rate <r>', 'executes per second', perSecond)
    .option('--seconds <s>', 'how long', seconds, 10)
    .option('--size <bytes>', 'bytes of each query', bytes, 200)
    .option('--json', 'print one JSON object and nothing else')
    .helpOption('-h, --help', 'print this help')
    .addHelpText('after', DETAILS)
    .allowExcessArguments(false)
    .exitOverride() // errors come to us: commander would end the process
    .configureOutput({ writeOut: write.out, writeErr: write.error })
    .showHelpAfterError('See "npm run bench -- load --help".')
    .action((file: string, flags: Flags) => {
      const { rate = null, concurrency = rate === null ? 1 : null, seconds, size, json = false } = flags
      options = { plan: { file, concurrency, rate, seconds, size }, json }
    })
  try {
    command.parse(args, { from: 'user' })
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode
    throw error
  }
  return options!
}

const count = (text: string) => whole(text, 1, MAX_CONCURRENCY, '')
const bytes = (text: string) => whole(text, 1, MAX_SIZE, ' of bytes')
const perSecond = (text: string) => above0(text, MAX_RATE, 'executes per second')
const seconds = (text: string) => above0(text, MAX_SECONDS, 'seconds')

// commander has named the option and what came before these words
function whole(text: string, from: number, to: number, unit: string): number {
  const value = Number(text)
  if (/^\d+$/.test(text) && value >= from && value <= to) return value
  throw new InvalidArgumentError(`It takes a whole number${unit} from ${from} to ${to}.`)
}

function above0(text: string, to: number, unit: string): number {
  const value = Number(text)
  if (/^\d+(\.\d+)?$/.test(text) && value > 0 && value <= to) return value
  throw new InvalidArgumentError(`It takes a number of ${unit} above 0, up to ${to}.`)
}
