/** `npm run bench -- load <team file>`: loads any team, and says how it bears up. */
import { createTeam } from 'dramatis'
import type { Surroundings } from '../../src/service/commands/run.ts'
import { EXIT, exitCodeOf, failureWords, listenForInterrupt } from '../../src/service/shared/failure.ts'
import { loadEnv, loadTeamFile } from '../../src/service/shared/load-team-file.ts'
import { unlessAborted } from '../../src/shared/on-abort.ts'
import { machine, machineText } from '../machine.ts'
import { load } from './load.ts'
import { loadText } from './load-report.ts'
import { type LoadOptions, loadOptions } from './options.ts'

/** Runs one command line (what follows `load`) and resolves to its exit code. */
export async function main(args: readonly string[], surroundings: Surroundings): Promise<number> {
  const { answer, stderr } = surroundings
  let written = Promise.resolve()
  const options = loadOptions(args, {
    out: (text) => {
      written = answer.write(text)
    },
    error: (text) => void stderr.write(text),
  })
  await written
  if (typeof options === 'number') return options === 0 ? EXIT.done : EXIT.usage
  try {
    return await measure(options, surroundings)
  } catch (error) {
    stderr.write(`error: ${failureWords(error)}\n`)
    return exitCodeOf(error)
  }
}

async function measure({ plan, json }: LoadOptions, { answer, stderr, folder }: Surroundings): Promise<number> {
  loadEnv(folder)
  const { signal, stop } = listenForInterrupt((text) => void stderr.write(text))
  try {
    const definition = await unlessAborted(signal, loadTeamFile(plan.file, folder))
    const team = createTeam(definition)
    try {
      await unlessAborted(signal, team.start())
      stderr.write(`loading ${plan.file} for ${plan.seconds} s; Ctrl-C ends it\n`)
      const loaded = await load(team, plan, signal)
      await answer.write(
        json ? `${JSON.stringify({ machine, ...loaded }, null, 2)}\n` : `${machineText}\n${loadText(loaded)}`,
      )
      if (signal.aborted) return EXIT.interrupted
      return loaded.answered > 0 ? EXIT.done : EXIT.failed
    } finally {
      await team.close()
    }
  } catch (error) {
    if (signal.aborted) return EXIT.interrupted
    throw error
  } finally {
    stop()
  }
}
