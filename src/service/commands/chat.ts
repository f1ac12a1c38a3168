/** `dramatis chat <url or team file> [message]`: a conversation with a team at the terminal. */
import type { Print } from '../answer-stream.ts'
import { EXIT } from '../failure.ts'
import { listenForInterrupt } from '../interrupt.ts'
import { isTerminal } from '../screen.ts'
import { Chat } from '../terminal/chat.ts'
import { openSources } from '../terminal/open-source.ts'
import type { Keys } from '../terminal/top.ts'
import type { Surroundings } from './run.ts'

export interface ChatFlags {
  tokenEnv?: string
}

/** Talks until the input ends or somebody leaves, and resolves to the exit code. */
export async function chat(
  target: string,
  message: string | undefined,
  { tokenEnv }: ChatFlags,
  { answer, stderr, stdin, folder }: Surroundings,
): Promise<number> {
  let print: Print = (text) => void stderr.write(text)
  const { signal, stop } = listenForInterrupt((text) => print(text))
  try {
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
  } catch (error) {
    if (signal.aborted) return EXIT.interrupted
    throw error
  } finally {
    stop()
  }
}
