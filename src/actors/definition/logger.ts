/**
 * Where the runtime and the agents write. The signature is pino's own, so that a pino logger fits as it is.
 *
 * @example
 * createTeam({ agents, orchestration, logger: pino() })
 */
export interface Logger {
  debug(fields: object, text: string): void
  info(fields: object, text: string): void
  warn(fields: object, text: string): void
  error(fields: object, text: string): void
}

/** The four methods of a logger. */
export type LogLevel = keyof Logger
