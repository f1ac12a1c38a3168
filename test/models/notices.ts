import type { Logger } from '../../src/index.ts'

/** A logger that keeps what it is told from `warn` up. */
export function quietly(): { logger: Logger; lines: string[] } {
  const lines: string[] = []
  const say = (level: string) => (_fields: object, text: string) => void lines.push(`${level} ${text}`)
  const logger = { debug: () => {}, info: () => {}, warn: say('warn'), error: say('error') }
  return { logger, lines }
}
