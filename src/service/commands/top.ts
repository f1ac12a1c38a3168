/** `dramatis top <url or team file> [query]`: a screen that shows what a team does. */
import { ConfigurationError } from '../../errors.ts'
import { EXIT } from '../failure.ts'
import { listenForInterrupt } from '../interrupt.ts'
import { isTerminal } from '../screen.ts'
import { openSources } from '../terminal/open-source.ts'
import type { TeamSource } from '../terminal/source.ts'
import { showTop } from '../terminal/top.ts'
import type { Surroundings } from './run.ts'

export interface TopFlags {
  tokenEnv?: string
}

/** Shows the team until somebody leaves, and resolves to the exit code. */
export async function top(
  target: string,
  query: string | undefined,
  { tokenEnv }: TopFlags,
  { stderr, stdin, folder }: Surroundings,
): Promise<number> {
  if (!isTerminal(stderr))
    throw new ConfigurationError('dramatis top draws a screen, and stderr is no terminal. Use "dramatis run".', {})
  const { signal, stop } = listenForInterrupt(() => {})
  try {
    const [source, ...others] = await openSources(target, { folder, tokenEnv, signal, print: () => {} }) // the screen shows what matters
    try {
      if (query !== undefined) void asked(source, query)
      await showTop({ source, others, screen: stderr, keys: stdin, signal })
      return EXIT.done
    } finally {
      for (const each of [source, ...others]) await each.close()
    }
  } catch (error) {
    if (signal.aborted) return EXIT.interrupted
    throw error
  } finally {
    stop()
  }
}

/** Gives the team a query, whose run the screen shows. */
async function asked(source: TeamSource, query: string): Promise<void> {
  try {
    for await (const _ of source.say(query, 'top').said);
  } catch {
    // the screen shows how the run has ended
  }
}
