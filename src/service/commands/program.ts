/** The commands, their options and their help. */
import { readFileSync } from 'node:fs'
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander'
import { EXIT, exitCodeOf, failureWords } from '../shared/failure.ts'
import type { AcpFlags } from './acp.ts'
import type { ClusterFlags } from './cluster.ts'
import type { EvalCasesFlags, EvalFlags } from './eval.ts'
import type { LogCompactFlags, LogRepairFlags } from './log.ts'
import type { McpFlags } from './mcp.ts'
import type { RehearseFlags, RehearseOldFlags } from './rehearse.ts'
import type { AnswerFlags, LogFlags, ResumeFlags, RunFlags, Surroundings } from './run.ts'
import type { ReplayFlags, RunsFlags } from './runs.ts'
import type { ScreenFlags } from './screens.ts'
import type { ServeFlags } from './serve.ts'

const STATUSES = ['queued', 'running', 'waiting', 'finished', 'failed', 'aborted', 'interrupted']

const EXAMPLES = `
Examples:
  dramatis run team.ts "Should we migrate from REST to GraphQL?"
  dramatis run agents.yaml "..." --json > result.json
  dramatis run team.js "..." --trace run.mmd
  dramatis serve desk=team.ts --port 4747
  dramatis serve desk=team.ts --cluster-env DATABASE_URL
  dramatis mcp desk=team.ts
  dramatis chat team.ts
  dramatis top http://127.0.0.1:4747 --token-env TOKEN
  dramatis rehearse team.ts "..." --seeds 1000 --faults crash,delay
  dramatis rehearse team.ts --from all --log ./log
  dramatis eval desk.eval.ts --junit report.xml
  dramatis runs --log ./log --status interrupted
  dramatis replay report-7 --log ./log --at end
  dramatis answer 0197f1d2-... "yes" --log ./log
  dramatis resume team.ts
  dramatis log check --log ./log

A team file exports defineTeam({ agents, orchestration }) as its default, or is an agents.yaml.
The answer goes to stdout, everything else to stderr.
Exit codes: 0 done, 1 a run failed, 2 wrong usage or configuration, 130 interrupted.`

/** Runs one command line (without `node` and the program) and resolves to its exit code. */
export async function main(args: readonly string[], surroundings: Surroundings): Promise<number> {
  const { answer, stderr } = surroundings
  let code: number = EXIT.done
  let written: Promise<void> = Promise.resolve()

  const end = async (work: Promise<number>) => {
    code = await work
  }
  // Modules of commands are loaded late: nobody who asks for help waits for the runtime.
  const program = new Command('dramatis')
    .description('Runs a team of AI agents, each an actor on its own thread.')
    .version(version(), '-v, --version', 'print the version')
    .helpOption('-h, --help', 'print this help')
    .addHelpText('after', EXAMPLES)
    .enablePositionalOptions() // an option belongs to the command before it: "eval" and "eval cases" share names
    .exitOverride() // errors come to us: commander would end the process with 1
    .configureOutput({
      writeOut: (text) => {
        written = written.then(() => answer.write(text))
      },
      writeErr: (text) => void stderr.write(text),
    })

  program
    .command('run')
    .description('run one query and print the answer')
    .argument('<team-file>', 'a .ts, .js or .yaml file')
    .argument('<query>', 'in quotes')
    .option('--json', 'print the whole result as JSON')
    .option('--trace <file>', 'write what happened: a Mermaid diagram (.mmd, .md) or JSON (any other name)')
    .option('--timeout <ms>', 'give up after that many milliseconds', milliseconds)
    .option('--watch', 'reload agents whose files change while the query runs')
    .showHelpAfterError('See "dramatis run --help". A query of several words needs quotes.')
    .action(async (file: string, query: string, flags: RunFlags) =>
      end((await import('./run.ts')).run(file, query, flags, surroundings)),
    )

  program
    .command('serve')
    .description('serve teams over HTTP, until SIGTERM or Ctrl-C; open tasks are answered first')
    .argument('<team-files...>', 'each a .ts, .js or .yaml file, as name=file or by the name of the file')
    .option('--port <number>', 'port; 0 takes a free one', portNumber, 4747)
    .option('--host <address>', 'address to listen at; another than a loopback one needs a token', '127.0.0.1')
    .option('--token-env <name>', 'environment variable with the token that every request needs')
    .option('--allowed-host <host>', 'value of the Host header that is answered; can be given several times', collected)
    .option('--allowed-origin <origin>', 'web page elsewhere that may use it; can be given several times', collected)
    .option(
      '--approve-own',
      'lets the token, or a client of MCP or A2A, approve calls of tools in its own tasks; the dashboard without a token may',
    )
    .option('--mcp', 'serves the teams by the Model Context Protocol, too, at /mcp')
    .option('--a2a', 'serves the teams by A2A, too, at /a2a/<team>')
    .option(
      '--a2a-push <origin>',
      'with --a2a: origin whose URLs may be told how tasks stand, "public" for any https URL; can be given several times',
      collected,
    )
    .option(
      '--price <file>',
      'JSON file with prices for a million tokens: {"currency", "models": {"name": {"input", "output"}}}',
    )
    .option('--drain <ms>', 'time for open tasks at the end', wholeNumber, 20_000)
    .option(
      '--cluster-env <name>',
      'environment variable with the URL of a PostgreSQL, or of brokers of NATS, over which several processes share the shards',
    )
    .option('--cluster <url>', 'that URL itself: its password stands in the list of processes')
    .option('--cluster-name <name>', 'name of the cluster; that of the team')
    .option('--cluster-shards <number>', 'number of shards, fixed at the first start; 16', wholeNumber)
    .option('--cluster-address <url>', 'URL at which the other processes reach this one; where it listens')
    .option('--cluster-secret-env <name>', 'environment variable with the secret of the processes, from 32 characters')
    .showHelpAfterError('See "dramatis serve --help".')
    .action(async (files: string[], flags: ServeFlags) =>
      end((await import('./serve.ts')).serve(files, flags, surroundings)),
    )

  const log = ['--log <folder or url>', 'stateManagement.path of the team, or URL of the engine of a cluster'] as const
  const ofCluster = ['--cluster-name <name>', 'with a URL: name of the cluster, if the engine has several'] as const
  const tokenEnv = ['--token-env <name>', 'environment variable with the token of a team that is served'] as const

  program
    .command('chat')
    .description('talk with a team, in one conversation')
    .argument('<team>', 'a .ts, .js or .yaml file, or the URL of a team that is served')
    .argument('[message]', 'the first one, in quotes')
    .option(...tokenEnv)
    .showHelpAfterError('See "dramatis chat --help".')
    .action(async (team: string, message: string | undefined, flags: ScreenFlags) =>
      end((await import('./screens.ts')).chat(team, message, flags, surroundings)),
    )

  program
    .command('top')
    .description('show what the agents of a team do, wait for and cost')
    .argument(
      '<team>',
      'a .ts, .js or .yaml file, the URL of a team that is served, or that of the engine of a cluster',
    )
    .argument('[query]', 'what a team of a file is to do meanwhile, in quotes')
    .option(...tokenEnv)
    .option(...ofCluster)
    .showHelpAfterError('See "dramatis top --help".')
    .action(async (team: string, query: string | undefined, flags: ScreenFlags) =>
      end((await import('./screens.ts')).top(team, query, flags, surroundings)),
    )

  program
    .command('rehearse')
    .description(
      'play one query through many schedules with faults, or old runs with the code of today, in virtual time',
    )
    .usage(
      '[options] <team-file> <query>\n       dramatis rehearse [options] <team-file> --from <run> --log <folder>\n       dramatis rehearse [options] <eval-file> --case <id> --playback <folder>',
    )
    .argument('<team-file>', 'a .ts, .js or .yaml file')
    .argument('[query]', 'in quotes')
    .option('--seeds <number>', 'how many runs; 100', wholeNumber)
    .option('--seed <seed>', 'play the run of that seed alone, and show it', wholeNumber)
    .option(
      '--faults [list]',
      `what may go wrong: some of crash,delay,duplicate,hang,refuse,model,late; ${USUAL_FAULTS}`,
    )
    .option('--record <file>', 'answer fetch and steps from that file; what is not in it is done once and kept there')
    .option(
      '--real-models',
      "ask the team's own models, which may cost money; the rehearsal model answers in their place",
    )
    .option('--real-tools', 'run all tools; those that are not readOnly, or work outside, are answered in their place')
    .option('--from <run>', 'play that run of a log, or "all"; can be given several times', collected)
    .option('--log <folder or url>', 'with --from: folder of the log, or URL of the engine of a cluster')
    .option(...ofCluster)
    .addOption(
      new Option('--status <status>', 'with --from all: only the runs of that status').choices([
        'finished',
        'failed',
        'aborted',
        'unfinished',
      ]),
    )
    .option('--case <id>', 'play that case of a suite, with its tape, and hold it to its gates')
    .option('--playback <folder>', 'with --case: folder of the tapes')
    .option('--repeat <number>', 'with --case: repeat whose tape it is; 1', wholeNumber)
    .option('--seed-timeout <ms>', 'real time without a step after which a run is ended; 30000', milliseconds)
    .option('--json', 'print everything as JSON')
    .showHelpAfterError('See "dramatis rehearse --help". A query of several words needs quotes.')
    .action(async (file: string, query: string | undefined, flags: RehearseFlags & Partial<RehearseOldFlags>) => {
      const { rehearse, rehearsalOf, rehearseOld } = await import('./rehearse.ts')
      const played = rehearsalOf(query, flags)
      if ('case' in played) return end((await import('./eval.ts')).evaluate([file], played, surroundings))
      if ('query' in played) await end(rehearse(file, played.query, flags, surroundings))
      else await end(rehearseOld(file, played, surroundings))
    })

  const evals = program
    .command('eval')
    .enablePositionalOptions()
    .usage('[options] <files...>\n       dramatis eval cases [options] --log <folder>')
    .description('measure a team by suites of cases; exit code 1: a gate or a score has failed, 2: a suite is broken')
    .argument('<files...>', 'each a .ts or .js file with a suite, by defineEval, as its default export')
    .option('--against <file>', 'compare with an earlier report of --json, or with the suite of another file')
    .option('--margin <score>', 'a score may be worse by that much; 0', fraction)
    .option('--alpha <chance>', 'how rare a difference has to be by chance; 0.05', fraction)
    .option('--repeats <number>', 'how often each case is played; what the suite says', wholeNumber)
    .option('--case <id>', 'only that case; can be given several times', collected)
    .option('--tag <tag>', 'only cases with that tag; can be given several times', collected)
    .option('--record <folder>', 'keep what models and tools answer in that folder, as tapes')
    .option('--playback <folder>', 'ask no model and no tool: the tapes of that folder answer, in virtual time')
    .option(
      '--seeds <number>',
      'with --playback: through how many schedules the tape of each case is played',
      wholeNumber,
    )
    .option(
      '--faults [list]',
      `with --seeds: what may go wrong, some of crash,delay,duplicate,hang,refuse,model; ${USUAL_FAULTS}`,
    )
    .option('--junit <file>', 'write a report in the XML of JUnit')
    .option('--json <file>', 'write the reports as JSON, for --against')
    .option('--html <file>', 'write the reports as one page, with the answers and diagrams of cases')
    .showHelpAfterError('See "dramatis eval --help".')
    .action(async (files: string[], flags: EvalFlags) =>
      end((await import('./eval.ts')).evaluate(files, flags, surroundings)),
    )

  evals
    .command('cases')
    .description('print the runs of a log as cases of a suite, a line of JSON each, without secrets')
    .requiredOption(...log)
    .option(...ofCluster)
    .addOption(
      new Option('--status <status>', 'only the runs of that status; finished').choices([
        'finished',
        'failed',
        'aborted',
        'unfinished',
      ]),
    )
    .option('--tag <tag>', 'only runs with that tag in metadata.tags; can be given several times', collected)
    .option('--tenant <tenant>', 'only runs of that tenant')
    .option(
      '--drop <pointer>',
      'leave out what stands there, such as /expected/email; can be given several times',
      collected,
    )
    .showHelpAfterError('See "dramatis eval cases --help".')
    .action(async (flags: EvalCasesFlags) => end((await import('./eval.ts')).evalCases(flags, surroundings)))

  program
    .command('trace')
    .description('print what happened in a run of a log, as a Mermaid diagram')
    .argument('<run>', 'id of the run')
    .requiredOption(...log)
    .option(...ofCluster)
    .option('--json', 'print the trace as JSON')
    .action(async (run: string, flags: LogFlags) => end((await import('./runs.ts')).trace(run, flags, surroundings)))

  program
    .command('replay')
    .description('list what happened in a run of a log, or print the state of the run at one moment')
    .argument('<run>', 'id of the run')
    .requiredOption(...log)
    .option(...ofCluster)
    .option('--at <seq>', 'print the state after that moment: a number of the list, or "end"', momentNumber)
    .option('--json', 'print it as JSON')
    .action(async (run: string, flags: ReplayFlags) =>
      end((await import('./runs.ts')).replay(run, flags, surroundings)),
    )

  program
    .command('runs')
    .description('list the runs of a log, with their status')
    .requiredOption(...log)
    .option(...ofCluster)
    .addOption(new Option('--status <status>', 'only the runs of that status').choices(STATUSES))
    .option('--json', 'print them as JSON')
    .action(async (flags: RunsFlags) => end((await import('./runs.ts')).runs(flags, surroundings)))

  program
    .command('resume')
    .description('go on with the interrupted runs of a team, or with one of them')
    .usage('[options] [run] <team-file>')
    .argument('<run-or-team-file>', 'id of a run, if a team file follows; else the team file')
    .argument('[team-file]', 'a .ts, .js or .yaml file, with stateManagement')
    .option('--json', 'print the whole results as JSON')
    .option('--timeout <ms>', 'give up after that many milliseconds', milliseconds)
    .addOption(
      new Option('--on-mismatch <mode>', 'what becomes of a run whose code has changed').choices([
        'refuse',
        'continue',
      ]),
    )
    .action(async (first: string, file: string | undefined, flags: ResumeFlags) =>
      end(
        (await import('./run.ts')).resume(file ?? first, file === undefined ? undefined : first, flags, surroundings),
      ),
    )

  program
    .command('questions')
    .description('list the questions to a person that are open in a log')
    .requiredOption(...log)
    .option(...ofCluster)
    .option('--json', 'print them as JSON')
    .action(async (flags: LogFlags) => end((await import('./run.ts')).questions(flags, surroundings)))

  program
    .command('answer')
    .description('answer a question of a run that no process goes on with now')
    .argument('<question>', 'id of the question')
    .argument('<answer>', 'in quotes; one of the choices, if it has some')
    .requiredOption('--log <folder>', 'folder of the log: stateManagement.path of the team')
    .option('--input <json>', 'with "yes" to an approval: input of the tool in the place of its own')
    .option('--reason <text>', 'with "no" to an approval: why the tool may not be called')
    .option('--group <name>', 'group of yours that the approval asks for; can be given several times', collected)
    .option('--digest <digest>', 'of the approval that you were shown: refused if it is another one by now')
    .showHelpAfterError('See "dramatis answer --help". An answer of several words needs quotes.')
    .action(async (question: string, text: string, flags: AnswerFlags) =>
      end((await import('./run.ts')).answer(question, text, flags, surroundings)),
    )

  program
    .command('mcp')
    .description('serve teams by the Model Context Protocol over stdin and stdout, for the program that starts this')
    .argument('<team-files...>', 'each a .ts, .js or .yaml file, as name=file or by the name of the file')
    .option('--agents', 'each agent is a tool of its own, too')
    .option('--wait <ms>', 'time for which a call waits for the end of its task; 20000', milliseconds)
    .option('--approve-own', 'lets that program approve calls of tools in its own tasks: only if it asks a person')
    .action(async (files: string[], flags: McpFlags) => end((await import('./mcp.ts')).mcp(files, flags, surroundings)))

  program
    .command('acp')
    .description('serve a team by the Agent Client Protocol over stdin and stdout, for the editor that starts this')
    .argument('<team-file>', 'a .ts, .js or .yaml file')
    .option('--approve-own', 'lets the person at the editor approve calls of tools in its own runs')
    .action(async (file: string, flags: AcpFlags) => end((await import('./acp.ts')).acp(file, flags, surroundings)))

  const cluster = program.command('cluster').description('look after the processes of a team that runs over several')
  const clusterEnv = ['--cluster-env <name>', 'environment variable with the URL of the PostgreSQL'] as const
  const clusterUrl = ['--cluster <url>', 'that URL itself'] as const
  const clusterName = ['--cluster-name <name>', 'name of the cluster: that of the team, as serve has it'] as const

  cluster
    .command('status')
    .description('list the processes, with the shards of each')
    .option(...clusterEnv)
    .option(...clusterUrl)
    .option(...clusterName, 'default')
    .option('--json', 'print them as JSON')
    .action(async (flags: ClusterFlags) => end((await import('./cluster.ts')).clusterStatus(flags, surroundings)))

  cluster
    .command('shards')
    .description('list the shards, with the owner, the tasks and the log of each')
    .option(...clusterEnv)
    .option(...clusterUrl)
    .option(...clusterName, 'default')
    .option('--json', 'print them as JSON')
    .action(async (flags: ClusterFlags) => end((await import('./cluster.ts')).clusterShards(flags, surroundings)))

  cluster
    .command('drain')
    .description('have a process give its shards over and end, as SIGTERM does')
    .argument('<node>', 'id of the process, or the begin of it')
    .option(...clusterEnv)
    .option(...clusterUrl)
    .option(...clusterName, 'default')
    .option('--cluster-secret-env <name>', 'environment variable with the secret of the processes')
    .action(async (node: string, flags: ClusterFlags) =>
      end((await import('./cluster.ts')).clusterDrain(node, flags, surroundings)),
    )

  const files = program.command('log').description('look after the files of a log: check, compact, repair')

  files
    .command('check')
    .description('read all of a log, also while a process has it, and say what is damaged; exit code 1 for damage')
    .requiredOption('--log <folder>', 'folder of the log: stateManagement.path of the team')
    .option('--json', 'print it as JSON')
    .action(async (flags: LogFlags) => end((await import('./log.ts')).logCheck(flags, surroundings)))

  files
    .command('compact')
    .description('give up what a log does not need, while no process has it')
    .requiredOption('--log <folder>', 'folder of the log: stateManagement.path of the team')
    .option('--keep-runs <number>', 'finished runs that are kept at most; 1000', wholeNumber)
    .option('--keep-days <number>', 'days for which they are kept; 30', wholeNumber)
    .option('--keep-bytes <number>', 'room that they may take, all together; 1073741824', wholeNumber)
    .option('--archive <folder>', 'write a JSON file of each run there before it is given up')
    .option('--json', 'print the sizes as JSON')
    .action(async (flags: LogCompactFlags) => end((await import('./log.ts')).logCompact(flags, surroundings)))

  files
    .command('repair')
    .description('say which runs of a damaged log can be kept; with a flag give the others up')
    .requiredOption('--log <folder>', 'folder of the log: stateManagement.path of the team')
    .option('--drop-runs', 'do it, while no process has the log: the damaged files are replaced')
    .option('--accept-loss', 'do it where the end of the log is missing: what stood there is lost')
    .option('--json', 'print it as JSON')
    .action(async (flags: LogRepairFlags) => end((await import('./log.ts')).logRepair(flags, surroundings)))

  try {
    await program.parseAsync(withFaults(args), { from: 'user' })
  } catch (error) {
    if (error instanceof CommanderError) code = error.exitCode === 0 ? EXIT.done : EXIT.usage
    else {
      stderr.write(`error: ${failureWords(error)}\n`)
      code = exitCodeOf(error)
    }
  }
  await written
  return code
}

function fraction(text: string): number {
  const value = Number(text)
  if (text.trim() !== '' && value >= 0 && value <= 1) return value
  throw new InvalidArgumentError('a number from 0 to 1 is needed.')
}

function milliseconds(text: string): number {
  const value = Number(text)
  if (/^\d+$/.test(text) && value > 0 && Number.isSafeInteger(value)) return value
  throw new InvalidArgumentError('It takes a whole number of milliseconds, from 1 on.')
}

const collected = (text: string, before: readonly string[] = []): string[] => [...before, text]

function wholeNumber(text: string): number {
  if (/^\d+$/.test(text)) return Number(text)
  throw new InvalidArgumentError('It takes a whole number.')
}

function portNumber(text: string): number {
  if (/^\d+$/.test(text) && Number(text) < 65_536) return Number(text)
  throw new InvalidArgumentError('It takes a port, from 0 to 65535.')
}

function momentNumber(text: string): number {
  if (text === 'end') return Number.POSITIVE_INFINITY
  if (/^\d+$/.test(text)) return Number(text)
  throw new InvalidArgumentError('It takes a number of the list that the command prints without --at, or "end".')
}

const USUAL_FAULTS = 'crash,delay,duplicate'

/** Writes the usual faults behind a `--faults` without a list: the parser would take the argument that comes next. */
function withFaults(args: readonly string[]): string[] {
  const isList = (next: string | undefined) => next !== undefined && /^[a-z]*( *, *[a-z]*)*$/i.test(next)
  return args.map((arg, at) => (arg === '--faults' && !isList(args[at + 1]) ? `${arg}=${USUAL_FAULTS}` : arg))
}

/** From the package's own package.json, wherever this file was compiled to. */
function version(): string {
  const text = readFileSync(new URL(import.meta.resolve('dramatis/package.json')), 'utf8')
  const content: { version?: unknown } = JSON.parse(text)
  return String(content.version)
}
