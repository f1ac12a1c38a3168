/** `dramatis chat <url or team file> [message]`: a conversation with a team at the terminal. */

import { ConfigurationError } from '../../shared/errors.ts'
import { unlessAborted } from '../../shared/on-abort.ts'
import { isClusterUrl } from '../shared/cluster-url.ts'
import { EXIT, untilInterrupt } from '../shared/failure.ts'
import { loadEnv } from '../shared/load-team-file.ts'
import { isTerminal, type Print } from '../shared/screen.ts'
import { Chat } from '../terminal/chat.ts'
import { ClusterSource } from '../terminal/cluster-source.ts'
import { openSources, type TeamSource, tokenIn } from '../terminal/source.ts'
import { type Keys, showTop } from '../terminal/top.ts'
import type { Surroundings } from './run.ts'

export interface ScreenFlags {
  tokenEnv?: string
  clusterName?: string
}

const ENGINE =
  'That is the URL of the engine of a cluster. Talk with one of its processes: "dramatis cluster status" has their addresses.'

/** Talks until the input ends or somebody leaves, and resolves to the exit code. */
export async function chat(
  target: string,
  message: string | undefined,
  { tokenEnv }: ScreenFlags,
  { answer, stderr, stdin, folder }: Surroundings,
): Promise<number> {
  if (isClusterUrl(target)) throw new ConfigurationError(ENGINE, { path: 'team' })
  let print: Print = (text) => void stderr.write(text)
  return untilInterrupt(
    (text) => print(text),
    async (signal) => {
      const [source, ...others] = await openSources(target, { folder, tokenEnv, signal, print: (text) => print(text) })
      try {
        const input: Keys = stdin
        const talking = new Chat({
          source,
          others: others.flatMap(({ team = [] }) => team),
          screen: stderr,
          input,
          isTerminal: isTerminal(stderr) && input.isTTY === true,
          tell: (text) => answer.write(text),
          signal,
        })
        print = talking.print
        const isWell = await talking.talk(message)
        if (signal.aborted) return EXIT.interrupted
        return isWell ? EXIT.done : EXIT.failed
      } finally {
        await source.close()
      }
    },
  )
}

/** Shows the team until somebody leaves, and resolves to the exit code. */
export async function top(
  target: string,
  query: string | undefined,
  { tokenEnv, clusterName }: ScreenFlags,
  { stderr, stdin, folder }: Surroundings,
): Promise<number> {
  if (!isTerminal(stderr)) {
    const other = isClusterUrl(target)
      ? 'Use "dramatis cluster status" and "dramatis runs".'
      : /^https?:/.test(target)
        ? 'Ask the service: GET /api/turns.'
        : 'Use "dramatis run".'
    throw new ConfigurationError(`dramatis top draws a screen, and stderr is no terminal. ${other}`, {})
  }
  const print = () => {} // the screen shows what matters
  return untilInterrupt(print, async (signal) => {
    const sources = isClusterUrl(target)
      ? [await unlessAborted(signal, clusterSource(target, clusterName, tokenEnv, folder))]
      : await openSources(target, { folder, tokenEnv, signal, print })
    const [source, ...others] = sources as [TeamSource, ...TeamSource[]]
    try {
      if (query !== undefined) void asked(source, query)
      await showTop({ source, others, screen: stderr, keys: stdin, signal })
      return EXIT.done
    } finally {
      for (const each of sources) await each.close()
    }
  })
}

async function clusterSource(url: string, name: string | undefined, tokenEnv: string | undefined, folder: string) {
  loadEnv(folder)
  return ClusterSource.open(url, name, tokenEnv === undefined ? undefined : tokenIn(tokenEnv))
}

async function asked(source: TeamSource, query: string): Promise<void> {
  try {
    for await (const _ of source.say(query, 'top').said);
  } catch {
    // the screen shows how the run has ended
  }
}
